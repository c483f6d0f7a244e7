// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command observability writes what Prometheus and Grafana are given to look at
// Capstan, deploy/observability, from the descriptions beside this file:
// alerts.yaml and dashboards.
//
//	observability -root .
//
// The same descriptions always make the same files.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

const (
	// source is where the descriptions are, target where the files go.
	source = "hack/observability"
	target = "deploy/observability"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "observability: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("observability", flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := generate(*root)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(*root, target, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return fmt.Errorf("making the directory of %s: %w", name, err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// generate returns the files by their path below target.
func generate(root string) (map[string][]byte, error) {
	files, err := rules(root)
	if err != nil {
		return nil, err
	}
	descriptions, err := filepath.Glob(filepath.Join(root, source, "dashboards", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("looking for the descriptions of dashboards: %w", err)
	}
	slices.Sort(descriptions)
	for _, path := range descriptions {
		board := Board{}
		if err := read(path, &board); err != nil {
			return nil, err
		}
		content, err := board.render()
		if err != nil {
			return nil, fmt.Errorf("making the dashboard of %s: %w", path, err)
		}
		files[filepath.Join("dashboards", board.Name+".json")] = content
	}
	return files, nil
}

// read reads a description, which may have no field that nobody reads.
func read(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading a description: %w", err)
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return fmt.Errorf("reading the description %s: %w", path, err)
	}
	return nil
}
