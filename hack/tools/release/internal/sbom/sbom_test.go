// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The executable of this test is one like any other.
func TestABillOfMaterialsHasWhatWasLinked(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	subject := Subject{
		Name: "capstan", Version: "1.2.3", Type: cdx.ComponentTypeApplication, PackageURL: "pkg:golang/github.com/capstan-io/capstan@v1.2.3",
		Commit: "abc", Date: time.Unix(0, 0), Executables: []string{executable}, Data: &debug.Module{Path: "example.com/data", Version: "v1.0.0"},
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := subject.Encode(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same executable gives two bills of materials")
	}
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "1.2.3" || bom.Metadata.Timestamp != "1970-01-01T00:00:00Z" || !strings.HasPrefix(bom.SerialNumber, "urn:uuid:") {
		t.Errorf("it is of %+v, %s, with serial number %s", bom.Metadata.Component, bom.Metadata.Timestamp, bom.SerialNumber)
	}
	checkComponents(t, bom)
}

// checkComponents looks for the standard library, checksums of executables, and
// references to nothing.
func checkComponents(t *testing.T, bom *cdx.BOM) {
	t.Helper()
	known := map[string]bool{bom.Metadata.Component.BOMRef: true}
	var libraries, data []string
	for _, component := range *bom.Components {
		known[component.BOMRef] = true
		switch component.Type {
		case cdx.ComponentTypeApplication:
			if component.Hashes == nil || len((*component.Hashes)[0].Value) != 64 {
				t.Errorf("%s has no checksum", component.Name)
			}
		case cdx.ComponentTypeLibrary:
			libraries = append(libraries, component.PackageURL)
		case cdx.ComponentTypeData:
			data = append(data, component.PackageURL)
		}
	}
	if !strings.Contains(strings.Join(libraries, "\n"), "pkg:golang/std@1.") {
		t.Errorf("the standard library is not among %q", libraries)
	}
	if len(data) != 1 || data[0] != "pkg:golang/example.com/data@v1.0.0" {
		t.Errorf("the data is %q", data)
	}
	for _, dependency := range *bom.Dependencies {
		for _, ref := range append(*dependency.Dependencies, dependency.Ref) {
			if !known[ref] {
				t.Errorf("%s is used, but is no component", ref)
			}
		}
	}
}

func TestWhatIsNoExecutable(t *testing.T) {
	if err := (Subject{Executables: []string{"sbom_test.go"}}).Encode(&bytes.Buffer{}); err == nil {
		t.Error("got no error")
	}
}
