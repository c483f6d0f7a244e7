// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/session"
)

var update = flag.Bool("update", false, "write what capstan answers into the sessions and the page of the doctor")

// TestSessions plays the sessions in testdata: what a user types and what
// capstan answers, on one hub.
//
// A line that begins with "$ " is a command, and the lines below it, up to the
// next command, are what it prints on both of its outputs, as a terminal would
// show them; an exit code other than 0 stands at the end in brackets. A line
// that begins with "> " tells what happens on the hub meanwhile, "# " is a
// comment, and an empty line stands before it.
func TestSessions(t *testing.T) {
	w := takeHub(t)
	sessions, err := filepath.Glob("testdata/*.session")
	if err != nil || len(sessions) == 0 {
		t.Fatalf("no sessions in testdata: %v", err)
	}
	for _, file := range sessions {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".session"), func(t *testing.T) {
			defer w.ClearHub(t)
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := session.PlaySession(t, w, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s is not what capstan does (-session +capstan); -update writes it anew:\n%s", file, diff)
			}
		})
	}
}
