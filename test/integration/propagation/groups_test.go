// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestWorkloadsApart has three Deployments of a group and two clusters: the one
// that finds no cluster gets that of another one that is deleted.
func TestWorkloadsApart(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	w.StopControllers()
	w.Options.Gates = harness.Gates(t, "WorkloadAffinity=true")
	w.StartControllers()
	w.CreateAll(harness.Policy("all", policyv1alpha1.Placement{
		WorkloadAffinity:  &policyv1alpha1.WorkloadAffinity{AntiAffinity: &policyv1alpha1.WorkloadAffinityTerm{GroupByLabelKey: "tier"}},
		SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: 1, MaxGroups: 1}},
	}))
	for _, each := range []struct{ name, on string }{{"first", "member1"}, {"second", "member2"}, {"third", ""}} {
		object := harness.Deployment(each.name, 1)
		object.Labels["tier"] = "front"
		w.CreateAll(object)
		if each.on != "" {
			w.RunsOn(each.name, map[string]int32{each.on: 1})
		}
	}
	w.Eventually("the third has no cluster", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "third-deployment"}, b); err != nil {
			return err
		}
		for _, condition := range b.Status.Conditions {
			if condition.Type == workv1alpha2.BindingConditionScheduled && condition.Reason == workv1alpha2.BindingReasonNoClusterFit {
				return nil
			}
		}
		return errors.New("it says nothing of that")
	})
	if err := w.Delete(w.Context(), harness.Deployment("first", 1)); err != nil {
		t.Fatal(err)
	}
	w.RunsOn("third", map[string]int32{"member1": 1})
}
