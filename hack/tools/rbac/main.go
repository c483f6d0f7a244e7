// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rbac writes the roles of components from the +kubebuilder:rbac markers of
// their packages, as controller-gen does for one component at a time: it loads the
// packages once for all of them.
//
//	rbac ROOT OUTPUT COMPONENT=FOLDER[/...],FOLDER[/...]...
//
// The role of a component goes to OUTPUT/COMPONENT/role.yaml. Folders are below ROOT,
// the folder of a module. A component whose packages have no marker gets no role.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/controller-tools/pkg/rbac"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "rbac: %v\n", err)
		os.Exit(1)
	}
}

// component is what gets a role of its own, and the folders with its packages.
type component struct {
	name    string
	folders []string
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: rbac ROOT OUTPUT COMPONENT=FOLDER,FOLDER")
	}
	root, output := args[0], args[1]
	var components []component
	for _, arg := range args[2:] {
		name, folders, _ := strings.Cut(arg, "=")
		if name == "" || folders == "" {
			return fmt.Errorf("%q is not COMPONENT=FOLDER,FOLDER", arg)
		}
		components = append(components, component{name: name, folders: strings.Split(folders, ",")})
	}
	loaded, err := load(root, components)
	if err != nil {
		return err
	}
	for _, c := range components {
		if err := write(c, loaded, filepath.Join(output, c.name)); err != nil {
			return err
		}
	}
	return nil
}

// load returns the packages of all components.
func load(root string, components []component) ([]*loader.Package, error) {
	var patterns []string
	for _, c := range components {
		for _, folder := range c.folders {
			patterns = append(patterns, "./"+folder)
		}
	}
	slices.Sort(patterns)
	loaded, err := loader.LoadRootsWithConfig(&packages.Config{Dir: root, Mode: packages.NeedModule}, slices.Compact(patterns)...)
	if err != nil {
		return nil, fmt.Errorf("loading the packages: %w", err)
	}
	if loader.PrintErrors(loaded, packages.TypeError) {
		return nil, errors.New("not all packages could be loaded")
	}
	return loaded, nil
}

// write writes the role of a component, in place of any that is there.
func write(c component, loaded []*loader.Package, folder string) error {
	if err := os.RemoveAll(folder); err != nil { //nolint:gosec // who runs it says where
		return fmt.Errorf("deleting the former role of %s: %w", c.name, err)
	}
	collector := &markers.Collector{Registry: &markers.Registry{}}
	generator := rbac.Generator{RoleName: c.name}
	if err := generator.RegisterMarkers(collector.Registry); err != nil {
		return fmt.Errorf("preparing the markers: %w", err)
	}
	mine := slices.DeleteFunc(slices.Clone(loaded), func(p *loader.Package) bool { return !c.has(p) })
	if len(mine) == 0 {
		return fmt.Errorf("%s has no package in %v", c.name, c.folders)
	}
	err := generator.Generate(&genall.GenerationContext{
		Collector: collector, Roots: mine, OutputRule: genall.OutputToDirectory(folder), InputRule: genall.InputFromFileSystem,
	})
	if err != nil {
		return fmt.Errorf("writing the role of %s: %w", c.name, err)
	}
	return nil
}

// has reports whether a package is in one of the folders of the component.
func (c component) has(p *loader.Package) bool {
	path := strings.TrimPrefix(p.PkgPath, p.Module.Path+"/")
	return slices.ContainsFunc(c.folders, func(folder string) bool {
		within, all := strings.CutSuffix(folder, "/...")
		return path == within || all && strings.HasPrefix(path, within+"/")
	})
}
