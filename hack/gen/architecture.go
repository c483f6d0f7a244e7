// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

const (
	architecturePage = "docs/ARCHITECTURE.md"
	module           = "github.com/capstan-io/capstan/"
)

func generateArchitecture(ctx context.Context, root string) (generatedFiles, error) {
	table, err := packageTable(ctx, root)
	if err != nil {
		return nil, err
	}
	place := generatedPart{begin: "<!-- packages: generated from the code by 'make generate' -->\n", end: "<!-- end of packages -->\n"}
	page, err := place.replaceIn(root, architecturePage, table)
	return generatedFiles{architecturePage: page}, err
}

// packageTable returns a table of the packages of the product, with what their
// documentation begins with.
func packageTable(ctx context.Context, root string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}",
		"./apis/...", "./cmd/...", "./config/...", "./internal/...", "./operators/...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", fmt.Errorf("listing the packages: %w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("listing the packages: %w", err)
	}
	var table strings.Builder
	table.WriteString("\n| package | |\n|---|---|\n")
	for line := range strings.Lines(string(out)) {
		path, doc, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if doc == "" || strings.HasPrefix(path, module+"apis/fleet/client/") {
			continue // tests alone, or generated
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", strings.TrimPrefix(path, module), describePackage(path, doc))
	}
	table.WriteString("\n")
	return table.String(), nil
}

// describePackage returns what a package does, without its name before it.
func describePackage(path, doc string) string {
	name := path[strings.LastIndex(path, "/")+1:]
	for _, prefix := range []string{"Package " + name + " ", "Command " + name + " "} {
		doc = strings.TrimPrefix(doc, prefix)
	}
	return strings.ReplaceAll(strings.TrimSuffix(doc, "."), "|", "\\|")
}
