// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom tells in CycloneDX what executables were made of. It is read from
// the executables themselves, so it has what was linked and nothing else.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Subject is what a bill of materials is for.
type Subject struct {
	// Name, Version and Type describe it: an application, or a container.
	Name, Version string
	Type          cdx.ComponentType
	// PackageURL identifies it.
	PackageURL string
	// Commit is what it was made from.
	Commit string
	Date   time.Time
	// Executables are files.
	Executables []string
	// Data is a module that is there as data only, or nil.
	Data *debug.Module
}

// Encode writes the bill of materials.
func (s Subject) Encode(out io.Writer) error {
	root := cdx.Component{BOMRef: s.PackageURL, Type: s.Type, Name: s.Name, Version: s.Version, PackageURL: s.PackageURL}
	root.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	root.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: "https://github.com/capstan-io/capstan", Comment: s.Commit}}
	components := map[string]cdx.Component{}
	uses := map[string][]string{}
	for _, path := range s.Executables {
		if err := s.add(path, components, uses); err != nil {
			return fmt.Errorf("reading what %s was made of: %w", path, err)
		}
	}
	parts := make([]string, 0, len(s.Executables)+1)
	for _, path := range s.Executables {
		parts = append(parts, reference(path))
	}
	if s.Data != nil {
		data := library(s.Data)
		data.Type = cdx.ComponentTypeData
		components[data.BOMRef] = data
		parts = append(parts, data.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: s.Date.UTC().Format(time.RFC3339), Component: &root}
	sorted := slices.SortedFunc(maps.Values(components), func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &sorted
	uses[root.BOMRef] = parts
	dependencies := make([]cdx.Dependency, 0, len(uses))
	for _, ref := range slices.Sorted(maps.Keys(uses)) {
		on := slices.Sorted(slices.Values(uses[ref]))
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	bom.Dependencies = &dependencies
	serial, err := serialNumber(bom)
	if err != nil {
		return err
	}
	bom.SerialNumber = serial
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
}

func reference(path string) string { return "file:" + filepath.Base(path) }

// add adds an executable and the modules that it has.
func (s Subject) add(path string, components map[string]cdx.Component, uses map[string][]string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	executable := cdx.Component{
		BOMRef: reference(path), Type: cdx.ComponentTypeApplication, Name: filepath.Base(path), Version: s.Version,
		PackageURL: fmt.Sprintf("pkg:golang/%s@v%s#%s", info.Main.Path, s.Version, strings.TrimPrefix(info.Path, info.Main.Path+"/")),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	properties := []cdx.Property{{Name: "capstan:build:path", Value: info.Path}}
	for _, setting := range info.Settings {
		properties = append(properties, cdx.Property{Name: "capstan:build:" + setting.Key, Value: setting.Value})
	}
	executable.Properties = &properties
	components[executable.BOMRef] = executable
	modules := append([]*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for _, module := range modules {
		component := library(module)
		components[component.BOMRef] = component
		uses[executable.BOMRef] = append(uses[executable.BOMRef], component.BOMRef)
	}
	return nil
}

func library(module *debug.Module) cdx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	url := fmt.Sprintf("pkg:golang/%s@%s", module.Path, module.Version)
	component := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version, PackageURL: url}
	if module.Sum != "" {
		component.Properties = &[]cdx.Property{{Name: "capstan:go.sum", Value: module.Sum}}
	}
	return component
}

// serialNumber identifies a bill of materials by what it says, as a UUID of
// version 8: a random one would differ each time.
func serialNumber(bom *cdx.BOM) (string, error) {
	sum := sha256.New()
	if err := cdx.NewBOMEncoder(sum, cdx.BOMFileFormatJSON).Encode(bom); err != nil {
		return "", err
	}
	id := sum.Sum(nil)[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}
