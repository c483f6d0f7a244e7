// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clinic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/session"
)

// VisitWith is the call of the doctor for the patient of a fault.
func (c *Clinic) VisitWith(f Fault) []string {
	if f.everything {
		return []string{"doctor"}
	}
	if f.Cluster != "" {
		return []string{"doctor", f.Cluster}
	}
	return []string{"doctor", patient, "--cluster-kubeconfig", c.Kubeconfig}
}

// CallDoctor runs capstan doctor as a user would, and returns what it says.
func (c *Clinic) CallDoctor(t testing.TB, args ...string) (code int, said string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = cli.RunCommandLine(t.Context(), cli.CommandLine{
		As: "capstan", Args: args, Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
		// A clock that is wrong must not matter: the hub's counts.
		Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0)),
	})
	if len(args) > 0 && strings.HasPrefix(args[len(args)-1], "-o") {
		return code, out.String()
	}
	return code, errOut.String()
}

// IsHealthy returns an error unless the doctor finds nothing.
func (c *Clinic) IsHealthy(t testing.TB, args []string) error {
	t.Helper()
	code, out := c.CallDoctor(t, append(args, "-ojson")...)
	if code != exit.OK {
		return fmt.Errorf("exit code %d: %s", code, out)
	}
	for _, state := range []string{"Broken", "Odd", "Unseen"} {
		if strings.Contains(out, fmt.Sprintf("%q", state)) {
			return fmt.Errorf("something is %s: %s", state, out)
		}
	}
	return nil
}

// FindsFault reports whether the doctor finds what is broken.
func (c *Clinic) FindsFault(t testing.TB, f Fault) error {
	t.Helper()
	code, out := c.CallDoctor(t, append(c.VisitWith(f), "-ojson")...)
	var report struct {
		Healthy   bool
		RootCause struct{ Step, Reason, Cause, Next string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		return fmt.Errorf("understand %q: %w", out, err)
	}
	root := report.RootCause
	if code == exit.OK || report.Healthy || root.Step != f.step || root.Reason != f.reason || root.Cause == "" || root.Next == "" {
		return fmt.Errorf("want %s in %s with a cause and the next step, got exit code %d: %s", f.reason, f.step, code, out)
	}
	return nil
}

// Timeless takes out of what the doctor says what is another one each time.
func (c *Clinic) Timeless(said string) string {
	said = session.SteadyAnswer(c.PlayedHub, said)
	for _, r := range []struct{ pattern, with string }{
		{`127\.0\.0\.1:\d+`, "hub.example.com:6443"},
		{`\?timeout=\d+s`, "?timeout=4s"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}`, "7c2c1d6e-0000-4000-8000-000000000001"},
		{`(the last heartbeat came )\w+`, "${1}60m"},
	} {
		said = regexp.MustCompile(r.pattern).ReplaceAllString(said, r.with)
	}
	return said
}
