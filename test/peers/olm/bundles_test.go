// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package olm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/peers/olm/images"
)

// The versions of this story. `make test-olm` makes their bundles and images.
const (
	first = "0.1.0"
	next  = "0.2.0"
)

// The packages, and one that owns what ours owns: in the catalogs, that is Open
// Cluster Management's.
const (
	hubPackage     = "capstan-hub"
	memberPackage  = "capstan-klusterlet"
	foreignPackage = "cluster-manager"
)

const registry = "quay.io/capstan-io"

// shelf makes the images of opm, bundles and catalogs and puts them onto the nodes.
type shelf struct {
	t    *testing.T
	work string
	opm  string
	// bundles are the arguments for hack/catalog: a directory and its image.
	bundles map[string][]string
}

// newShelf loads opm and the bundles of both versions, and a foreign one.
func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, work: t.TempDir(), bundles: map[string][]string{}}
	sources := []images.Source{{Repository: "quay.io/operator-framework/opm", Directory: theLab.made("images/opm")}}
	versions := []string{first, first, next, next, first}
	directories := []string{
		theLab.made("bundles/" + first + "/clustermanager"), theLab.made("bundles/" + first + "/klusterlet"),
		theLab.made("bundles/" + next + "/clustermanager"), theLab.made("bundles/" + next + "/klusterlet"), s.foreign(),
	}
	for _, directory := range directories {
		sources = append(sources, images.Source{Repository: registry + "/" + filepath.Base(directory) + "-bundle", Directory: directory})
	}
	names := s.images(sources...)
	s.opm = names[0]
	for i, version := range versions {
		s.bundles[version] = append(s.bundles[version], directories[i]+"="+names[i+1])
	}
	return s
}

// images makes images of directories and loads them.
func (s *shelf) images(sources ...images.Source) []string {
	s.t.Helper()
	archive := filepath.Join(s.work, "images.tar")
	names, err := images.Write(archive, sources...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := theLab.load(s.t.Context(), archive); err != nil {
		s.t.Fatal(err)
	}
	return names
}

// foreign makes the bundle of the foreign package: ours of the hub, under
// another name. It is never installed, so it needs no image of its own.
func (s *shelf) foreign() string {
	s.t.Helper()
	directory := filepath.Join(s.work, foreignPackage)
	if err := os.CopyFS(directory, os.DirFS(theLab.made(filepath.Join("bundles", first, "clustermanager")))); err != nil {
		s.t.Fatal(err)
	}
	old := filepath.Join(directory, "manifests", hubPackage+".clusterserviceversion.yaml")
	for path, target := range map[string]string{
		old: strings.Replace(old, hubPackage, foreignPackage, 1),
		filepath.Join(directory, "metadata", "annotations.yaml"): filepath.Join(directory, "metadata", "annotations.yaml"),
	} {
		content, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(strings.ReplaceAll(string(content), hubPackage, foreignPackage)), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	return directory
}

// catalog makes the catalog with the bundles of the versions, and the cache that
// OLM serves it from.
func (s *shelf) catalog(versions ...string) images.Source {
	s.t.Helper()
	directory := filepath.Join(s.work, "catalog-"+strings.Join(versions, "-"))
	args := []string{"run", "./hack/catalog", "-out", filepath.Join(directory, "configs")}
	for _, version := range versions {
		args = append(args, s.bundles[version]...)
	}
	if _, err := output(s.t.Context(), theLab.root, "go", args...); err != nil {
		s.t.Fatal(err)
	}
	opm := theLab.made("images/opm/bin/opm")
	if _, err := output(s.t.Context(), "", opm, "validate", filepath.Join(directory, "configs")); err != nil {
		s.t.Fatalf("the catalog is not valid: %v", err)
	}
	cache := filepath.Join(directory, "cache")
	if _, err := output(s.t.Context(), "", opm, "serve", filepath.Join(directory, "configs"), "--cache-dir="+cache, "--cache-only", "--termination-log="); err != nil {
		s.t.Fatal(err)
	}
	return images.Source{Repository: registry + "/capstan-catalog", Directory: directory}
}
