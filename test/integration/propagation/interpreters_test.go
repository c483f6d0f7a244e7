// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// The scripts of TestScriptsSayWhatAKindMeans: of ConfigMaps that ask for workers.
const (
	replicasOf = "function GetReplicas(obj)\n return tonumber(obj.data.workers)\nend"
	broken     = "function GetReplicas(obj)\n return obj.nothing.workers\nend"
	revise     = "function ReviseReplica(obj, n)\n obj.data.workers = tostring(n)\n return obj\nend"
	needs      = "function GetDependencies(obj)\n return {{apiVersion = 'v1', kind = 'Secret', namespace = obj.metadata.namespace, name = obj.data.key}}\nend"
	summed     = "function AggregateStatus(obj, items)\n obj.status = obj.status or {}\n obj.status.collisionCount = %d + #items\n return obj\nend"
)

func rule(script string) *configv1alpha1.LuaRule { return &configv1alpha1.LuaRule{LuaScript: script} }

// TestScriptsSayWhatAKindMeans divides ConfigMaps, which have no replicas but by a
// customization: one that fails at first, then one that works, and one more for what
// they need.
func TestScriptsSayWhatAKindMeans(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	custom := w.CustomizeKind("workers", "v1", "ConfigMap", configv1alpha1.CustomizationRules{ReplicaResource: rule(broken), ReplicaRevision: rule(revise)})
	placed := harness.Policy("workers", policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}})
	placed.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "workers"}
	placed.Spec.PropagateDeps = true
	workers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "workers"}, Data: map[string]string{"workers": "4", "key": "key"}}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "key"}}
	w.CreateAll(key, workers, placed)
	w.NamespaceHasEvent(metav1.NamespaceDefault, "ApplyPolicyFailed", `ResourceInterpreterCustomization "workers", replicaResource: line 2: attempt to index`)

	w.ChangeObject(custom, func() { custom.Spec.Customizations.ReplicaResource = rule(replicasOf) })
	w.SendsWorkers(map[string]string{"member1": "2", "member2": "2"})
	w.SendsObjects("Secret")

	w.CustomizeKind("keys", "v1", "ConfigMap", configv1alpha1.CustomizationRules{DependencyInterpretation: rule(needs)})
	w.SendsObjects("Secret", "member1/key", "member2/key")

	// A change that changes nothing writes nothing; that the other kind is changed tells
	// that it was seen.
	web := harness.Policy("web", policyv1alpha1.Placement{})
	w.CreateAll(harness.Deployment("web", 2), web)
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})
	sum := w.CustomizeKind("sums", "apps/v1", "Deployment", configv1alpha1.CustomizationRules{StatusAggregation: rule(fmt.Sprintf(summed, 10))})
	w.ScriptCounts(12)
	before := w.VersionsOf("workers-configmap")
	w.ChangeObject(custom, func() { custom.Spec.Customizations.ReplicaResource = rule(replicasOf + "\n-- said otherwise") })
	w.ChangeObject(sum, func() { sum.Spec.Customizations.StatusAggregation = rule(fmt.Sprintf(summed, 20)) })
	w.ScriptCounts(22)
	if after := w.VersionsOf("workers-configmap"); after != before {
		t.Errorf("what did not change was written: %s, before %s", after, before)
	}

	// What a script cannot do is told, and the clusters keep what they have.
	w.ChangeObject(custom, func() {
		custom.Spec.Customizations.ReplicaRevision = rule("function ReviseReplica(obj, n)\n error('not today')\nend")
	})
	w.Eventually("the binding says that nothing can be sent", func() error {
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
	w.SendsWorkers(map[string]string{"member1": "2", "member2": "2"})
}
