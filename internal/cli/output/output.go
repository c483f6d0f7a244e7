// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package output prints what a command has found out: as text for people, or as
// JSON or YAML for scripts.
package output

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// The formats for scripts.
const (
	asJSON = "json"
	asYAML = "yaml"
)

// Format is the format that a command prints; empty is text.
type Format string

// AddFlag adds the flag --output.
func (f *Format) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(f), "output", "o", "", "Output format. One of: (json, yaml)")
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{asJSON, asYAML}, cobra.ShellCompDirectiveNoFileComp))
}

// CheckFormat returns an error for a format that there is not.
func (f Format) CheckFormat() error {
	if f != "" && f != asJSON && f != asYAML {
		return exit.UsageError("--output: unknown format %q; the formats are json and yaml", string(f))
	}
	return nil
}

// Print prints what was found, or the text of it.
func (f Format) Print(to io.Writer, found any, text func() string) error {
	var printed []byte
	var err error
	switch f {
	case asJSON:
		printed, err = json.MarshalIndent(found, "", "    ")
		printed = append(printed, '\n')
	case asYAML:
		printed, err = YAML(found)
	default:
		printed = []byte(text())
	}
	if err != nil {
		return fmt.Errorf("encode what was found: %w", err)
	}
	if _, err := to.Write(printed); err != nil {
		return fmt.Errorf("print what was found: %w", err)
	}
	return nil
}

// YAML returns what JSON says of a value as YAML. Control characters are escaped: YAML
// cannot have them otherwise, and JSON can.
func YAML(value any) ([]byte, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is the caller's value
	}
	return sigsyaml.JSONToYAML([]byte(EscapeText(string(encoded)))) //nolint:wrapcheck // it says what it cannot read
}
