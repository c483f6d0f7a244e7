// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

const referencePage = "docs/reference/cli.md"

// generateReference makes the page with all commands of capstan.
func generateReference(context.Context, string) (generatedFiles, error) {
	var page strings.Builder
	page.WriteString("<!-- Generated from the commands by 'make generate'. Do not edit. -->\n\n# capstan: all commands and flags\n\n" +
		"The guide with sessions is [docs/cli.md](../cli.md). As a plugin of kubectl every command begins with `kubectl capstan`.\n")
	commands := cli.NewRootCommand("capstan", hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), clock.RealClock{})) //nolint:contextcheck // nothing is run
	commands.InitDefaultHelpCmd()
	commands.InitDefaultCompletionCmd()
	writeCommand(&page, commands)
	return generatedFiles{referencePage: page.String()}, nil
}

// writeCommand writes about a command and those below it.
func writeCommand(page *strings.Builder, cmd *cobra.Command) {
	if cmd.IsAvailableCommand() || !cmd.HasParent() {
		writeSection(page, cmd)
	}
	for _, child := range cmd.Commands() {
		writeCommand(page, child)
	}
}

func writeSection(page *strings.Builder, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	if strings.HasPrefix(cmd.CommandPath(), "capstan completion ") {
		text = cmd.Short + "." // cobra's own text is long, and capstan prints it
	}
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n```\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(text), cmd.UseLine())
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(page, "\nOther names: `%s`.\n", strings.Join(cmd.Aliases, "`, `"))
	}
	if cmd.Example != "" {
		fmt.Fprintf(page, "\n```\n%s\n```\n", strings.ReplaceAll(cmd.Example[2:], "\n  ", "\n"))
	}
	writeFlags(page, "Flags of all commands", cmd.PersistentFlags())
	writeFlags(page, "Flags", cmd.LocalNonPersistentFlags())
}

func writeFlags(page *strings.Builder, title string, set *pflag.FlagSet) {
	rows := ""
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name = "`-" + flag.Shorthand + "`, " + name
		}
		kind, usage := pflag.UnquoteUsage(flag)
		standard := ""
		if flag.DefValue != "" && flag.DefValue != "false" && flag.DefValue != "[]" {
			standard = "`" + flag.DefValue + "`"
		}
		rows += fmt.Sprintf("| %s | %s | %s | %s |\n", name, kind, standard, strings.ReplaceAll(usage, "|", "\\|"))
	})
	if rows != "" {
		fmt.Fprintf(page, "\n| %s | type | default | what it does |\n|---|---|---|---|\n%s", title, rows)
	}
}
