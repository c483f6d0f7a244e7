// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

const (
	doctorPage = "../../docs/doctor.md"
	// faultsBegin and faultsEnd enclose what the test writes into the page.
	faultsBegin = "<!-- Written by the tests of the doctor: go test ./internal/cli -update. -->\n"
	faultsEnd   = "<!-- End of what the tests write. -->\n"
)

// testDoctor breaks a clinic in many ways, one after the other, and lets the
// doctor find out.
func (w *world) testDoctor(t *testing.T) {
	c := newClinic(t, w)
	t.Setenv("KUBECONFIG", w.kubeconfig)
	for name, args := range map[string][]string{
		"the hub and all clusters are well": {"doctor"},
		"a member with an agent is well":    c.visit(fault{}),
		"a Push cluster is well":            c.visit(fault{cluster: pushPatient}),
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, func() error { return c.healthy(t, args) })
		})
	}
	var page strings.Builder
	all := faults()
	for i, f := range all {
		t.Run(f.title, func(t *testing.T) {
			f.plant(t, c)
			eventually(t, func() error { return c.finds(t, f) })
			_, said := c.call(t, c.visit(f)...)
			fmt.Fprintf(&page, "\n### %d. %s\n\n```\n%s```\n", i+1, f.title, c.timeless(said))
		})
	}
	if !t.Failed() {
		comparePage(t, page.String())
	}
}

// visit is the call of the doctor for the patient of a fault.
func (c *clinic) visit(f fault) []string {
	if f.everything {
		return []string{"doctor"}
	}
	if f.cluster != "" {
		return []string{"doctor", f.cluster}
	}
	return []string{"doctor", patient, "--cluster-kubeconfig", c.kubeconfig}
}

func (c *clinic) call(t *testing.T, args ...string) (code int, said string) {
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

func (c *clinic) healthy(t *testing.T, args []string) error {
	t.Helper()
	code, out := c.call(t, append(args, "-ojson")...)
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

// finds reports whether the doctor finds what is broken.
func (c *clinic) finds(t *testing.T, f fault) error {
	t.Helper()
	code, out := c.call(t, append(c.visit(f), "-ojson")...)
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

// timeless takes out of what the doctor says what is another one each time.
func (c *clinic) timeless(said string) string {
	said = c.steady(said)
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

func comparePage(t *testing.T, got string) {
	t.Helper()
	content, err := os.ReadFile(doctorPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), faultsBegin)
	want, after, ends := strings.Cut(rest, faultsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for what the doctor says", doctorPage)
	}
	if *update {
		if err := os.WriteFile(doctorPage, []byte(before+faultsBegin+got+"\n"+faultsEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got+"\n"); diff != "" {
		t.Errorf("%s is not what the doctor says (-page +doctor); -update writes it anew:\n%s", doctorPage, diff)
	}
}
