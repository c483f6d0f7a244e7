// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/test/peers/olm/images"
)

// The versions of this story. `make test-olm` makes their bundles and images.
const (
	First = "0.1.0"
	Next  = "0.2.0"
)

// The packages, and one that owns what ours owns: in the catalogs, that is Open
// Cluster Management's.
const (
	HubPackage     = "capstan-hub"
	MemberPackage  = "capstan-klusterlet"
	ForeignPackage = "cluster-manager"
)

const registry = "quay.io/capstan-io"

// BundleShelf makes the images of opm, bundles and catalogs and puts them onto the nodes.
type BundleShelf struct {
	t    *testing.T
	lab  *Lab
	work string
	opm  string
	// bundles are the arguments for hack/catalog: a directory and its image.
	bundles map[string][]string
}

// NewBundleShelf loads opm and the bundles of both versions, and a foreign one.
func NewBundleShelf(t *testing.T, lab *Lab) *BundleShelf {
	t.Helper()
	s := &BundleShelf{t: t, lab: lab, work: t.TempDir(), bundles: map[string][]string{}}
	sources := []images.Source{{Repository: "quay.io/operator-framework/opm", Directory: s.lab.MadePath("images/opm")}}
	versions := []string{First, First, Next, Next, First}
	directories := []string{
		s.lab.MadePath("bundles/" + First + "/clustermanager"), s.lab.MadePath("bundles/" + First + "/klusterlet"),
		s.lab.MadePath("bundles/" + Next + "/clustermanager"), s.lab.MadePath("bundles/" + Next + "/klusterlet"), s.foreignBundle(),
	}
	for _, directory := range directories {
		sources = append(sources, images.Source{Repository: registry + "/" + filepath.Base(directory) + "-bundle", Directory: directory})
	}
	names := s.LoadImages(sources...)
	s.opm = names[0]
	for i, version := range versions {
		s.bundles[version] = append(s.bundles[version], directories[i]+"="+names[i+1])
	}
	return s
}

// LoadImages makes images of directories and loads them.
func (s *BundleShelf) LoadImages(sources ...images.Source) []string {
	s.t.Helper()
	archive := filepath.Join(s.work, "images.tar")
	names, err := images.Write(archive, sources...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.lab.load(s.t.Context(), archive); err != nil {
		s.t.Fatal(err)
	}
	return names
}

// foreignBundle makes the bundle of the foreign package: ours of the hub, under
// another name. It is never installed, so it needs no image of its own.
func (s *BundleShelf) foreignBundle() string {
	s.t.Helper()
	directory := filepath.Join(s.work, ForeignPackage)
	if err := os.CopyFS(directory, os.DirFS(s.lab.MadePath(filepath.Join("bundles", First, "clustermanager")))); err != nil {
		s.t.Fatal(err)
	}
	old := filepath.Join(directory, "manifests", HubPackage+".clusterserviceversion.yaml")
	for path, target := range map[string]string{
		old: strings.Replace(old, HubPackage, ForeignPackage, 1),
		filepath.Join(directory, "metadata", "annotations.yaml"): filepath.Join(directory, "metadata", "annotations.yaml"),
	} {
		content, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(strings.ReplaceAll(string(content), HubPackage, ForeignPackage)), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	return directory
}

// MakeCatalog makes the catalog with the bundles of the versions, and the cache that
// OLM serves it from.
func (s *BundleShelf) MakeCatalog(versions ...string) images.Source {
	s.t.Helper()
	directory := filepath.Join(s.work, "catalog-"+strings.Join(versions, "-"))
	args := []string{"run", "./hack/catalog", "-out", filepath.Join(directory, "configs")}
	for _, version := range versions {
		args = append(args, s.bundles[version]...)
	}
	if _, err := output(s.t.Context(), s.lab.root, "go", args...); err != nil {
		s.t.Fatal(err)
	}
	opm := s.lab.MadePath("images/opm/bin/opm")
	if _, err := output(s.t.Context(), "", opm, "validate", filepath.Join(directory, "configs")); err != nil {
		s.t.Fatalf("the catalog is not valid: %v", err)
	}
	cache := filepath.Join(directory, "cache")
	if _, err := output(s.t.Context(), "", opm, "serve", filepath.Join(directory, "configs"), "--cache-dir="+cache, "--cache-only", "--termination-log="); err != nil {
		s.t.Fatal(err)
	}
	return images.Source{Repository: registry + "/capstan-catalog", Directory: directory}
}

// SuggestedNamespace returns the manifest of the namespace that OLM's web console makes for a package: the one in its first
// bundle.
func (s *BundleShelf) SuggestedNamespace(packageName string) string {
	s.t.Helper()
	operator := map[string]string{HubPackage: "clustermanager", MemberPackage: "klusterlet"}[packageName]
	content, err := os.ReadFile(s.lab.MadePath(filepath.Join("bundles", First, operator, "manifests", packageName+".clusterserviceversion.yaml")))
	if err != nil {
		s.t.Fatal(err)
	}
	var version struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(content, &version); err != nil {
		s.t.Fatal(err)
	}
	return version.Metadata.Annotations["operatorframework.io/suggested-namespace-template"]
}
