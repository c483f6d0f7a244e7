// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWrongNumbersOfArgumentsAreExplained calls all commands with too few arguments and with
// too many. What Cobra says by itself counts them, and does not say what is missing.
func TestWrongNumbersOfArgumentsAreExplained(t *testing.T) {
	checked := 0
	forEach(testRoot(), func(cmd *cobra.Command) {
		if cmd.Args == nil {
			return
		}
		for _, given := range [][]string{nil, {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}} {
			checked++
			if err := cmd.Args(cmd, given); err != nil && strings.Contains(err.Error(), "arg(s)") {
				t.Errorf("%s %s: %v", cmd.CommandPath(), strings.Join(given, " "), err)
			}
		}
	})
	if checked == 0 {
		t.Error("no command was looked at")
	}
	events, _, err := testRoot().Find([]string{"events"})
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Args(events, nil); err == nil || err.Error() != "the name of the cluster is missing" {
		t.Errorf("events without a name: %v", err)
	}
}
