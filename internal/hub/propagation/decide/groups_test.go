// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// one is a placement on one cluster of all.
func one() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{SpreadConstraints: []policyv1alpha1.SpreadConstraint{{
		SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: 1, MaxGroups: 1,
	}}}
}

// another returns a binding in the groups that was not decided yet.
func (s *scene) another(name, namespace, together, apart string) *scene {
	b := s.b.DeepCopy()
	b.Name, b.Namespace, b.Annotations, b.Status, b.Spec.Clusters = name, namespace, nil, workv1alpha2.ResourceBindingStatus{}, nil
	b.Spec.Resource.UID = types.UID(namespace + name)
	b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AffinityGroup: together, AntiAffinityGroup: apart}
	return &scene{T: s.T, clock: s.clock, fleet: s.fleet, d: s.d, b: b}
}

// TestWorkloadsTogetherAndApart places one after another, in a fleet of member1 and
// member2, before any is seen in the cache.
func TestWorkloadsTogetherAndApart(t *testing.T) {
	type asked struct{ namespace, together, apart, want string }
	for name, test := range map[string][]asked{
		"no group":               {{want: "member1:4"}, {want: "member1:4"}},
		"apart":                  {{apart: "a=1", want: "member1:4"}, {apart: "a=1", want: "member2:4"}, {apart: "a=1", want: ""}},
		"another group":          {{apart: "a=1", want: "member1:4"}, {apart: "a=2", want: "member1:4"}},
		"another namespace":      {{apart: "a=1", want: "member1:4"}, {namespace: "other", apart: "a=1", want: "member1:4"}},
		"together":               {{apart: "b=1", want: "member1:4"}, {together: "a=1", apart: "b=1", want: "member2:4"}, {together: "a=1", want: "member2:4"}},
		"a label is no group":    {{together: "a=1", want: "member1:4"}, {apart: "a=1", want: "member1:4"}},
		"together but not there": {{together: "a=1", apart: "b=1", want: "member1:4"}, {together: "a=1", apart: "b=1", want: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, one())
			for i, ask := range test {
				namespace := "shop"
				if ask.namespace != "" {
					namespace = ask.namespace
				}
				next := s.another(fmt.Sprintf("w%d", i), namespace, ask.together, ask.apart)
				next.decide()
				if got := next.clusters(); got != ask.want {
					t.Errorf("workload %d is on %q, want %q", i, got, ask.want)
				}
				if next.decide(); next.clusters() != ask.want {
					t.Errorf("workload %d moves to %q", i, next.clusters())
				}
			}
		})
	}
}

// TestWhoIsDecidedAtOnceStaysApart has as many workloads as clusters.
func TestWhoIsDecidedAtOnceStaysApart(t *testing.T) {
	s := newScene(t, one())
	const many = 20
	var scenes []*scene
	for i := range many {
		s.cluster(fmt.Sprintf("member%d", i+1), nil)
		scenes = append(scenes, s.another(fmt.Sprintf("w%d", i), "shop", "", "a=1"))
	}
	var all sync.WaitGroup
	for _, each := range scenes {
		all.Go(func() { each.decide() })
	}
	all.Wait()
	taken := map[string]bool{}
	for _, each := range scenes {
		if got := each.clusters(); got == "" || taken[got] {
			t.Errorf("a workload is on %q, where another is", got)
		} else {
			taken[got] = true
		}
	}
}

// TestWhoWaitsGetsThePlaceOfOneThatGoes is about what bindings say: that nothing
// was written of a decision is noticed after a while, too.
func TestWhoWaitsGetsThePlaceOfOneThatGoes(t *testing.T) {
	s := newScene(t, one())
	s.fleet.SetCluster("member2", nil)
	first, second := s.another("first", "shop", "", "a=1"), s.another("second", "shop", "", "a=1")
	for _, each := range []*scene{first, second} {
		each.decide()
		each.d.See(each.b, false)
	}
	if first.clusters() != "member1:4" || second.clusters() != "" {
		t.Fatalf("they are on %q and %q", first.clusters(), second.clusters())
	}
	if waiting := s.d.See(first.b, false); len(waiting) > 0 {
		t.Errorf("%v is looked at although nothing has changed", waiting)
	}
	waiting := s.d.See(first.b, true)
	if len(waiting) != 1 || waiting[0].Name != "second" {
		t.Errorf("looked at is %v, want the one that waits", waiting)
	}
	if second.decide(); second.clusters() != "member1:4" {
		t.Errorf("it is on %q then", second.clusters())
	}

	unwritten := s.another("unwritten", "shop", "", "b=1")
	unwritten.decide() // and never seen
	s.clock.SetTime(s.clock.Now().Add(2 * time.Minute))
	last := s.another("last", "shop", "", "b=1")
	if last.decide(); last.clusters() != "member1:4" {
		t.Errorf("it stays away for what was never written: %q", last.clusters())
	}
}

// TestAForgedBindingIsNoWorkload has a binding of another namespace say that it is for the
// object of one that others are kept apart from.
func TestAForgedBindingIsNoWorkload(t *testing.T) {
	s := newScene(t, one())
	first := s.another("first", "shop", "", "a=1")
	first.decide()
	first.d.See(first.b, false)
	forged := s.another("forged", "tenant", "", "")
	forged.b.Spec.Resource = first.b.Spec.Resource
	forged.d.See(forged.b, false)
	second := s.another("second", "shop", "", "a=1")
	if second.decide(); second.clusters() != "member2:4" {
		t.Errorf("it is on %q, beside %q that it is kept apart from", second.clusters(), first.clusters())
	}
}
