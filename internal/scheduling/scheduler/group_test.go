// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestGroups(t *testing.T) {
	fleet := zoned("a1", "a2", "a3", "b4", "b5", "c6", "x0")
	all := []string{"a1", "a2", "a3", "b4", "b5", "c6", "x0"}
	zone := func(z string) NamedGroup {
		return NamedGroup{Name: "zone-" + z, Labels: labels.SelectorFromSet(labels.Set{"zone": z}), Claims: labels.Everything()}
	}
	cases := map[string]struct {
		reason   string
		grouping Grouping
		targets  []string
		want     []DecisionGroup
	}{
		"nothing asked": {reason: "one group", targets: all, want: []DecisionGroup{{Clusters: all}}},
		"nobody chosen": {reason: "there is one group, without clusters", grouping: Grouping{Named: []NamedGroup{zone("a")}}, want: []DecisionGroup{{}}},
		"by number":     {reason: "the last may be smaller", grouping: Grouping{Size: intstr.FromInt32(3)}, targets: all, want: []DecisionGroup{{Clusters: all[:3]}, {Clusters: all[3:6]}, {Clusters: all[6:]}}},
		"by percentage": {reason: "of all that are chosen, rounded up", grouping: Grouping{Size: intstr.FromString("50%")}, targets: all, want: []DecisionGroup{{Clusters: all[:4]}, {Clusters: all[4:]}}},
		"by name": {
			reason: "named groups come first, in their order, and are split as well", grouping: Grouping{Named: []NamedGroup{zone("b"), zone("a")}, Size: intstr.FromInt32(2)}, targets: all,
			want: []DecisionGroup{{Name: "zone-b", Clusters: all[3:5]}, {Name: "zone-a", Clusters: all[:2]}, {Name: "zone-a", Clusters: all[2:3]}, {Clusters: all[5:]}},
		},
		"who has left": {reason: "a cluster that is not in the fleet has no name", grouping: Grouping{Named: []NamedGroup{zone("a")}}, targets: []string{"a9"}, want: []DecisionGroup{{Clusters: []string{"a9"}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.grouping.DivideTargets(fleet, tc.targets)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestThereAreNotTooManyGroups asks for groups of one cluster, as they are or in several named groups.
func TestThereAreNotTooManyGroups(t *testing.T) {
	var clusters []string
	for i := range 5000 {
		clusters = append(clusters, fmt.Sprintf("a%04d", i))
	}
	fleet := zoned(clusters...)
	named := make([]NamedGroup, 100)
	for i := range named {
		named[i] = NamedGroup{Name: fmt.Sprint(i), Labels: labels.SelectorFromSet(labels.Set{"zone": fmt.Sprint(i)}), Claims: labels.Everything()}
	}
	named[99].Labels = labels.SelectorFromSet(labels.Set{"zone": "a"})
	for _, grouping := range []Grouping{{Size: intstr.FromInt32(1)}, {Size: intstr.FromInt32(1), Named: named}} {
		for n, larger := range map[int]bool{900: false, 2000: true, 5000: true} {
			groups := grouping.DivideTargets(fleet, clusters[:n])
			listed := 0
			for _, group := range groups {
				listed += len(group.Clusters)
			}
			if _, is := grouping.SizeOf(n); len(groups) > GroupsMax || listed != n || is != larger {
				t.Errorf("%d clusters are in %d groups, which have %d; they are larger: %t, want %t", n, len(groups), listed, is, larger)
			}
		}
	}
}

func TestTheSizeOfGroupsIsChecked(t *testing.T) {
	for size, right := range map[intstr.IntOrString]bool{
		{}: true, intstr.FromInt32(1): true, intstr.FromString("1%"): true, intstr.FromString("100%"): true,
		intstr.FromInt32(-1): false, intstr.FromString("0%"): false, intstr.FromString("101%"): false, intstr.FromString("7"): false, intstr.FromString("half"): false,
	} {
		err := CheckGroupSize(size, field.NewPath("spec", "size"))
		if (err == nil) != right {
			t.Errorf("size %q: %v, want it to be right: %t", size.String(), err, right)
		}
		if err != nil && err.Field != "spec.size" {
			t.Errorf("size %q: the error is about %s", size.String(), err.Field)
		}
	}
}
