// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/cli/output"
)

func TestSteps(t *testing.T) {
	cases := map[string]struct {
		reason   string
		terminal bool
		columns  int
		want     string
	}{
		"in a log": {
			reason: "each change is a line, so that a log tells what took long",
			want:   " • Cook  ...\n • Cook  ... the water is cold\n ✓ Cook\n • Eat  ...\n ✗ Eat\n",
		},
		"on a terminal": {
			reason: "the line of a step is written over", terminal: true,
			want: "\r • Cook  ...\x1b[K\r • Cook  ... the water is cold\x1b[K\r ✓ Cook\x1b[K\n\r • Eat  ...\x1b[K\r ✗ Eat\x1b[K\n",
		},
		"on a narrow terminal": {
			reason: "a line that needs two rows cannot be written over, and leaves its first row for ever", terminal: true, columns: 20,
			want: "\r • Cook  ...\x1b[K\r • Cook  ... the w…\x1b[K\r ✓ Cook\x1b[K\n\r • Eat  ...\x1b[K\r ✗ Eat\x1b[K\n",
		},
		"on a terminal of one column": {
			reason: "there is room for nothing, and nothing breaks", terminal: true, columns: 1,
			want: "\r…\x1b[K\r…\x1b[K\r ✓ Cook\x1b[K\n\r…\x1b[K\r ✗ Eat\x1b[K\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			steps := NewStepPrinter(output.Escape(&out))
			if c.terminal {
				steps.columns = func() int { return c.columns }
			}
			steps.ShowWaiting("nothing, as no step is under way")
			err := steps.RunStep("Cook", func() error {
				steps.ShowWaiting("the water is %s", "cold")
				steps.ShowWaiting("the water is %s", "cold")
				return nil
			})
			if err != nil {
				t.Errorf("a step that went well has the error %v", err)
			}
			burnt := errors.New("burnt")
			if err := steps.RunStep("Eat", func() error { return burnt }); !errors.Is(err, burnt) {
				t.Errorf("the error of a step is %v, want %v", err, burnt)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestAMemberForgesNoStep has a step wait for what a member has written, with and without a terminal.
func TestAMemberForgesNoStep(t *testing.T) {
	for terminal, want := range map[bool]string{
		false: " • Join  ...\n • Join ... for it ✓ Join done\n ✓ Join\n",
		true:  "\r • Join  ...\x1b[K\r • Join ... for it ✓ Join done\x1b[K\r ✓ Join\x1b[K\n",
	} {
		var out strings.Builder
		steps := NewStepPrinter(output.Escape(&out))
		if terminal {
			steps.columns = func() int { return 80 }
		}
		_ = steps.RunStep("Join", func() error {
			steps.ShowWaiting("%s", "for it\n ✓ Join\r\n\tdone")
			return nil
		})
		if out.String() != want {
			t.Errorf("on a terminal: %t: got %q, want %q", terminal, out.String(), want)
		}
	}
}
