// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/clinic"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

const (
	doctorPage = "../../docs/doctor.md"
	// faultsBegin and faultsEnd enclose what the test writes into the page.
	faultsBegin = "<!-- Written by the tests of the doctor: go test ./internal/cli -update. -->\n"
	faultsEnd   = "<!-- End of what the tests write. -->\n"
)

// TestDoctor breaks a clinic in many ways, one after the other, and lets the doctor find out. The hub is its own,
// as it becomes a member of itself.
func TestDoctor(t *testing.T) {
	w := startHub(t)
	t.Setenv("KUBECONFIG", w.Kubeconfig)
	c := clinic.NewClinic(t, w)
	for name, args := range map[string][]string{
		"the hub and all clusters are well": {"doctor"},
		"a member with an agent is well":    c.VisitWith(clinic.Fault{}),
		"a Push cluster is well":            c.VisitWith(clinic.Fault{Cluster: clinic.PushPatient}),
	} {
		t.Run(name, func(t *testing.T) {
			playedhub.Eventually(t, func() error { return c.IsHealthy(t, args) })
		})
	}
	var page strings.Builder
	for i, f := range clinic.AllFaults() {
		t.Run(f.Title, func(t *testing.T) {
			f.Plant(t, c)
			playedhub.Eventually(t, func() error { return c.FindsFault(t, f) })
			_, said := c.CallDoctor(t, c.VisitWith(f)...)
			fmt.Fprintf(&page, "\n### %d. %s\n\n```\n%s```\n", i+1, f.Title, c.Timeless(said))
		})
	}
	if t.Failed() {
		return
	}
	content, err := os.ReadFile(doctorPage)
	expect.NoError(t, err)
	before, rest, begins := strings.Cut(string(content), faultsBegin)
	want, after, ends := strings.Cut(rest, faultsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for what the doctor says", doctorPage)
	}
	if *update {
		expect.NoError(t, os.WriteFile(doctorPage, []byte(before+faultsBegin+page.String()+"\n"+faultsEnd+after), 0o600))
		return
	}
	if diff := cmp.Diff(want, page.String()+"\n"); diff != "" {
		t.Errorf("%s is not what the doctor says (-page +doctor); -update writes it anew:\n%s", doctorPage, diff)
	}
}
