// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/forecast"
)

// web is a Deployment of an image.
func web(replicas int64, image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "u", "generation": int64(1)},
		"spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "web", "image": image}},
		}}},
	}}
}

// policy is one of the namespace for all Deployments, to the clusters that are
// named.
func policy(name string, clusters ...string) *policyv1alpha1.PropagationPolicy {
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id-" + name},
	}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}
	p.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}
	return p
}

func divided(p *policyv1alpha1.PropagationPolicy) *policyv1alpha1.PropagationPolicy {
	p.Spec.Placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}
	return p
}

func with(p *policyv1alpha1.PropagationPolicy, change func(*policyv1alpha1.PropagationSpec)) *policyv1alpha1.PropagationPolicy {
	change(&p.Spec)
	return p
}

// claimed marks the object as that of the policy.
func claimed(object *unstructured.Unstructured, by policyv1alpha1.Policy) *unstructured.Unstructured {
	object.SetLabels(claims.MarksForPolicy(by).Labels)
	object.SetAnnotations(claims.MarksForPolicy(by).Annotations)
	return object
}

func overriding(image string) []policyv1alpha1.OverridePolicy {
	return []policyv1alpha1.OverridePolicy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "images"},
		Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{
			TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"b"}},
			Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
				Path: image, Operator: policyv1alpha1.OverriderOpReplace, Value: policyv1alpha1.JSON{Raw: []byte(`"other"`)},
			}}},
		}}},
	}}
}

const imagePath = "/spec/template/spec/containers/0/image"

// settled is the object as it is when the hub has done all that the policies ask for.
func settled(t *testing.T, object *unstructured.Unstructured, policies forecast.PolicySet) forecast.Subject {
	t.Helper()
	w := world(forecast.PolicySet{}, policies)
	outcome := w.ForecastObject(forecast.Subject{Then: object})
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	b.Annotations = map[string]string{}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
	for _, c := range outcome.Clusters {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: c.Name, Replicas: c.Then.Replicas})
	}
	if outcome.Then != nil {
		b.Spec.Placement = &outcome.Then.PropagationSpec().Placement
		object = claimed(object.DeepCopy(), outcome.Then)
	}
	b.Spec.Replicas, b.Spec.ReplicaRequirements = 6, &workv1alpha2.ReplicaRequirements{Namespace: "shop"}
	return forecast.Subject{Now: object, Then: object, Binding: b}
}

func world(present, planned forecast.PolicySet) *forecast.HubState {
	var clusters []view.Cluster
	for _, name := range []string{"a", "b", "c"} {
		clusters = append(clusters, view.Cluster{Name: name, Accepted: true})
	}
	clusters[2].Taints = []view.Taint{{Key: "gpu", Effect: "NoSelect"}}
	return &forecast.HubState{
		Present: present, Planned: planned, Fleet: view.NewFleet(clusters...), Chain: interpret.Chain{native.NewKubernetesKinds()},
		Priorities: map[string]int32{"high": 9}, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// told is an outcome in lines: the policies, the clusters, the problems and the notes.
func told(o forecast.ObjectForecast) []string {
	lines := []string{claims.PolicyDisplayName(o.Now) + " > " + claims.PolicyDisplayName(o.Then)}
	for _, c := range o.Clusters {
		side := func(one *forecast.ObjectCopy) string {
			if one == nil {
				return "none"
			}
			if one.Object == nil {
				return fmt.Sprintf("%d not made", one.Replicas)
			}
			containers, _, _ := unstructured.NestedSlice(one.Object.Object, "spec", "template", "spec", "containers")
			image := containers[0].(map[string]any)["image"]
			return fmt.Sprintf("%d %v%s", one.Replicas, image, strings.Join(one.Overrides, ","))
		}
		line := fmt.Sprintf("%s %s: %s > %s", c.Name, c.ChangeKind(), side(c.Now), side(c.Then))
		if c.Reason != "" {
			line += ": " + c.Reason
		}
		lines = append(lines, line)
	}
	for _, problem := range o.Problems {
		lines = append(lines, "problem: "+problem)
	}
	for _, note := range o.Notes {
		lines = append(lines, "note: "+note)
	}
	return lines
}

func propagating(all ...policyv1alpha1.Policy) forecast.PolicySet {
	return forecast.PolicySet{Propagation: all}
}

func TestOf(t *testing.T) {
	const first, second = "PropagationPolicy shop/first", "PropagationPolicy shop/second"
	one := divided(policy("first", "a", "b"))
	overridden := forecast.PolicySet{Propagation: []policyv1alpha1.Policy{one}, Overrides: overriding(imagePath)}
	for name, test := range map[string]struct {
		present, planned forecast.PolicySet
		then             *unstructured.Unstructured // nil is as it is
		fresh            bool                       // the object is not on the hub yet
		want             []string
	}{
		"nothing changes": {propagating(one), propagating(one), nil, false, []string{first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x"}},
		"a new policy":    {forecast.PolicySet{}, propagating(one), nil, false, []string{" > " + first, "a gained: none > 3 x", "b gained: none > 3 x"}},
		"a new object":    {propagating(one), propagating(one), web(6, "x"), true, []string{" > " + first, "a gained: none > 3 x", "b gained: none > 3 x"}},
		"a cluster less": {
			propagating(one), propagating(divided(policy("first", "a"))), nil, false,
			[]string{first + " > " + first, "a changed: 3 x > 6 x", "b lost: 3 x > none: its name is not one of a"},
		},
		"what is there stays": {
			propagating(one), propagating(with(divided(policy("first", "a")), func(s *policyv1alpha1.PropagationSpec) { s.PreserveResourcesOnDeletion = new(true) })), nil, false,
			[]string{first + " > " + first, "a changed: 3 x > 6 x", "b lost: 3 x > none: its name is not one of a; what is there stays (preserveResourcesOnDeletion)"},
		},
		"scaled": {
			propagating(one), propagating(one), web(8, "x"), false,
			[]string{first + " > " + first, "a changed: 3 x > 4 x", "b changed: 3 x > 4 x"},
		},
		"another image": {
			propagating(one), propagating(one), web(6, "y"), false,
			[]string{first + " > " + first, "a changed: 3 x > 3 y", "b changed: 3 x > 3 y"},
		},
		"it is not selected any more, and another takes it": {
			propagating(one), propagating(with(divided(policy("first", "a", "b")), func(s *policyv1alpha1.PropagationSpec) { s.ResourceSelectors[0].Name = "db" }), divided(policy("second", "a"))), nil, false,
			[]string{first + " > " + second, "a changed: 3 x > 6 x", "b lost: 3 x > none: its name is not one of a"},
		},
		"no policy selects it any more": {
			propagating(one), propagating(with(divided(policy("first", "a", "b")), func(s *policyv1alpha1.PropagationSpec) { s.ResourceSelectors[0].Name = "db" })), nil, false,
			[]string{first + " > ", "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x", "note: No policy would claim it anymore. What is in the clusters stays there, and follows the object except for its replicas."},
		},
		"a better policy does not take it": {
			propagating(one), propagating(one, with(policy("second", "a"), func(s *policyv1alpha1.PropagationSpec) { s.Priority = new(int32(9)) })), nil, false,
			[]string{first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x"},
		},
		"one that may": {
			propagating(one), propagating(one, with(policy("second", "a"), func(s *policyv1alpha1.PropagationSpec) {
				s.Priority, s.Preemption = new(int32(9)), policyv1alpha1.PreemptAlways
			})), nil, false,
			[]string{
				first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"note: " + second + " takes the object over if the hub's feature gate PropagationPolicyPreemption is on.",
			},
		},
		"an override": {
			propagating(one), overridden, nil, false,
			[]string{first + " > " + first, "a unchanged: 3 x > 3 x", "b changed: 3 x > 3 otherOverridePolicy images"},
		},
		"an override that cannot be applied": {
			propagating(one),
			forecast.PolicySet{Propagation: []policyv1alpha1.Policy{one}, Overrides: overriding("/spec/no/where")},
			nil, false,
			[]string{
				first + " > " + first, "a unchanged: 3 x > 3 x", "b stuck: 3 x > 3 not made: " + noWhere, "problem: " + noWhere,
			},
		},
		"no cluster fits": {
			propagating(one), propagating(divided(policy("first", "c"))), nil, false,
			[]string{
				first + " > " + first, "a lost: 3 x > none: its name is not one of c", "b lost: 3 x > none: its name is not one of c",
				"problem: 0/3 clusters are available; 2: its name is not one of c; 1: taint gpu:NoSelect is not tolerated (NoClusterFit)",
			},
		},
		"it waits for an override": {
			propagating(one), propagating(with(divided(policy("first", "a")), func(s *policyv1alpha1.PropagationSpec) { s.DependentOverrides = []string{"images"} })), nil, false,
			[]string{
				first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"problem: " + first + ` waits for override policy "images" (spec.dependentOverrides), which does not exist: create it`,
			},
		},
		"the object has changed while it waits for an override": {
			propagating(one), propagating(with(divided(policy("first", "a")), func(s *policyv1alpha1.PropagationSpec) { s.DependentOverrides = []string{"images"} })), web(8, "y"), false,
			[]string{
				first + " > " + first, "a changed: 3 x > 3 y", "b changed: 3 x > 3 y",
				"problem: " + first + ` waits for override policy "images" (spec.dependentOverrides), which does not exist: create it`,
			},
		},
		"another policy claims it before its PriorityClass exists": {
			propagating(one), propagating(with(divided(policy("second", "a")), func(s *policyv1alpha1.PropagationSpec) {
				s.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassName: "low"}
			})), nil, false,
			[]string{
				first + " > " + second, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"problem: " + second + ` names PriorityClass "low" (spec.schedulePriority), which does not exist: create it, or name another one`,
			},
		},
		"a lazy policy claims it": {
			propagating(one), propagating(with(divided(policy("second", "a")), func(s *policyv1alpha1.PropagationSpec) { s.ActivationPreference = policyv1alpha1.LazyActivation })), nil, false,
			[]string{
				first + " > " + second, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"note: " + second + " is applied lazily (spec.activationPreference): it waits until the object itself changes.",
			},
		},
		"it waits for too many overrides": {
			propagating(one), propagating(with(divided(policy("first", "a")), func(s *policyv1alpha1.PropagationSpec) { s.DependentOverrides = make([]string, 257) })), nil, false,
			[]string{
				first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"problem: " + first + ` is not applied: spec.dependentOverrides: Too many: 257: must have at most 256 items: the policy waits for each of them; name fewer, or put their rules into fewer override policies`,
			},
		},
		"no such PriorityClass": {
			propagating(one), propagating(with(divided(policy("first", "a")), func(s *policyv1alpha1.PropagationSpec) {
				s.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassName: "low"}
			})), nil, false,
			[]string{
				first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"problem: " + first + ` names PriorityClass "low" (spec.schedulePriority), which does not exist: create it, or name another one`,
			},
		},
		"suspended": {
			propagating(one), propagating(with(divided(policy("first", "a", "b")), func(s *policyv1alpha1.PropagationSpec) {
				s.Suspension = &policyv1alpha1.Suspension{Dispatching: new(true)}
			})), nil, false,
			[]string{
				first + " > " + first, "a unchanged: 3 x > 3 x", "b unchanged: 3 x > 3 x",
				"note: Its policy has suspension.dispatching set, so no cluster gets changes until it is cleared.",
			},
		},
		"another scheduler": {
			forecast.PolicySet{},
			propagating(with(divided(policy("first", "a", "b")), func(s *policyv1alpha1.PropagationSpec) { s.SchedulerName = "mine" })), nil, false,
			[]string{" > " + first, `note: The clusters are chosen by scheduler "mine", which is not part of the hub.`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			subject := forecast.Subject{Then: test.then}
			if !test.fresh {
				subject = settled(t, web(6, "x"), test.present)
				if len(test.present.Propagation) == 0 {
					subject.Binding = nil
				}
				if test.then != nil {
					subject.Then = claimed(test.then, test.present.Propagation[0])
				}
			}
			if diff := cmp.Diff(test.want, told(world(test.present, test.planned).ForecastObject(subject))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const noWhere = `OverridePolicy shop/images: spec.overrideRules[0].overriders.plaintext[0]: replace /spec/no/where: there is nothing at this path: replace operation does not apply: doc is missing path: /spec/no/where: missing value`

func TestReserved(t *testing.T) {
	system := web(1, "x")
	system.SetNamespace("kube-system")
	outcome := world(forecast.PolicySet{}, propagating(policy("first", "a"))).ForecastObject(forecast.Subject{Then: system})
	want := []string{" > ", "note: Nothing of namespace kube-system is sent to clusters: it is for Kubernetes."}
	if diff := cmp.Diff(want, told(outcome)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a release that knew less has sent is withdrawn.
func TestReservedLater(t *testing.T) {
	one := propagating(divided(policy("first", "a", "b")))
	subject := settled(t, web(6, "x"), one)
	subject.Then.SetNamespace("kube-system")
	got := told(world(one, one).ForecastObject(subject))
	want := []string{"PropagationPolicy shop/first > ", "a lost: 3 x > none", "b lost: 3 x > none", "note: Nothing of namespace kube-system is sent to clusters: it is for Kubernetes."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What one object takes of a cluster's room is not there for the next.
func TestRoomIsTakenOnce(t *testing.T) {
	aggregated := with(divided(policy("first", "a", "b")), func(s *policyv1alpha1.PropagationSpec) {
		s.Placement.ReplicaScheduling.ReplicaDivisionPreference = policyv1alpha1.ReplicaDivisionPreferenceAggregated
	})
	w := world(forecast.PolicySet{}, propagating(aggregated))
	room := &view.FreeRoom{Free: view.AmountsOf(corev1.ResourceList{})}
	room.Free["pods"] = 6000
	w.Fleet = view.NewFleet(view.Cluster{Name: "a", Accepted: true, Room: room}, view.Cluster{Name: "b", Accepted: true, Room: room})
	var got []string
	for _, name := range []string{"one", "two"} {
		object := web(6, "x")
		object.SetName(name)
		got = append(got, told(w.ForecastObject(forecast.Subject{Then: object}))...)
	}
	want := []string{" > PropagationPolicy shop/first", "a gained: none > 6 x", " > PropagationPolicy shop/first", "b gained: none > 6 x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Workloads that are kept apart do not get the cluster of another one, be it there
// already or planned before. Without a binding that shows the gate it is told.
func TestWorkloadsApart(t *testing.T) {
	const unknown = "note: placement.workloadAffinity counts if the hub's feature gate WorkloadAffinity is on: no binding shows that it is."
	apart := with(policy("first", "a", "b"), func(s *policyv1alpha1.PropagationSpec) {
		s.Placement.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: 1, MaxGroups: 1}}
		s.Placement.WorkloadAffinity = &policyv1alpha1.WorkloadAffinity{AntiAffinity: &policyv1alpha1.WorkloadAffinityTerm{GroupByLabelKey: "app"}}
	})
	w := world(forecast.PolicySet{}, propagating(apart))
	var got []string
	for _, name := range []string{"one", "two", "three"} {
		object := web(6, "x")
		object.SetName(name)
		object.SetLabels(map[string]string{"app": "web"})
		got = append(got, told(w.ForecastObject(forecast.Subject{Then: object}))...)
	}
	want := []string{
		" > PropagationPolicy shop/first", "a gained: none > 6 x", unknown,
		" > PropagationPolicy shop/first", "b gained: none > 6 x",
		" > PropagationPolicy shop/first",
		"problem: 0/3 clusters are available; 2: another workload of the anti-affinity group is there; 1: taint gpu:NoSelect is not tolerated (NoClusterFit)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
