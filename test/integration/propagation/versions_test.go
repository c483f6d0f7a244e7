// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestTwoVersionsOfOneKind has tenants select one kind in two API versions: each in his
// own namespace, and then two policies the same object.
func TestTwoVersionsOfOneKind(t *testing.T) {
	w := newWorld(t, 2)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}})
	older, newer := scaling("older", tenant, "autoscaling/v1", "member1"), scaling("newer", victim, "autoscaling/v2", "member2")
	w.create(older, newer, autoscaler(tenant), autoscaler(victim))
	w.sentAs(tenant, "autoscaling/v1", "member1")
	w.sentAs(victim, "autoscaling/v2", "member2")
	w.quietFor(10*time.Second, tenant, victim)

	w.create(scaling("rival", tenant, "autoscaling/v2", "member2"))
	w.sentAs(tenant, "autoscaling/v1", "member1") // who has the object keeps it
	w.quietFor(5*time.Second, tenant, victim)
	w.remove(older)
	w.sentAs(tenant, "autoscaling/v2", "member2")
	w.quietFor(5*time.Second, tenant, victim)
}

func autoscaler(namespace string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
	}
}

// scaling is a policy of a namespace for its autoscaler.
func scaling(name, namespace, apiVersion, cluster string) *policyv1alpha1.PropagationPolicy {
	p := policy(name, only(cluster))
	p.Namespace = namespace
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: apiVersion, Kind: "HorizontalPodAutoscaler", Name: "h"}}
	return p
}

func (w world) scalingOf(namespace string) (*workv1alpha2.ResourceBinding, error) {
	b := &workv1alpha2.ResourceBinding{}
	return b, w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "h-horizontalpodautoscaler"}, b)
}

// sentAs waits until the autoscaler of a namespace is sent to one cluster, in a version.
func (w world) sentAs(namespace, apiVersion, cluster string) {
	w.Helper()
	w.eventually(fmt.Sprintf("cluster %s has the autoscaler of %s as %s", cluster, namespace, apiVersion), func() error {
		b, err := w.scalingOf(namespace)
		if err != nil {
			return err
		}
		if b.Spec.Resource.APIVersion != apiVersion || len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != cluster {
			return fmt.Errorf("the binding is for %s, and for the clusters %v", b.Spec.Resource.APIVersion, b.Spec.Clusters)
		}
		for _, work := range w.worksOf(cluster) {
			if object := w.object(&work); object.GetNamespace() == namespace && object.GetName() == "h" && object.GetAPIVersion() == apiVersion {
				return nil
			}
		}
		return fmt.Errorf("cluster %s has no work of it", cluster)
	})
}

// quietFor checks that nothing is written to the autoscalers of namespaces, nor to the
// specs of their bindings, for a while.
func (w world) quietFor(d time.Duration, namespaces ...string) {
	w.Helper()
	versions := func() (all []string) {
		for _, namespace := range namespaces {
			object := autoscaler(namespace)
			b, err := w.scalingOf(namespace)
			if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				w.Fatal(err)
			}
			if err != nil {
				w.Fatal(err)
			}
			all = append(all, object.ResourceVersion, fmt.Sprint(b.Generation, b.UID))
		}
		return all
	}
	// What was decided last may still be written.
	w.eventually("nothing is written", func() error {
		before := versions()
		select {
		case <-time.After(d):
		case <-w.Context().Done():
		}
		if after := versions(); fmt.Sprint(before) != fmt.Sprint(after) {
			return fmt.Errorf("versions and generations were %v, and are %v", before, after)
		}
		return nil
	})
}
