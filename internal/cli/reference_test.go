// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli/hub"
)

const guideFile = "../../docs/cli.md"

func testRoot() *cobra.Command {
	root := NewRootCommand("capstan", hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), testingclock.NewFakePassiveClock(time.Time{})))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
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
