// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/expect"
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
		"a gate that does nothing yet is refused":  {flags: []string{"ClusterImporter=true"}, wantErr: true},
		"turning off what does nothing is no flag": {flags: []string{"ClusterImporter=false"}, wantOff: []Gate{ClusterImporter}},

		"an unknown gate is refused":          {flags: []string{"Nonsense=true"}, wantErr: true},
		"a gate of another component as well": {flags: []string{"MultipleHubs=true"}, wantErr: true},
		"a value has to be true or false":     {flags: []string{"ResourceCleanup=maybe"}, wantErr: true},
		"a value has to be there":             {flags: []string{"ResourceCleanup"}, wantErr: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := ParseFlags(HubRegistration, c.flags)
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
			if diff := cmp.Diff(c.wantFlags, set.ChangedFlags()); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownGatesAreReturnedSorted(t *testing.T) {
	_, unknown := ResolveGates(AgentWork, map[string]bool{"Zebra": true, "Ape": false, "RawFeedbackJsonString": true})
	if diff := cmp.Diff([]string{"Ape", "Zebra"}, unknown); diff != "" {
		t.Errorf("unknown gates (-want +got):\n%s", diff)
	}
}

func TestGatesThatDoNothingYetAreNamed(t *testing.T) {
	resolve := func(component Component, gates map[string]bool) GateSet {
		set, _ := ResolveGates(component, gates)
		return set
	}
	cases := map[string]struct {
		sets []GateSet
		want string
	}{
		"none was turned on": {
			[]GateSet{resolve(HubRegistration, map[string]bool{"ClusterImporter": false, "StrictBootstrap": true})}, "all feature gates exist",
		},
		"one that is on by default": {[]GateSet{resolve(HubAddOnManager, map[string]bool{"AddonManagement": true})}, "all feature gates exist"},
		"two of two components": {
			[]GateSet{
				resolve(HubWork, map[string]bool{"CloudEventsDrivers": true}),
				resolve(HubPlacement, map[string]bool{"SIGPlacementDecision": true}),
			},
			"all feature gates exist; not yet implemented and without effect: CloudEventsDrivers of ClusterManager.spec.workConfiguration, " +
				"SIGPlacementDecision of ClusterManager.spec.placementConfiguration",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ValidMessage(c.sets...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEveryGateDoesWhatItsPageSays compares the table with the page: what the
// page gives an effect is asked for by some program, and all else is planned.
func TestEveryGateDoesWhatItsPageSays(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/gates.md")
	expect.NoError(t, err)
	table, later, found := strings.Cut(string(page), "not yet implemented")
	if !found {
		t.Fatal("the page does not tell which gates are not yet implemented")
	}
	asked := askedFor(t)
	for _, component := range []Component{HubRegistration, HubWork, HubAddOnManager, HubPlacement, AgentRegistration, AgentWork} {
		for gate, d := range gateDefinitions(component) {
			switch {
			case d.planned && !strings.Contains(later, string(gate)):
				t.Errorf("%s of %s does nothing yet, and the page does not say so", gate, component)
			case d.planned && strings.Contains(table, "| "+string(gate)+" |"):
				t.Errorf("%s of %s does nothing yet, and the page gives it an effect", gate, component)
			case !d.planned && !strings.Contains(table, "| "+string(gate)+" |"):
				t.Errorf("%s of %s is not in the page's table", gate, component)
			case !d.planned && !asked[constantOf(gate)]:
				t.Errorf("no program asks for %s of %s, so it does nothing: make it planned", gate, component)
			}
		}
	}
}

// constantOf returns the name of the constant of a gate.
func constantOf(gate Gate) string { return strings.ReplaceAll(string(gate), "Json", "JSON") }

// askedFor returns the constants of gates that programs ask for.
func askedFor(t *testing.T) map[string]bool {
	t.Helper()
	use := regexp.MustCompile(`Enabled\(features\.(\w+)\)`)
	asked := map[string]bool{}
	for _, root := range []string{"../../../cmd", "../../../internal", "../../../operators"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range use.FindAllSubmatch(content, -1) {
				asked[string(match[1])] = true
			}
			return err
		})
		expect.NoError(t, err)
	}
	return asked
}

func TestWithoutAGateTheOthersStay(t *testing.T) {
	set, _ := ResolveGates(HubRegistration, map[string]bool{"AggregatedAPI": true, "UniqueClusterIdentity": true})
	without := set.WithoutGate(AggregatedAPI)
	if without.Enabled(AggregatedAPI) || !without.Enabled(UniqueClusterIdentity) || !set.Enabled(AggregatedAPI) {
		t.Errorf("without the gate the flags are %q, with it %q", without.ChangedFlags(), set.ChangedFlags())
	}
}
