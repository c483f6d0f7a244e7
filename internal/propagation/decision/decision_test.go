// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// web is a Deployment of the namespace.
func web(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": namespace, "name": "web", "uid": "u", "labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"replicas": int64(3), "template": map[string]any{}},
	}}
}

// own is a policy of the namespace.
func own(changes ...func(*policyv1alpha1.PropagationSpec)) *policyv1alpha1.PropagationPolicy {
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "own", Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"},
	}}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func lazy(s *policyv1alpha1.PropagationSpec) { s.ActivationPreference = policyv1alpha1.LazyActivation }

func tooMany(s *policyv1alpha1.PropagationSpec) {
	s.DependentOverrides = make([]string, claims.DependentOverridesMax+1)
}

func tooLong(s *policyv1alpha1.PropagationSpec) {
	s.DependentOverrides = []string{"images", strings.Repeat("\x7f", 1<<20)}
}

func ranked(s *policyv1alpha1.PropagationSpec) {
	s.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassName: "high"}
}

// bound is the binding of a policy, with so many replicas.
func bound(replicas int32, seen string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{Replicas: replicas, Placement: &policyv1alpha1.Placement{}}}
	if seen != "" {
		b.Annotations = map[string]string{demand.AnnotationTemplate: seen}
	}
	b.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{Namespace: "shop"}
	return b
}

// failing has scripts that fail.
type failing struct{ replicas, components error }

// Operations is part of interpret.Layer.
func (f failing) Operations(schema.GroupVersionKind) interpret.Operations {
	ops := interpret.Operations{}
	if f.replicas != nil {
		ops.Custom.Replicas = func(map[string]any) (int32, *interpret.Requirements, error) { return 0, nil, f.replicas }
	}
	if f.components != nil {
		ops.Custom.Components = func(map[string]any) ([]interpret.Component, error) { return nil, f.components }
	}
	return ops
}

func TestObjects(t *testing.T) {
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		facts  ObjectFacts
		want   ReasonCode
		note   string
	}{
		"it is applied":                       {web("shop"), ObjectFacts{Policy: own()}, Applied, `policy "own" is applied`},
		"no policy selects it":                {web("shop"), ObjectFacts{}, Unclaimed, "no policy selects it"},
		"it is never sent":                    {web("kube-system"), ObjectFacts{Policy: own(tooMany), Unserved: true}, Reserved, "nothing of namespace kube-system is sent to clusters: it is for Kubernetes"},
		"it is of a cluster":                  {web("a"), ObjectFacts{Fleet: view.NewFleet(view.Cluster{Name: "a", Accepted: true})}, Reserved, "nothing of namespace a is sent to clusters: it is that of the cluster a"},
		"the hub keeps it":                    {web("shop"), ObjectFacts{Policy: own(tooMany), Unserved: true, AbsentOverride: "images"}, Unserved, `policy "own" selects it, but this hub is an ordinary cluster, whose own controllers act on kind Deployment: label namespace "shop" fleet.capstan.io/templates=true to have it sent to clusters as well`},
		"too many overrides":                  {web("shop"), ObjectFacts{Policy: own(tooMany), AbsentOverride: "images"}, OverridesInvalid, `policy "own" is not applied: spec.dependentOverrides: Too many: 257: must have at most 256 items: the policy waits for each of them; name fewer, or put their rules into fewer override policies`},
		"the name of an override is too long": {web("shop"), ObjectFacts{Policy: own(tooLong), AbsentOverride: "images"}, OverridesInvalid, `policy "own" is not applied: spec.dependentOverrides[1]: Too long: may not be more than 253 bytes: no override policy has such a name`},
		"an override is absent":               {web("shop"), ObjectFacts{Policy: own(lazy, ranked), AbsentOverride: "images", AbsentClass: true, Binding: bound(3, "")}, OverrideAbsent, `policy "own" waits for override policy "images" (spec.dependentOverrides), which does not exist: create it`},
		"a lazy policy waits":                 {web("shop"), ObjectFacts{Policy: own(lazy, ranked), AbsentClass: true, Binding: bound(3, "")}, Postponed, `policy "own" is applied lazily (spec.activationPreference): it waits until the object itself changes`},
		"it was changed with its lazy policy": {web("shop"), ObjectFacts{Policy: own(lazy), Binding: bound(2, "")}, Applied, `policy "own" is applied`},
		"it has changed since":                {web("shop"), ObjectFacts{Policy: own(lazy), Binding: bound(3, "other")}, Applied, `policy "own" is applied`},
		"it has not, whatever its binding has": {
			web("shop"),
			ObjectFacts{Policy: own(lazy), Binding: bound(2, demand.ObjectFingerprint(web("shop")))},
			Postponed,
			`policy "own" is applied lazily (spec.activationPreference): it waits until the object itself changes`,
		},
		"nobody knows the replicas": {
			web("shop"),
			ObjectFacts{Policy: own(), Chain: interpret.Chain{failing{replicas: errors.New("line 2")}}},
			ReplicasUnknown,
			`policy "own": the replica count could not be determined: line 2.`,
		},
		"nobody knows the parts": {
			web("shop"),
			ObjectFacts{Policy: own(), Components: true, Chain: interpret.Chain{failing{components: errors.New("line 3.")}, native.NewKubernetesKinds()}},
			ComponentsUnknown, `policy "own": the replica count could not be determined: line 3.`,
		},
		"nobody asks for the parts": {
			web("shop"),
			ObjectFacts{Policy: own(), Chain: interpret.Chain{failing{components: errors.New("line 3.")}, native.NewKubernetesKinds()}},
			Applied, `policy "own" is applied`,
		},
		"no such PriorityClass": {web("shop"), ObjectFacts{Policy: own(ranked), AbsentClass: true}, ClassAbsent, `policy "own" names PriorityClass "high" (spec.schedulePriority), which does not exist: create it, or name another one`},
	} {
		t.Run(name, func(t *testing.T) {
			if test.facts.Chain == nil {
				test.facts.Chain = interpret.Chain{native.NewKubernetesKinds()}
			}
			_, reason := DecideObject(test.object, test.facts)
			if reason.Code != test.want {
				t.Errorf("got %s, want %s", reason.Code, test.want)
			}
			if diff := cmp.Diff(test.note, reason.EventNote()); diff != "" {
				t.Errorf("the note (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatTheBindingIsToAskFor(t *testing.T) {
	policy := own(func(s *policyv1alpha1.PropagationSpec) {
		s.Placement.WorkloadAffinity = &policyv1alpha1.WorkloadAffinity{Affinity: &policyv1alpha1.WorkloadAffinityTerm{GroupByLabelKey: "app"}}
	})
	facts := ObjectFacts{Policy: policy, Chain: interpret.Chain{native.NewKubernetesKinds()}, Priority: new(int32(7)), Groups: true}
	spec, reason := DecideObject(web("shop"), facts)
	if reason.Code != Applied || spec.Replicas != 3 || spec.SchedulePriority.Priority != 7 || spec.WorkloadAffinityGroups.AffinityGroup != "app=web" {
		t.Errorf("%s: got %+v", reason.Code, spec)
	}
	facts.Groups = false
	if spec, _ := DecideObject(web("shop"), facts); spec.WorkloadAffinityGroups != nil {
		t.Errorf("without the gate it is of %+v", spec.WorkloadAffinityGroups)
	}
}

func TestWhoReleases(t *testing.T) {
	for code, want := range map[ReasonCode]bool{Unclaimed: true, Unserved: true, Reserved: false, OverrideAbsent: false, Applied: false} {
		if got := (Reason{Code: code}).ReleasesObject(); got != want {
			t.Errorf("%s: got %t", code, got)
		}
	}
}

// decided is a binding for which cluster a was chosen, for all replicas.
func decided(change func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
	b := bound(3, "")
	b.Spec.Placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a", Replicas: 3}}
	b.Annotations = map[string]string{policyv1alpha1.AnnotationAppliedPlacement: `{"replicaScheduling":{"replicaSchedulingType":"Divided"}}`}
	b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionScheduled, Status: metav1.ConditionTrue}}
	change(b)
	return b
}

func TestSchedules(t *testing.T) {
	one := view.NewFleet(view.Cluster{Name: "a", Accepted: true})
	same := func(*workv1alpha2.ResourceBinding) {}
	unplaced := func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = nil }
	scaled := func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 5 }
	for name, test := range map[string]struct {
		change         func(*workv1alpha2.ResourceBinding)
		fleet          view.Fleet
		asked, refused bool
		want           ReasonCode
		clause         string
	}{
		"nothing has changed":       {change: same, fleet: one, want: Kept, clause: "its clusters are still right"},
		"it is scaled":              {change: scaled, fleet: one, want: Chosen, clause: "replicas: 5 are wanted and 3 are placed"},
		"the user asks":             {change: same, fleet: one, asked: true, want: Chosen, clause: "the user asks to decide anew"},
		"its clusters were refused": {change: scaled, fleet: one, refused: true, want: Refused, clause: "the hub has just refused its clusters"},
		"no cluster is known":       {change: scaled, asked: true, refused: true, want: NoClusters, clause: "the hub has no clusters: everything stays as it is"},
		"nor does it have one":      {change: unplaced, want: Chosen, clause: "replicas: 3 are wanted and 0 are placed"},
		"nothing could be decided":  {change: func(b *workv1alpha2.ResourceBinding) { b.Status.Conditions[0].Status = metav1.ConditionFalse }, fleet: one, want: Chosen, clause: "the last decision could not be made"},
		"it follows others":         {change: func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = nil }, fleet: one, asked: true, want: Follows, clause: "it goes where the objects are that refer to it"},
		"somebody has suspended it": {change: func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(true)}
		}, fleet: one, want: ScheduleSuspended, clause: "its binding has suspension.scheduling set, so no clusters are chosen until it is cleared"},
		"nobody has": {change: func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: new(false)}
		}, fleet: one, want: Kept, clause: "its clusters are still right"},
		"another scheduler":           {change: func(b *workv1alpha2.ResourceBinding) { b.Spec.SchedulerName = "mine" }, fleet: one, want: OtherScheduler, clause: `the clusters are chosen by scheduler "mine", which is not part of the hub`},
		"the scheduler that is meant": {change: func(b *workv1alpha2.ResourceBinding) { b.Spec.SchedulerName = policyv1alpha1.DefaultScheduler }, fleet: one, want: Kept, clause: "its clusters are still right"},
	} {
		t.Run(name, func(t *testing.T) {
			got := DecideSchedule(ScheduleFacts{Binding: decided(test.change), Fleet: test.fleet, Asked: test.asked, Refused: test.refused})
			if got.Code != test.want || got.ToClause() != test.clause {
				t.Errorf("got %s (%s), want %s (%s)", got.Code, got.ToClause(), test.want, test.clause)
			}
			if got.Code == Chosen && got.State.Fresh != test.asked {
				t.Errorf("chosen anew: %t", got.State.Fresh)
			}
		})
	}
}

func TestDispatches(t *testing.T) {
	on := func(names ...string) *policyv1alpha1.SuspendClusters {
		return &policyv1alpha1.SuspendClusters{ClusterNames: names}
	}
	const some = "Its policy has suspension.dispatchingOnClusters set for a and b, so these get no changes until it is cleared."
	for name, test := range map[string]struct {
		suspension *policyv1alpha1.Suspension
		want       ReasonCode
		said       bool
		a, c       bool
		sentence   string
	}{
		"nothing is said":                   {nil, Dispatched, false, false, false, ""},
		"nothing is set":                    {&policyv1alpha1.Suspension{}, Dispatched, false, false, false, ""},
		"to all":                            {&policyv1alpha1.Suspension{Dispatching: new(false)}, Dispatched, true, false, false, ""},
		"to none":                           {&policyv1alpha1.Suspension{Dispatching: new(true), DispatchingOnClusters: on("a")}, DispatchSuspended, true, true, true, "Its policy has suspension.dispatching set, so no cluster gets changes until it is cleared."},
		"to some":                           {&policyv1alpha1.Suspension{DispatchingOnClusters: on("b", "a")}, ClustersSuspended, true, true, false, some},
		"to some, and dispatching is false": {&policyv1alpha1.Suspension{Dispatching: new(false), DispatchingOnClusters: on("b", "a")}, ClustersSuspended, true, true, false, some},
		"no cluster is named":               {&policyv1alpha1.Suspension{DispatchingOnClusters: on()}, Dispatched, true, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &workv1alpha2.ResourceBindingSpec{}
			if test.suspension != nil {
				spec.Suspension = &workv1alpha2.Suspension{Suspension: *test.suspension}
			}
			got := DecideDispatch(spec)
			if got.Code != test.want || got.Said != test.said || got.SuspendsCluster("a") != test.a || got.SuspendsCluster("c") != test.c {
				t.Errorf("got %s, said %t, a %t, c %t", got.Code, got.Said, got.SuspendsCluster("a"), got.SuspendsCluster("c"))
			}
			if test.sentence != "" && got.ToSentence() != test.sentence {
				t.Errorf("got %q, want %q", got.ToSentence(), test.sentence)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	for want, reason := range map[string]Reason{
		"PropagationPolicy shop/own: the replica count could not be determined: line 2.": {Code: ReplicasUnknown, Policy: own(), Problem: errors.New("line 2")},
		"ClusterPropagationPolicy all is not applied: too many.":                         {Code: OverridesInvalid, Policy: &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}, Detail: "too many"},
		"Nothing of namespace kube-system is sent to clusters: it is for people.":        {Code: Reserved, Detail: "nothing of namespace kube-system is sent to clusters: it is for people"},
		"It goes where the objects are that refer to it.":                                {Code: Follows},
	} {
		if got := reason.ToSentence(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNamesAreJoined(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"b", "a"}, "a, b and c": {"c", "a", "b"}} {
		if got := JoinNames(names); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestContests(t *testing.T) {
	match := func(namespace, name string, priority int32, exact selector.Priority, preempts bool) claims.PolicyMatch {
		p := own(func(s *policyv1alpha1.PropagationSpec) {
			s.Priority = &priority
			if preempts {
				s.Preemption = policyv1alpha1.PreemptAlways
			}
		})
		p.Namespace, p.Name = namespace, name
		return claims.PolicyMatch{Policy: p, Exact: exact}
	}
	holder := match("shop", "b", 3, selector.ByLabels, false)
	for name, test := range map[string]struct {
		loser, holder claims.PolicyMatch
		want          ReasonCode
		clause        string
	}{
		"the other lets go":  {match("", "a", 0, selector.ByKind, true), match("shop", "b", 3, selector.None, false), HolderLeaves, "it selects the object, and waits for the other to release it"},
		"it may take it":     {match("shop", "a", 4, selector.ByKind, true), holder, TakesOver, "it takes the object over if feature gate PropagationPolicyPreemption of the hub is on: in a moment then"},
		"it came late":       {match("shop", "a", 4, selector.ByKind, false), holder, HolderStays, "it would take precedence, but an object stays with the policy that has claimed it"},
		"it is for all":      {match("", "a", 9, selector.ByName, true), holder, ClusterWide, "a PropagationPolicy takes precedence over any ClusterPropagationPolicy"},
		"its priority":       {match("shop", "a", 2, selector.ByName, true), holder, LessPriority, "its priority 2 is less than 3"},
		"its selector":       {match("shop", "a", 3, selector.ByKind, false), holder, LessExact, "it selects by kind, which is less specific than by labels"},
		"its name":           {match("shop", "c", 3, selector.ByLabels, false), holder, LaterName, "of equal policies the first by name wins"},
		"by name and labels": {match("shop", "a", 3, selector.ByLabels, false), match("shop", "b", 3, selector.ByName, false), LessExact, "it selects by labels, which is less specific than by name"},
	} {
		got := DecideContest(test.loser, test.holder)
		if got.Code != test.want || got.ToClause() != test.clause {
			t.Errorf("%s: got %s (%s), want %s", name, got.Code, got.ToClause(), test.want)
		}
	}
}
