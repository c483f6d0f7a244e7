// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestTwoVersionsOfOneKind has tenants select one kind in two API versions: each in his
// own namespace, and then two policies the same object.
func TestTwoVersionsOfOneKind(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	w.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}})
	older, newer := scaling("older", tenant, "autoscaling/v1", "member1"), scaling("newer", victim, "autoscaling/v2", "member2")
	w.CreateAll(older, newer, harness.Autoscaler(tenant), harness.Autoscaler(victim))
	w.SentAs(tenant, "autoscaling/v1", "member1")
	w.SentAs(victim, "autoscaling/v2", "member2")
	w.QuietFor(10*time.Second, tenant, victim)

	w.CreateAll(scaling("rival", tenant, "autoscaling/v2", "member2"))
	w.SentAs(tenant, "autoscaling/v1", "member1") // who has the object keeps it
	w.QuietFor(5*time.Second, tenant, victim)
	w.Remove(older)
	w.SentAs(tenant, "autoscaling/v2", "member2")
	w.QuietFor(5*time.Second, tenant, victim)
}

// scaling is a policy of a namespace for its autoscaler.
func scaling(name, namespace, apiVersion, cluster string) *policyv1alpha1.PropagationPolicy {
	p := harness.Policy(name, only(cluster))
	p.Namespace = namespace
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: apiVersion, Kind: "HorizontalPodAutoscaler", Name: "h"}}
	return p
}
