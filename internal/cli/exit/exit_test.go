// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package exit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

var errPlain = errors.New("it went wrong")

func TestCodesAndTexts(t *testing.T) {
	t.Parallel()
	noHub := &exit.Error{Err: errors.New("no answer"), Next: "Start the hub.", Code: exit.NoHub}
	for name, c := range map[string]struct {
		err  error
		code int
		text string
	}{
		"an error of others":    {errPlain, exit.Failed, "error: it went wrong\n"},
		"the command line":      {exit.UsageError("--%s is odd", "x"), exit.Usage, "error: --x is odd\n"},
		"a next step":           {exit.Next(errPlain, "Try %d times.", 2), exit.Failed, "error: it went wrong\nTry 2 times.\n"},
		"a code in the cause":   {fmt.Errorf("listing clusters: %w", noHub), exit.NoHub, "error: listing clusters: no answer\nStart the hub.\n"},
		"the next step is kept": {exit.Next(fmt.Errorf("listing: %w", noHub), "Do else."), exit.NoHub, "error: listing: no answer\nStart the hub.\n"},
		"the user ended it":     {fmt.Errorf("waiting: %w", context.Canceled), exit.Interrupted, "error: waiting: context canceled\n"},
		"time ran out elsewhere": {
			fmt.Errorf("waiting: %w", context.DeadlineExceeded), exit.Failed, "error: waiting: context deadline exceeded\n",
		},
		"two of one code": {errors.Join(noHub, noHub), exit.NoHub, "error: no answer\nStart the hub.\nerror: no answer\nStart the hub.\n"},
		"two of different codes": {
			errors.Join(noHub, errors.Join(exit.UsageError("odd"))), exit.Failed, "error: no answer\nStart the hub.\nerror: odd\n",
		},
	} {
		if got := exit.Code(c.err); got != c.code {
			t.Errorf("%s: the code is %d, want %d", name, got, c.code)
		}
		if got := exit.FormatError(c.err); got != c.text {
			t.Errorf("%s: the text is %q, want %q", name, got, c.text)
		}
	}
	if got := exit.Code(nil); got != exit.OK {
		t.Errorf("without an error the code is %d, want %d", got, exit.OK)
	}
	if err := exit.Next(nil, "Do something."); err != nil {
		t.Errorf("a next step makes an error of none: %v", err)
	}
}

// TestAMemberForgesNoLine has a member refuse something with a text that goes on like what capstan prints.
func TestAMemberForgesNoLine(t *testing.T) {
	t.Parallel()
	said := errors.New("no\nmanagedcluster.cluster.open-cluster-management.io/c1 accepted\n\n\terror: it was hacked\n  go on")
	err := errors.Join(exit.Next(fmt.Errorf("reading the member: %w", said), "Look at it.\nerror: of the member"), errPlain)
	want := "error: reading the member: no\n  managedcluster.cluster.open-cluster-management.io/c1 accepted\n\n  \terror: it was hacked\n  go on\n" +
		"Look at it.\n  error: of the member\nerror: it went wrong\n"
	if got := exit.FormatError(err); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAWaitThatWasTooShort(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	notYet := &exit.Error{Err: errors.New("cluster c1 has not joined"), Next: "Look at it.", Code: exit.NoMember}
	err := exit.WaitedTooShort(t.Context(), notYet)
	if got, want := exit.FormatError(err), "error: timed out: cluster c1 has not joined\nLook at it.\n"; got != want || exit.Code(err) != exit.TimedOut {
		t.Errorf("it gives %q and code %d, want %q and %d", got, exit.Code(err), want, exit.TimedOut)
	}
	if err := exit.WaitedTooShort(ended, notYet); exit.Code(err) != exit.Interrupted {
		t.Errorf("if the user ends it: %v, want code %d", err, exit.Interrupted)
	}
	if err := exit.WaitedTooShort(t.Context(), errPlain); err != nil {
		t.Errorf("another error than that of the wait: %v", err)
	}
}
