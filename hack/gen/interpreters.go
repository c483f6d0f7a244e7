// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-io/capstan/hack/gen/interpreters"
)

const interpretersPage = "docs/reference/interpreters.md"

// generateInterpreters makes the table of how kinds differ from Karmada.
func generateInterpreters(_ context.Context, root string) (generatedFiles, error) {
	content, err := os.ReadFile(filepath.Join(root, interpretersPage))
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	page, err := interpreters.RenderPage(string(content))
	return generatedFiles{interpretersPage: page}, err
}
