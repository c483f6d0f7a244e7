// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command catalog writes the file-based catalog of OLM for bundles that
// hack/bundle has made: a package for each operator, its channel, and the bundles
// of all versions in it.
//
//	catalog -out bin/catalog -registry quay.io/capstan-io \
//	  0.1.0/klusterlet 0.2.0/klusterlet=quay.io/capstan-io/capstan-klusterlet-bundle@sha256:…
//
// It writes <out>/<package>/catalog.yaml; the same bundles always make the same
// catalog, in whatever order they are named.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "catalog: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("catalog", flag.ContinueOnError)
	out := flags.String("out", "bin/catalog", "directory to write the catalog into")
	registry := flags.String("registry", "quay.io/capstan-io", "where the bundles' images are that are not named")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("usage: catalog [-out DIRECTORY] [-registry REGISTRY] BUNDLE[=IMAGE], for one or more bundles")
	}
	packages := map[string][]bundle{}
	for _, arg := range flags.Args() {
		directory, image, _ := strings.Cut(arg, "=")
		b, err := readBundle(directory, *registry, image)
		if err != nil {
			return err
		}
		packages[b.packageName] = append(packages[b.packageName], b)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		blobs, err := catalog(name, packages[name])
		if err != nil {
			return fmt.Errorf("making the catalog of %s: %w", name, err)
		}
		if err := write(filepath.Join(*out, name), blobs); err != nil {
			return err
		}
	}
	return nil
}

func write(directory string, blobs []object) error {
	var content bytes.Buffer
	for _, blob := range blobs {
		encoded, err := sigsyaml.Marshal(blob)
		if err != nil {
			return fmt.Errorf("encoding the %v of %s: %w", blob["schema"], directory, err)
		}
		content.WriteString("---\n")
		content.Write(encoded)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("making the directory of the catalog: %w", err)
	}
	if err := os.WriteFile(filepath.Join(directory, "catalog.yaml"), content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the catalog: %w", err)
	}
	return nil
}
