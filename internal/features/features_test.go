// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		flags     []string
		wantOn    []Gate
		wantOff   []Gate
		wantFlags []string
		wantErr   bool
	}{
		"defaults hold when nothing is said": {
			wantOn: []Gate{DefaultClusterSet, ResourceCleanup}, wantOff: []Gate{ManagedClusterAutoApproval},
		},
		"a changed gate is a flag, an unchanged one is not": {
			flags:  []string{"ManagedClusterAutoApproval=true", "DefaultClusterSet=true", "ResourceCleanup=false"},
			wantOn: []Gate{ManagedClusterAutoApproval}, wantOff: []Gate{ResourceCleanup},
			wantFlags: []string{"ManagedClusterAutoApproval=true", "ResourceCleanup=false"},
		},
		"a gate for the operator alone is never a flag": {
			flags: []string{"NetworkPolicies=true"}, wantOn: []Gate{NetworkPolicies},
		},
		"an unknown gate is refused":          {flags: []string{"Nonsense=true"}, wantErr: true},
		"a gate of another component as well": {flags: []string{"MultipleHubs=true"}, wantErr: true},
		"a value has to be true or false":     {flags: []string{"ResourceCleanup=maybe"}, wantErr: true},
		"a value has to be there":             {flags: []string{"ResourceCleanup"}, wantErr: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := Parse(HubRegistration, c.flags)
			if (err != nil) != c.wantErr {
				t.Fatalf("Parse(%q): error %v, want one: %t", c.flags, err, c.wantErr)
			}
			if err != nil {
				return
			}
			for _, gate := range c.wantOn {
				if !set.Enabled(gate) {
					t.Errorf("%s is off, want on", gate)
				}
			}
			for _, gate := range c.wantOff {
				if set.Enabled(gate) {
					t.Errorf("%s is on, want off", gate)
				}
			}
			if diff := cmp.Diff(c.wantFlags, set.Flags()); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownGatesAreReturnedSorted(t *testing.T) {
	_, unknown := Resolve(AgentWork, map[string]bool{"Zebra": true, "Ape": false, "RawFeedbackJsonString": true})
	if diff := cmp.Diff([]string{"Ape", "Zebra"}, unknown); diff != "" {
		t.Errorf("unknown gates (-want +got):\n%s", diff)
	}
}
