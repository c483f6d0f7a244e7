// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli/hub"
)

const (
	guideFile     = "../../docs/cli.md"
	referenceFile = "../../docs/reference/cli.md"
	// updateVariable makes the test write the page that it would compare with.
	updateVariable = "CAPSTAN_UPDATE_CLI"
)

func testRoot() *cobra.Command {
	root := newRoot("capstan", hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), testingclock.NewFakePassiveClock(time.Time{})))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func TestTheReferenceIsThatOfTheCommands(t *testing.T) {
	var page strings.Builder
	page.WriteString("<!-- Generated from the commands by 'make generate'. Do not edit. -->\n\n# capstan: all commands and flags\n\n" +
		"The guide with sessions is [docs/cli.md](../cli.md). As a plugin of kubectl every command begins with `kubectl capstan`.\n")
	root := testRoot()
	forEach(root, func(cmd *cobra.Command) {
		if cmd.IsAvailableCommand() || cmd == root {
			writeCommand(&page, cmd)
		}
	})
	if os.Getenv(updateVariable) != "" {
		if err := os.WriteFile(referenceFile, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page.String(), string(want)); diff != "" {
		t.Errorf("%s is not as the commands are; 'make generate' mends it (-commands +page):\n%s", referenceFile, diff)
	}
}

func writeCommand(page *strings.Builder, cmd *cobra.Command) {
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
	flags(page, "Flags of all commands", cmd.PersistentFlags())
	flags(page, "Flags", cmd.LocalNonPersistentFlags())
}

func flags(page *strings.Builder, title string, set *pflag.FlagSet) {
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

func TestEveryCommandExplainsItselfAndHasExamples(t *testing.T) {
	forEach(testRoot(), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if strings.HasPrefix(path, "capstan completion") || strings.HasPrefix(path, "capstan help") {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s needs a short description without a full stop", path)
		}
		if !cmd.HasSubCommands() && (cmd.Long == "" || !strings.HasPrefix(cmd.Example, "  ")) {
			t.Errorf("%s needs a description and examples that are indented by two", path)
		}
		if !cmd.HasSubCommands() && cmd.ValidArgsFunction == nil {
			t.Errorf("%s does not say how to complete its arguments; a shell would offer files", path)
		}
	})
}

// TestTheGuideShowsWhatCapstanPrints compares the examples of the guide with
// the sessions, which capstan has played.
func TestTheGuideShowsWhatCapstanPrints(t *testing.T) {
	guide, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	var sessions strings.Builder
	files, err := filepath.Glob("testdata/*.session")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sessions.Write(content)
	}
	blocks := strings.Split(string(guide), "```console\n")[1:]
	if len(blocks) == 0 {
		t.Fatalf("%s has no examples", guideFile)
	}
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		if !strings.Contains(sessions.String(), example) {
			t.Errorf("%s shows what is in no session of testdata:\n%s", guideFile, example)
		}
	}
}
