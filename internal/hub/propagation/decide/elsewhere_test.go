// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"
	"testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestWhereReplicasWouldBe has one thing change after a decision: nothing of the
// binding does.
func TestWhereReplicasWouldBe(t *testing.T) {
	aggregated := divided()
	aggregated.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	}
	static := policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}}
	grouped := divided()
	for _, each := range []string{"member3", "member1,member2,member4"} {
		grouped.ClusterAffinities = append(grouped.ClusterAffinities, policyv1alpha1.ClusterAffinityTerm{
			AffinityName: each, ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: strings.Split(each, ",")},
		})
	}
	comes := func(name string) func(*scene) { return func(s *scene) { s.cluster(name, nil) } }
	for name, test := range map[string]struct {
		placement policyv1alpha1.Placement
		change    func(*scene)
		want      string // "" is that there is nothing to say
	}{
		"the same":                       {divided(), func(*scene) {}, "member1:2 member2:2"},
		"a cluster comes":                {divided(), comes("member3"), "member1:2 member2:1 member3:1"},
		"by static weights":              {static, comes("member3"), "member1:2 member2:1 member3:1"},
		"copies":                         {policyv1alpha1.Placement{}, comes("member3"), ""},
		"few clusters, and one comes":    {aggregated, comes("member3"), ""},
		"a cluster of another group":     {grouped, comes("member3"), "member1:2 member2:2"},
		"a cluster of the group":         {grouped, comes("member4"), "member1:2 member2:1 member4:1"},
		"more replicas are to be placed": {divided(), func(s *scene) { s.b.Spec.Replicas = 6 }, ""},
		"the policy changes":             {divided(), func(s *scene) { s.only("member2") }, ""},
		"what is not decided yet":        {divided(), func(s *scene) { s.b.Generation++ }, ""},
		"suspended":                      {divided(), func(s *scene) { s.b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(true)} }, ""},
		"another scheduler":              {divided(), func(s *scene) { s.b.Spec.SchedulerName = "mine" }, ""},
		"it is being evicted":            {divided(), func(s *scene) { s.evict("member1") }, ""},
		"kept together with others": {divided(), func(s *scene) {
			s.b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AffinityGroup: "a"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.placement)
			before := s.clusters()
			test.change(s)
			got, known, err := s.d.PreviewReplicas(s.b)
			if err != nil || known != (test.want != "") || spelled(got) != test.want {
				t.Errorf("got %q, %t, %v; want %q", spelled(got), known, err, test.want)
			}
			if s.clusters() != before {
				t.Errorf("the binding has %q now", s.clusters())
			}
		})
	}
}

// TestMovesKeepTheConstraints has replicas of two clusters at most move by ones.
func TestMovesKeepTheConstraints(t *testing.T) {
	few := divided()
	few.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: 1, MaxGroups: 2}}
	for name, test := range map[string]struct {
		placement policyv1alpha1.Placement
		to        string
		want      bool
	}{
		"to a third cluster":              {divided(), "member1:2 member2:1 member3:1", true},
		"to a third cluster of at most 2": {few, "member1:2 member2:1 member3:1", false},
		"from one to another":             {few, "member1:2 member3:2", true},
		"to one that there is not":        {divided(), "member1:2 member9:2", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.placement)
			s.cluster("member3", nil)
			var to []workv1alpha2.TargetCluster
			for _, each := range strings.Fields(test.to) {
				var target workv1alpha2.TargetCluster
				if _, err := fmt.Sscanf(strings.Replace(each, ":", " ", 1), "%s %d", &target.Name, &target.Replicas); err != nil {
					t.Fatal(err)
				}
				to = append(to, target)
			}
			if got, err := s.d.AdmitMove(s.b, to); err != nil || got != test.want {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

func spelled(clusters []workv1alpha2.TargetCluster) string {
	texts := make([]string, 0, len(clusters))
	for _, target := range clusters {
		texts = append(texts, fmt.Sprintf("%s:%d", target.Name, target.Replicas))
	}
	return strings.Join(texts, " ")
}
