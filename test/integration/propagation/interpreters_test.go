// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// The scripts of TestScriptsSayWhatAKindMeans: of ConfigMaps that ask for workers.
const (
	replicasOf = "function GetReplicas(obj)\n return tonumber(obj.data.workers)\nend"
	broken     = "function GetReplicas(obj)\n return obj.nothing.workers\nend"
	revise     = "function ReviseReplica(obj, n)\n obj.data.workers = tostring(n)\n return obj\nend"
	needs      = "function GetDependencies(obj)\n return {{apiVersion = 'v1', kind = 'Secret', namespace = obj.metadata.namespace, name = obj.data.key}}\nend"
	summed     = "function AggregateStatus(obj, items)\n obj.status = obj.status or {}\n obj.status.collisionCount = %d + #items\n return obj\nend"
)

// scripts makes a customization that goes with the test.
func (w world) scripts(name, apiVersion, kind string, rules configv1alpha1.CustomizationRules) *configv1alpha1.ResourceInterpreterCustomization {
	w.Helper()
	c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
		Target: configv1alpha1.CustomizationTarget{APIVersion: apiVersion, Kind: kind}, Customizations: rules,
	}}
	w.create(c)
	w.Cleanup(func() {
		if err := w.Delete(context.WithoutCancel(w.Context()), c); client.IgnoreNotFound(err) != nil {
			w.Error(err)
		}
	})
	return c
}

func rule(script string) *configv1alpha1.LuaRule { return &configv1alpha1.LuaRule{LuaScript: script} }

// TestScriptsSayWhatAKindMeans divides ConfigMaps, which have no replicas but by a
// customization: one that fails at first, then one that works, and one more for what
// they need.
func TestScriptsSayWhatAKindMeans(t *testing.T) {
	w := newWorld(t, 2)
	custom := w.scripts("workers", "v1", "ConfigMap", configv1alpha1.CustomizationRules{ReplicaResource: rule(broken), ReplicaRevision: rule(revise)})
	placed := policy("workers", policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}})
	placed.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "workers"}
	placed.Spec.PropagateDeps = true
	workers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "workers"}, Data: map[string]string{"workers": "4", "key": "key"}}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "key"}}
	w.create(key, workers, placed)
	w.told(metav1.NamespaceDefault, "ApplyPolicyFailed", `ResourceInterpreterCustomization "workers", replicaResource: line 2: attempt to index`)

	w.change(custom, func() { custom.Spec.Customizations.ReplicaResource = rule(replicasOf) })
	w.workersAre(map[string]string{"member1": "2", "member2": "2"})
	w.sentAre("Secret")

	w.scripts("keys", "v1", "ConfigMap", configv1alpha1.CustomizationRules{DependencyInterpretation: rule(needs)})
	w.sentAre("Secret", "member1/key", "member2/key")

	// A change that changes nothing writes nothing; that the other kind is changed tells
	// that it was seen.
	web := policy("web", policyv1alpha1.Placement{})
	w.create(deployment("web", 2), web)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
	sum := w.scripts("sums", "apps/v1", "Deployment", configv1alpha1.CustomizationRules{StatusAggregation: rule(fmt.Sprintf(summed, 10))})
	w.counts(12)
	before := w.versions("workers-configmap")
	w.change(custom, func() { custom.Spec.Customizations.ReplicaResource = rule(replicasOf + "\n-- said otherwise") })
	w.change(sum, func() { sum.Spec.Customizations.StatusAggregation = rule(fmt.Sprintf(summed, 20)) })
	w.counts(22)
	if after := w.versions("workers-configmap"); after != before {
		t.Errorf("what did not change was written: %s, before %s", after, before)
	}

	// What a script cannot do is told, and the clusters keep what they have.
	w.change(custom, func() {
		custom.Spec.Customizations.ReplicaRevision = rule("function ReviseReplica(obj, n)\n error('not today')\nend")
	})
	w.eventually("the binding says that nothing can be sent", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "workers-configmap"}, b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied)
		if c == nil || c.Status != metav1.ConditionFalse || len(b.Status.AggregatedStatus) == 0 ||
			b.Status.AggregatedStatus[0].AppliedMessage != `ResourceInterpreterCustomization "workers", replicaRevision: line 2: not today. Correct spec.customizations.replicaRevision.luaScript, or remove it.` {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
	w.workersAre(map[string]string{"member1": "2", "member2": "2"})
}

// workersAre waits until the clusters are sent so many workers.
func (w world) workersAre(want map[string]string) {
	w.Helper()
	w.eventually(fmt.Sprintf("the workers are %v", want), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
			return err
		}
		got := map[string]string{}
		for i := range works.Items {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(works.Items[i].Spec.Workload.Manifests[0].Raw); err != nil {
				return err
			}
			if object.GetName() == "workers" {
				got[works.Items[i].Namespace], _, _ = unstructured.NestedString(object.Object, "data", "workers")
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// counts waits until the script says so of the Deployment.
func (w world) counts(want int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("the status counts %d", want), func() error {
		web := &appsv1.Deployment{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web"}, web); err != nil {
			return err
		}
		if web.Status.CollisionCount == nil || *web.Status.CollisionCount != want {
			return errors.New("it does not")
		}
		return nil
	})
}

// versions are those of a binding and its works.
func (w world) versions(binding string) string {
	w.Helper()
	b, works := &workv1alpha2.ResourceBinding{}, &workv1.ManifestWorkList{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: binding}, b); err != nil {
		w.Fatal(err)
	}
	if err := w.List(w.Context(), works, client.MatchingLabels{workv1alpha2.LabelResourceBindingID: b.Labels[workv1alpha2.LabelResourceBindingID]}); err != nil {
		w.Fatal(err)
	}
	versions := b.ResourceVersion
	for i := range works.Items {
		versions += " " + works.Items[i].ResourceVersion
	}
	return versions
}
