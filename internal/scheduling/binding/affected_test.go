// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

func TestOnlyBindingsThatCareAreAffected(t *testing.T) {
	prod := "clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}"
	duplicated, divided := "{"+prod+"}", with(dynamic, prod)
	regions := "{" + prod + ", spreadConstraints: [{spreadByField: region}, {spreadByField: cluster}]}"
	groups := "{clusterAffinities: [{affinityName: own, clusterNames: [a]}, {affinityName: rented, clusterNames: [c]}]}"
	for name, test := range map[string]struct {
		placement     string
		before, after string // of cluster c; "" is not there
		previous      string // 3 replicas are wanted
		observed      string
		want          bool
	}{
		"duplicated: it comes":                       {placement: duplicated, after: "c env=prod", previous: "a:3", want: true},
		"duplicated: another comes":                  {placement: duplicated, after: "c env=test", previous: "a:3"},
		"duplicated: it goes":                        {placement: duplicated, before: "c env=prod", previous: "c:3", want: true},
		"duplicated: another goes":                   {placement: duplicated, before: "c env=test", previous: "a:3"},
		"duplicated: it matches now":                 {placement: duplicated, before: "c env=test", after: "c env=prod", previous: "a:3", want: true},
		"duplicated: another label":                  {placement: duplicated, before: "c env=prod", after: "c env=prod x=y", previous: "c:3"},
		"duplicated: a taint, and it has it":         {placement: duplicated, before: "c env=prod", after: "c env=prod taint=NoSelect", previous: "c:3"},
		"duplicated: a taint is gone":                {placement: duplicated, before: "c env=prod taint=NoSelect", after: "c env=prod", previous: "a:3", want: true},
		"duplicated: more room":                      {placement: duplicated, before: "c env=prod pods=1", after: "c env=prod pods=9", previous: "c:3"},
		"duplicated: another region":                 {placement: regions, before: "c env=prod region=eu", after: "c env=prod region=us", previous: "a:3", want: true},
		"duplicated: another region of another":      {placement: regions, before: "c env=test region=eu", after: "c env=test region=us", previous: "a:3"},
		"duplicated: a region, and nobody asks":      {placement: duplicated, before: "c env=prod region=eu", after: "c env=prod region=us", previous: "a:3"},
		"divided: it comes":                          {placement: divided, after: "c env=prod", previous: "a:3"},
		"divided: it comes, and some are not placed": {placement: divided, after: "c env=prod", previous: "a:2", want: true},
		"divided: nothing is placed":                 {placement: divided, after: "c env=prod", want: true},
		"divided: more room":                         {placement: divided, before: "c env=prod pods=1", after: "c env=prod pods=9", previous: "a:3"},
		"divided: more room, some are not placed":    {placement: divided, before: "c env=prod pods=1", after: "c env=prod pods=9", previous: "a:2", want: true},
		"divided: more room where none may be":       {placement: divided, before: "c env=test pods=1", after: "c env=test pods=9", previous: "a:2"},
		"divided: a target is deleted":               {placement: divided, before: "c env=prod", after: "c env=prod deleting", previous: "a:1 c:2", want: true},
		"divided: another is deleted":                {placement: divided, before: "c env=prod", after: "c env=prod deleting", previous: "a:3"},
		"divided: a target does not match":           {placement: divided, before: "c env=prod", after: "c env=test", previous: "a:1 c:2", want: true},
		"divided: a target is gone":                  {placement: divided, before: "c env=prod", previous: "a:1 c:2", want: true},
		"divided: a target is tainted":               {placement: divided, before: "c env=prod", after: "c env=prod taint=NoSelect", previous: "a:1 c:2"},
		"groups: it is in a later one":               {placement: groups, after: "c", previous: "a:3", observed: "own"},
		"groups: nothing is placed":                  {placement: groups, after: "c", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, problems := CompilePlacement(placementOf(t, test.placement))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			one := func(text string) *view.Cluster {
				if text == "" {
					return nil
				}
				return fleetOf(text).ClusterAt(0)
			}
			in := PlacementInput{Resource: deployment, Workload: true, Replicas: 3, Previous: targetsOf(test.previous), ObservedAffinity: test.observed}
			if got := compiled.AffectedByChange(one(test.before), one(test.after), in.ChangeSensitivity(), has(in.Previous, "c"), noon); got != test.want {
				t.Errorf("affected: %t, want %t", got, test.want)
			}
		})
	}
}

func TestReconfirms(t *testing.T) {
	prod := "clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}"
	for name, test := range map[string]struct {
		placement, before, after string
		want                     bool
	}{
		"a label":                      {"{" + prod + "}", "c env=prod", "c env=prod x=y", true},
		"a region":                     {"{" + prod + "}", "c env=prod", "c env=prod region=eu", true},
		"a taint":                      {"{" + prod + "}", "c env=prod", "c env=prod taint=NoSelect", true},
		"it does not match any longer": {"{" + prod + "}", "c env=prod", "c env=test", true},
		"it matches now":               {"{" + prod + "}", "c env=test", "c env=prod", true},
		"it never matches":             {"{" + prod + "}", "c env=test", "c env=none", false},
		"its status":                   {"{" + prod + "}", "c env=prod pods=1", "c env=prod pods=2", false},
		"what is divided":              {with(static, prod), "c env=prod", "c env=prod x=y", false},
	} {
		compiled, _ := CompilePlacement(placementOf(t, test.placement))
		in := PlacementInput{Resource: deployment, Workload: true, Replicas: 3, Previous: targetsOf("a:3")}
		if got := compiled.ReconfirmsDecision(fleetOf(test.before).ClusterAt(0), fleetOf(test.after).ClusterAt(0), in.ChangeSensitivity()); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func has(clusters []workv1alpha2.TargetCluster, name string) bool {
	return slices.ContainsFunc(clusters, func(target workv1alpha2.TargetCluster) bool { return target.Name == name })
}

// TestManyEvictionsAreLookedAtOnce has an object leave as many clusters as a binding may name, by a placement of
// many groups: whether it leaves the cluster that has changed is found out once, and of that one only.
func TestManyEvictionsAreLookedAtOnce(t *testing.T) {
	var groups []string
	for i := range 64 {
		groups = append(groups, fmt.Sprintf("{affinityName: g%d}", i))
	}
	compiled, problems := CompilePlacement(placementOf(t, "{clusterAffinities: ["+strings.Join(groups, ", ")+"]}"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	cluster := fleetOf("c").ClusterAt(0)
	cost := func(many int, leaves ...string) float64 {
		in := PlacementInput{Resource: deployment, Workload: true, Replicas: 3, Evicting: leaves}
		for i := range many {
			in.Evicting = append(in.Evicting, fmt.Sprintf("c%d", i))
		}
		stake := in.ChangeSensitivity()
		wants := len(leaves) == 0
		return testing.AllocsPerRun(1, func() {
			if got := compiled.AffectedByChange(nil, cluster, stake, false, noon); got != wants {
				t.Errorf("an object that leaves %d clusters and %v is affected: %t", many, leaves, got)
			}
		})
	}
	cost(10)
	leaving := PlacementInput{}
	for i := range 10_000 {
		leaving.Evicting = append(leaving.Evicting, fmt.Sprintf("c%d", i))
	}
	stake := leaving.ChangeSensitivity()
	if made := testing.AllocsPerRun(10, func() { stake.leavesOneOf(cluster) }); made > 0 {
		t.Errorf("%.0f things are made to find out that an object leaves other clusters", made)
	}
	if few, many := cost(10, "c"), cost(10_000, "c"); many > few+10 {
		t.Errorf("a change takes %.0f allocations for an object that leaves 10 clusters, and %.0f for one that leaves 10,000", few, many)
	}
}
