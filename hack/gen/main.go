// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes files, and parts of pages of docs, that are made of the code:
//
//	gen [-root .] WHAT...
//
// Without WHAT, it lists what there is. The same code always makes the same files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// generator makes files of the code.
type generator struct {
	// name is how the command calls it, what is what it makes.
	name, what string
	// generate returns the files by their paths below the root of the repository.
	generate func(ctx context.Context, root string) (generatedFiles, error)
}

// generatedFiles are contents of files by their paths below the root of the repository.
type generatedFiles map[string]string

func generators() []generator {
	return []generator{
		{"architecture", "the table of packages in docs/ARCHITECTURE.md", generateArchitecture},
		{"cli", "docs/reference/cli.md", generateReference},
		{"fences", "config/operator/*/fence.yaml", generateFences},
		{"fields", "the tables of fields in docs/spec, of definitions in config/crd", generateFields},
		{"interpreters", "the table of kinds in docs/reference/interpreters.md", generateInterpreters},
		{"metrics", "the table of docs/reference/metrics.md; starts an API server of KUBEBUILDER_ASSETS", generateMetrics},
		{"served", "the tables of fields in docs/spec, of what the aggregated API server serves", generateServed},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := runCommand(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "gen: %v\n", err)
		os.Exit(1)
	}
}

func runCommand(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("gen", flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the repository")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		for _, g := range generators() {
			fmt.Fprintf(out, "%-14s %s\n", g.name, g.what)
		}
		return nil
	}
	for _, name := range flags.Args() {
		g, err := findGenerator(name)
		if err != nil {
			return err
		}
		files, err := g.generate(ctx, *root)
		if err != nil {
			return fmt.Errorf("making %s: %w", g.what, err)
		}
		if err := files.writeBelow(*root); err != nil {
			return err
		}
	}
	return nil
}

func findGenerator(name string) (generator, error) {
	var names []string
	for _, g := range generators() {
		if g.name == name {
			return g, nil
		}
		names = append(names, g.name)
	}
	return generator{}, fmt.Errorf("there is no generator %q; there are %s", name, strings.Join(names, ", "))
}

// writeBelow writes the files. Their folders are there.
func (f generatedFiles) writeBelow(root string) error {
	for _, path := range slices.Sorted(maps.Keys(f)) {
		if err := os.WriteFile(filepath.Join(root, path), []byte(f[path]), 0o600); err != nil {
			return fmt.Errorf("writing what is generated: %w", err)
		}
	}
	return nil
}

// generatedPart is the part of a page that is made of the code, between two lines.
type generatedPart struct{ begin, end string }

// replaceIn returns the page with another part.
func (p generatedPart) replaceIn(root, page, part string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return "", fmt.Errorf("reading the page: %w", err)
	}
	before, rest, begins := strings.Cut(string(content), p.begin)
	_, after, ends := strings.Cut(rest, p.end)
	if !begins || !ends {
		return "", fmt.Errorf("%s has no place for it: it needs the lines %q and %q", page, p.begin, p.end)
	}
	return before + p.begin + part + p.end + after, nil
}
