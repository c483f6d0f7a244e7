// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cp copies a file, as OLM's jobs want it from the image of OLM: with
// any flags, cp SOURCE TARGET. The image of the lab has no shell and no other
// programs.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "cp: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	if len(args) != 2 {
		return fmt.Errorf("got %d paths, want source and target", len(args))
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], content, 0o755)
}
