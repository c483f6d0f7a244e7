// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
)

// scene is a fleet of member1 and member2, and a binding that was decided at noon.
type scene struct {
	*testing.T
	clock *clocktesting.FakePassiveClock
	fleet *fleet.Fleet
	d     *Decider
	b     *workv1alpha2.ResourceBinding
}

func newScene(t *testing.T, placement policyv1alpha1.Placement) *scene {
	t.Helper()
	s := &scene{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	s.fleet = fleet.NewFleet(s.clock)
	s.d = NewDecider(DeciderOptions{Fleet: s.fleet, Clock: s.clock, Groups: true})
	for _, name := range []string{"member1", "member2"} {
		s.cluster(name, nil)
	}
	s.b = &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment", Generation: 1}}
	s.b.Spec = workv1alpha2.ResourceBindingSpec{
		Resource:  workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"},
		Placement: &placement, Replicas: 4, ReplicaRequirements: &workv1alpha2.ReplicaRequirements{},
	}
	s.decide()
	return s
}

// cluster changes a cluster, or adds it.
func (s *scene) cluster(name string, change func(*clusterv1.ManagedCluster)) (before, after *view.Cluster) {
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	if change != nil {
		change(cluster)
	}
	return s.fleet.SetCluster(name, cluster)
}

// decide decides, and writes what came of it. It reports whether anything did.
func (s *scene) decide() bool {
	s.Helper()
	outcome, news, err := s.d.DecideBinding(s.b)
	if err != nil {
		s.Fatal(err)
	}
	if news {
		s.d.ReportDecision(s.b, outcome)
	}
	return news
}

func (s *scene) clusters() string {
	texts := make([]string, 0, len(s.b.Spec.Clusters))
	for _, target := range s.b.Spec.Clusters {
		texts = append(texts, fmt.Sprintf("%s:%d", target.Name, target.Replicas))
	}
	return strings.Join(texts, " ")
}

// scheduled returns the condition Scheduled of the binding; an empty one if it is missing.
func (s *scene) scheduled() metav1.Condition {
	if condition := meta.FindStatusCondition(s.b.Status.Conditions, workv1alpha2.BindingConditionScheduled); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

// divided divides replicas by the room of clusters.
func divided() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference: &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	}}
}

// TestWhatDecidesAnew has one thing change after a decision, an hour later.
func TestWhatDecidesAnew(t *testing.T) {
	tainted := func(c *clusterv1.ManagedCluster) {
		c.Spec.Taints = []clusterv1.Taint{{Key: "gone", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Unix(1, 0)}}
	}
	for name, test := range map[string]struct {
		placement policyv1alpha1.Placement
		change    func(*scene)
		want      string // the clusters then
		anew      bool   // lastScheduledTime says that it was decided again
	}{
		"nothing":                  {divided(), func(*scene) {}, "member1:2 member2:2", false},
		"more replicas":            {divided(), func(s *scene) { s.b.Spec.Replicas = 6 }, "member1:3 member2:3", true},
		"fewer replicas":           {divided(), func(s *scene) { s.b.Spec.Replicas = 2 }, "member1:1 member2:1", true},
		"another placement":        {divided(), func(s *scene) { s.only("member2") }, "member2:4", true},
		"the user asks":            {divided(), func(s *scene) { s.asks(time.Minute) }, "member1:2 member2:2", true},
		"the user asked before":    {divided(), func(s *scene) { s.asks(-time.Minute) }, "member1:2 member2:2", false},
		"a new cluster":            {divided(), func(s *scene) { s.cluster("member3", nil) }, "member1:2 member2:2", false},
		"the user asks with a new": {divided(), func(s *scene) { s.cluster("member3", nil); s.asks(time.Minute) }, "member1:2 member2:1 member3:1", true},
		"a cluster is gone":        {divided(), func(s *scene) { s.fleet.SetCluster("member2", nil) }, "member1:4", true},
		"a cluster is going": {divided(), func(s *scene) {
			s.cluster("member2", func(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = &metav1.Time{Time: s.clock.Now()} })
		}, "member1:4", true},
		"a label of a cluster": {divided(), func(s *scene) {
			s.cluster("member2", func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"x": "y"} })
		}, "member1:2 member2:2", false},
		"a taint":           {divided(), func(s *scene) { s.cluster("member2", tainted) }, "member1:2 member2:2", false},
		"capacity":          {divided(), func(s *scene) { s.room("member1", "100") }, "member1:2 member2:2", false},
		"another scheduler": {divided(), func(s *scene) { s.b.Spec.SchedulerName, s.b.Spec.Replicas = "mine", 9 }, "member1:2 member2:2", false},
		"suspended": {divided(), func(s *scene) {
			s.b.Spec.Suspension, s.b.Spec.Replicas = &workv1alpha2.Suspension{Scheduling: new(true)}, 9
		}, "member1:2 member2:2", false},
		"its turn again": {divided(), func(s *scene) {
			s.b.Spec.Suspension, s.b.Spec.Replicas = &workv1alpha2.Suspension{Scheduling: new(false)}, 6
		}, "member1:3 member2:3", true},
		"eviction":           {policyv1alpha1.Placement{}, func(s *scene) { s.evict("member2") }, "member1:4", true},
		"copies, a new one":  {policyv1alpha1.Placement{}, func(s *scene) { s.cluster("member3", nil) }, "member1:4 member2:4 member3:4", true},
		"copies, a taint":    {policyv1alpha1.Placement{}, func(s *scene) { s.cluster("member2", tainted) }, "member1:4 member2:4", false},
		"copies, replicas":   {policyv1alpha1.Placement{}, func(s *scene) { s.b.Spec.Replicas = 5 }, "member1:5 member2:5", true},
		"copies, the same":   {policyv1alpha1.Placement{}, func(*scene) {}, "member1:4 member2:4", false},
		"copies, user asks":  {policyv1alpha1.Placement{}, func(s *scene) { s.asks(time.Minute) }, "member1:4 member2:4", true},
		"copies, placement":  {policyv1alpha1.Placement{}, func(s *scene) { s.only("member1") }, "member1:4", true},
		"no cluster is left": {policyv1alpha1.Placement{}, func(s *scene) { s.only("other") }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.placement)
			noon := s.b.Status.LastScheduledTime.Time
			s.clock.SetTime(noon.Add(time.Hour))
			before := s.b.Spec.DeepCopy()
			if test.change(s); !equality.Semantic.DeepEqual(*before, s.b.Spec) {
				s.b.Generation++
			}
			s.decide()
			if got := s.clusters(); got != test.want {
				t.Errorf("the clusters are %q, want %q", got, test.want)
			}
			if anew := s.b.Status.LastScheduledTime.After(noon); anew != test.anew {
				t.Errorf("decided again: %t, want %t", anew, test.anew)
			}
			if s.decide() {
				t.Error("there is something to say the second time")
			}
		})
	}
}

// TestTheStatusOfADecision has the first group of clusters be one that nobody is
// in, and then all of them.
func TestTheStatusOfADecision(t *testing.T) {
	term := func(name, cluster string) policyv1alpha1.ClusterAffinityTerm {
		return policyv1alpha1.ClusterAffinityTerm{AffinityName: name, ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
	}
	s := newScene(t, policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{term("near", "none"), term("far", "member2")}})
	status, noon := &s.b.Status, metav1.NewTime(s.clock.Now())
	if s.clusters() != "member2:4" || status.SchedulerObservedAffinityName != "far" || status.SchedulerObservedGeneration != 1 ||
		!status.LastScheduledTime.Equal(&noon) || s.scheduled().Reason != workv1alpha2.BindingReasonSuccess {
		t.Errorf("clusters %s, status %+v", s.clusters(), status)
	}

	s.b.Generation = 2
	s.b.Spec.Placement = &policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{term("near", "none")}}
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.decide()
	if s.clusters() != "" || status.SchedulerObservedGeneration != 2 || !status.LastScheduledTime.Equal(&noon) ||
		s.scheduled().Status != metav1.ConditionFalse || s.scheduled().Reason != workv1alpha2.BindingReasonNoClusterFit {
		t.Errorf("clusters %s, status %+v", s.clusters(), status)
	}
}

// TestWhatHasRoomIsPlaced scales what is divided beyond the room of its clusters.
func TestWhatHasRoomIsPlaced(t *testing.T) {
	s := newScene(t, divided())
	s.room("member1", "1")
	s.room("member2", "0")
	s.b.Annotations[fleetv1alpha1.AnnotationPartialPlacement] = "true"
	next := func(replicas int32, want, message string) {
		t.Helper()
		s.clock.SetTime(s.clock.Now().Add(2 * assumedMax))
		s.b.Spec.Replicas = replicas
		s.decide()
		scheduled := s.scheduled()
		if s.clusters() != want || (scheduled.Status == metav1.ConditionTrue) != (message == "") || !strings.HasPrefix(scheduled.Message, message) {
			t.Errorf("the clusters are %q, and %+v; want %q", s.clusters(), scheduled, want)
		}
		if !s.b.Status.LastScheduledTime.Time.Equal(s.clock.Now()) {
			t.Error("it does not say when clusters were chosen")
		}
		if s.decide() {
			t.Error("there is something to say the second time")
		}
	}
	next(9, "member1:3 member2:2", "5 of 9 replicas are placed, and 4 wait: ")
	s.room("member1", "0")
	s.room("member2", "3")
	next(9, "member1:3 member2:5", "8 of 9 replicas are placed, and 1 wait: ")
	s.room("member2", "1")
	next(9, "member1:3 member2:6", "")
}

func (s *scene) only(cluster string) {
	s.b.Spec.Placement = s.b.Spec.Placement.DeepCopy()
	s.b.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}
}

func (s *scene) asks(after time.Duration) {
	s.b.Spec.RescheduleTriggeredAt = &metav1.Time{Time: s.b.Status.LastScheduledTime.Add(after)}
}

func (s *scene) evict(cluster string) {
	s.b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: cluster, Reason: "Test", Producer: "test"}}
}

// room has a cluster report how many pods it has room for.
func (s *scene) room(cluster, pods string) {
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	connection.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{
		Allocatable: fleetv1alpha1.ResourceList{string(corev1.ResourcePods): resource.MustParse(pods)},
	}
	s.fleet.SetConnection(cluster, connection)
}

// TestConfirmation has a label of a cluster change twice: the time of what is
// duplicated moves, though not more often than every 30 seconds.
func TestConfirmation(t *testing.T) {
	for name, test := range map[string]struct {
		placement policyv1alpha1.Placement
		want      bool
	}{
		"copies":          {policyv1alpha1.Placement{}, true},
		"other clusters":  {policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}}, false},
		"divided by room": {divided(), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, test.placement)
			key := types.NamespacedName{Namespace: s.b.Namespace, Name: s.b.Name}
			for round := range 2 {
				last := s.b.Status.LastScheduledTime.Time
				s.clock.SetTime(last.Add(10 * time.Second))
				s.labelled(key, fmt.Sprint(round))
				if s.decide() {
					t.Error("it is confirmed before its time")
				}
				if in := s.d.ConfirmIn(s.b, &s.b.Status); test.want && in != 20*time.Second || !test.want && in != 0 {
					t.Errorf("it is to be confirmed in %v", in)
				}
				s.clock.SetTime(last.Add(time.Minute))
				if got := s.decide(); got != test.want {
					t.Errorf("confirmed: %t, want %t", got, test.want)
				}
				if s.decide() {
					t.Error("it is confirmed twice")
				}
			}
			s.clock.SetTime(s.b.Status.LastScheduledTime.Add(time.Minute))
			s.labelled(key, "again")
			s.d.ForgetBinding(key)
			if s.decide() {
				t.Error("what was forgotten is confirmed")
			}
		})
	}
}

// labelled changes a label of member2, and has decisions confirmed that care.
func (s *scene) labelled(key types.NamespacedName, value string) {
	known := &stakes.Stakes{}
	known.Set(s.b)
	before, after := s.cluster("member2", func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"x": value} })
	applied := s.d.ReadApplied(known.ListGroups())
	affected := known.AffectedBindings("member2", false, func(of *stakes.Group, _ bool) bool { return applied.Reconfirms(of, before, after) })
	for _, name := range affected {
		if name != key {
			s.Errorf("binding %s is confirmed", name)
		}
	}
	s.d.RequestConfirmation(affected...)
}
