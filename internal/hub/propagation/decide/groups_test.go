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
		each.d.ObserveBinding(each.b, false)
	}
	if first.clusters() != "member1:4" || second.clusters() != "" {
		t.Fatalf("they are on %q and %q", first.clusters(), second.clusters())
	}
	if waiting := s.d.ObserveBinding(first.b, false); len(waiting) > 0 {
		t.Errorf("%v is looked at although nothing has changed", waiting)
	}
	waiting := s.d.ObserveBinding(first.b, true)
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

// TestMembersOfAGroupAreToldOnce has a thousand workloads of one group wait for a
// place, as they do after a restart: seeing them tells nobody, and a place that becomes
// free tells each of them once.
func TestMembersOfAGroupAreToldOnce(t *testing.T) {
	s := newScene(t, one())
	s.fleet.SetCluster("member2", nil)
	first := s.another("first", "shop", "", "a=1")
	first.decide()
	const many = 1000
	waiting, told := make([]*scene, many), 0
	for i := range many {
		waiting[i] = s.another(fmt.Sprintf("w%d", i), "shop", "", "a=1")
		told += len(s.d.ObserveBinding(waiting[i].b, false))
	}
	for _, each := range waiting {
		each.decide()
		told += len(s.d.ObserveBinding(each.b, false))
	}
	told += len(s.d.ObserveBinding(first.b, false))
	if told > 0 {
		t.Errorf("%d bindings are told of each other although no place has become free", told)
	}
	first.b.Spec.Clusters = nil
	if told = len(s.d.ObserveBinding(first.b, false)); told != many {
		t.Errorf("%d bindings are told that there is a place, want %d", told, many)
	}
	first.b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1"}}
	s.d.ObserveBinding(first.b, false)
	if told = len(s.d.ObserveBinding(first.b, true)); told > 0 {
		t.Errorf("%d bindings are told again before they were decided", told)
	}
	waiting[0].decide()
	if waiting[1].decide(); waiting[0].clusters() != "member1:4" || waiting[1].clusters() != "" {
		t.Errorf("the first are on %q and %q then", waiting[0].clusters(), waiting[1].clusters())
	}
}

// TestWhoJoinsAGroupIsTold has a workload wait that is to be where another is.
func TestWhoJoinsAGroupIsTold(t *testing.T) {
	s := newScene(t, one())
	s.fleet.SetCluster("member2", nil)
	there, friend := s.another("there", "shop", "", "b=1"), s.another("friend", "shop", "a=1", "b=1")
	there.decide()
	s.d.ObserveBinding(friend.b, false)
	if friend.decide(); friend.clusters() != "" {
		t.Fatalf("it is on %q", friend.clusters())
	}
	s.cluster("member2", nil)
	other := s.another("other", "shop", "a=1", "")
	other.b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member2"}}
	if told := s.d.ObserveBinding(other.b, false); len(told) != 1 || told[0].Name != "friend" {
		t.Errorf("told is %v, want the one that waits", told)
	}
	if friend.decide(); friend.clusters() != "member2:4" {
		t.Errorf("it is on %q then", friend.clusters())
	}
}

// TestABindingOfAnothersObjectSaysNothingOfIt has somebody write a binding with the UID
// of an object of another namespace.
func TestABindingOfAnothersObjectSaysNothingOfIt(t *testing.T) {
	s := newScene(t, one())
	first, forged := s.another("first", "shop", "", "a=1"), s.another("forged", "other", "", "a=1")
	first.decide()
	s.d.ObserveBinding(first.b, false)
	forged.b.Spec.Resource.UID = first.b.Spec.Resource.UID
	s.d.ObserveBinding(forged.b, false)
	s.d.ObserveBinding(forged.b, true)
	second := s.another("second", "shop", "", "a=1")
	if second.decide(); second.clusters() != "member2:4" {
		t.Errorf("the second is on %q, where the first is", second.clusters())
	}
}

// TestGroupsThatAreOffCountForNothing has bindings name groups, as whoever writes
// bindings can, on a hub that knows none.
func TestGroupsThatAreOffCountForNothing(t *testing.T) {
	s := newScene(t, one())
	s.d = NewDecider(DeciderOptions{Fleet: s.fleet, Clock: s.clock})
	for _, name := range []string{"first", "second"} {
		next := s.another(name, "shop", "", "a=1")
		if next.decide(); next.clusters() != "member1:4" {
			t.Errorf("the %s is on %q", name, next.clusters())
		}
		if told := append(s.d.ObserveBinding(next.b, false), s.d.ObserveBinding(next.b, true)...); len(told) > 0 {
			t.Errorf("told is %v", told)
		}
	}
	if len(s.d.groups.of)+len(s.d.groups.members) > 0 {
		t.Error("groups are remembered")
	}
}

// TestAForgedBindingIsNoWorkload has a binding of another namespace say that it is for the
// object of one that others are kept apart from.
func TestAForgedBindingIsNoWorkload(t *testing.T) {
	s := newScene(t, one())
	first := s.another("first", "shop", "", "a=1")
	first.decide()
	first.d.ObserveBinding(first.b, false)
	forged := s.another("forged", "tenant", "", "")
	forged.b.Spec.Resource = first.b.Spec.Resource
	forged.d.ObserveBinding(forged.b, false)
	second := s.another("second", "shop", "", "a=1")
	if second.decide(); second.clusters() != "member2:4" {
		t.Errorf("it is on %q, beside %q that it is kept apart from", second.clusters(), first.clusters())
	}
}
