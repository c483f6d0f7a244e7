// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

func TestCommandsAreCompleted(t *testing.T) {
	takeHub(t).LoadFile(t, "fleet.yaml")
	cases := map[string]struct {
		reason string
		as     string
		args   []string
		want   []string
		not    []string
	}{
		"names of clusters":             {reason: "for get", as: "capstan", args: []string{"__complete", "get", "clusters", ""}, want: []string{"member1", "member2"}},
		"clusters that are not typed":   {reason: "not twice", as: "capstan", args: []string{"__complete", "describe", "cluster", "member1", ""}, want: []string{"member2"}, not: []string{"member1"}},
		"names of works of a cluster":   {reason: "works are within clusters", as: "capstan", args: []string{"__complete", "get", "works", "-n", "member1", ""}, want: []string{"hello", "shop"}},
		"clusters for a namespace":      {reason: "it is a cluster", as: "capstan", args: []string{"__complete", "get", "works", "-n", ""}, want: []string{"member3"}},
		"formats":                       {reason: "all of them", as: "capstan", args: []string{"__complete", "get", "clusters", "-o", ""}, want: []string{"wide", "yaml"}},
		"clusters for kubectl's plugin": {reason: "kubectl asks this executable", as: "/usr/bin/kubectl_complete-capstan", args: []string{"get", "clusters", ""}, want: []string{"member1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := cli.RunCommandLine(t.Context(), cli.CommandLine{
				As: c.as, Args: c.args,
				Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
				Clock:   testingclock.NewFakePassiveClock(time.Now()),
			})
			if code != exit.OK {
				t.Fatalf("%s: exit code %d: %s", c.reason, code, errOut.String())
			}
			lines := strings.Split(out.String(), "\n")
			for _, want := range c.want {
				if !slices.Contains(lines, want) {
					t.Errorf("%s: %q is not offered:\n%s", c.reason, want, out.String())
				}
			}
			for _, not := range c.not {
				if slices.Contains(lines, not) {
					t.Errorf("%s: %q is offered:\n%s", c.reason, not, out.String())
				}
			}
		})
	}
}
