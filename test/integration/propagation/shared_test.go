// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestSharedHub: on a hub that is an ordinary cluster, a policy sends a Deployment
// only from a namespace that asks for it, and its status is left to the hub's own
// controllers.
func TestSharedHub(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.StopControllers()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	w.CreateAll(node)
	defer func() {
		if err := w.Delete(t.Context(), node); err != nil {
			t.Error(err)
		}
	}()
	w.StartControllers()
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shared-shop"}}
	web, p := harness.Deployment("web", 2), harness.Policy("web", policyv1alpha1.Placement{})
	web.Namespace, p.Namespace = shop.Name, shop.Name
	w.CreateAll(shop, web, p)
	w.NamespaceHasEvent(shop.Name, "ApplyPolicyFailed", `label namespace "shared-shop" fleet.capstan.io/templates=true`)
	name, binding := client.ObjectKey{Namespace: shop.Name, Name: "web-deployment"}, &workv1alpha2.ResourceBinding{}
	if err := w.Get(t.Context(), name, binding); !apierrors.IsNotFound(err) {
		t.Fatalf("it was sent all the same: %v", err)
	}

	w.ChangeObject(shop, func() { shop.Labels[fleetv1alpha1.LabelTemplates] = "true" })
	w.Eventually("the cluster has it", func() error {
		err := w.Get(t.Context(), name, binding)
		if items := binding.Status.AggregatedStatus; err == nil && (len(items) != 1 || !items[0].Applied) {
			return errors.New("it is not applied")
		}
		return err
	})
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	if web.Status.Replicas != 0 || web.Status.ObservedGeneration != 0 {
		t.Errorf("the status that the hub's own controller writes was written: %+v", web.Status)
	}

	w.ChangeObject(shop, func() { delete(shop.Labels, fleetv1alpha1.LabelTemplates) })
	w.Eventually("it is let go", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err
		}
		if _, claimed := web.Labels[policyv1alpha1.LabelPropagationPolicyID]; claimed {
			return errors.New("the policy claims it still")
		}
		return nil
	})
	if err := w.Get(t.Context(), name, binding); err != nil || len(binding.Spec.Clusters) != 1 {
		t.Errorf("what runs in the cluster does not stay: %v, %v", binding.Spec.Clusters, err)
	}
}
