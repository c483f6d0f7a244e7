// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command charts writes the Helm chart of an operator from what its kustomize
// base renders, so that Helm installs what `make deploy` and `capstan init`
// install.
//
//	kustomize build config/operator/klusterlet | charts -version 0.1.0 klusterlet
//
// It writes deploy/helm/<operator>. What is in no base, such as the hooks and the
// notes, is in the folder parts; the values are listed in values_*.go. The same
// input always makes the same files.
package main

import (
	"embed"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// parts are the files of the charts that are not made of anything.
//
//go:embed all:parts
var parts embed.FS

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "charts: %v\n", err)
		os.Exit(1)
	}
}

func run(manifests io.Reader, args []string) error {
	flags := flag.NewFlagSet("charts", flag.ContinueOnError)
	out := flags.String("out", "deploy/helm", "directory to write the chart's directory into")
	release := flags.String("version", "", "semantic version of the chart and of the image, without a leading v")
	registry := flags.String("registry", "quay.io/capstan-io", "registry of the image")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *release == "" {
		return fmt.Errorf("usage: kustomize build config/operator/NAME | charts -version VERSION cluster-manager|klusterlet")
	}
	c, err := chartNamed(flags.Arg(0), *release, *registry)
	if err != nil {
		return err
	}
	base, err := readObjects(manifests)
	if err != nil {
		return fmt.Errorf("reading the manifests of %s from standard input: %w", c.name, err)
	}
	files, err := c.files(base)
	if err != nil {
		return fmt.Errorf("making the chart of %s: %w", c.name, err)
	}
	return write(filepath.Join(*out, c.name), files)
}

// chart is what is told to make one.
type chart struct {
	name, release string
	kind          string // of the object that the operator works for
	about         string // one line
	values        []value
}

func chartNamed(name, release, registry string) (chart, error) {
	c := chart{name: name, release: release}
	switch name {
	case "cluster-manager":
		c.kind, c.about, c.values = "ClusterManager", "Makes a cluster the hub of a fleet of Kubernetes clusters", clusterManagerValues(registry)
	case "klusterlet":
		c.kind, c.about, c.values = "Klusterlet", "Lets a cluster join a hub as a member of its fleet", klusterletValues(registry)
	default:
		return c, fmt.Errorf("there is no chart %q: want cluster-manager or klusterlet", name)
	}
	return c, nil
}

// files returns the content of the chart by path.
func (c chart) files(base *objects) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, folder := range []string{"parts/shared", "parts/" + c.name} {
		err := fs.WalkDir(parts, folder, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := parts.ReadFile(file)
			files[strings.TrimPrefix(file, folder+"/")] = []byte(c.named(string(content)))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	templates, err := c.templates(base)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, templates)
	if files["values.schema.json"], err = c.schema(base.definition); err != nil {
		return nil, err
	}
	if files["values.yaml"], err = c.valuesFile(); err != nil {
		return nil, err
	}
	files["Chart.yaml"] = []byte(c.metadata())
	table, err := c.table()
	if err != nil {
		return nil, err
	}
	files["README.md"] = []byte(strings.Replace(string(files["README.md"]), "<!-- values -->\n", table, 1))
	return files, nil
}

// named writes the names of the chart into a part that both have.
func (c chart) named(text string) string {
	return strings.NewReplacer("@operator@", c.name, "@kind@", c.kind, "@values@", strings.ToLower(c.kind[:1])+c.kind[1:], "@plural@", strings.ToLower(c.kind)+"s",
		"@version@", c.release).Replace(text)
}

// write replaces the directory by the files.
func write(directory string, files map[string][]byte) error {
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("removing the former chart: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(directory, filepath.FromSlash(path.Clean(name)))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("making the directory of %s: %w", file, err)
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
	}
	return nil
}
