// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestTheWorksOfATenantAreBounded has a tenant send more to three clusters than the works of the
// namespace may have.
func TestTheWorksOfATenantAreBounded(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	large := func(name string, bytes int) map[string]string {
		return map[string]string{"example.com/" + name: strings.Repeat("x", bytes)}
	}
	limit := func(bytes string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
		w.ChangeObject(namespace, func() {
			namespace.Annotations = map[string]string{fleetv1alpha1.AnnotationWorkBytesMax: bytes}
		})
	}
	limit("30Ki")
	web := harness.Deployment("web", 1)
	web.Annotations = large("text", 20<<10)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)

	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonNamespaceFull, `"default"`)
	w.HasEventWith("web-deployment", workv1alpha2.BindingReasonNamespaceFull, fleetv1alpha1.AnnotationWorkBytesMax)
	if has := w.CountClustersWith("web"); has != 1 {
		t.Errorf("%d clusters have it, and there is room for one", has)
	}

	// What becomes smaller is sent, and then there is room for the others.
	w.ChangeObject(web, func() { web.Annotations = large("text", 1<<10) })
	w.RunsOn("web", map[string]int32{"member1": 1, "member2": 1, "member3": 1})

	// A lower limit takes nothing from clusters, but nothing grows.
	limit("0")
	w.ChangeObject(web, func() { web.Annotations = large("text", 2<<10) })
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonNamespaceFull, "3 clusters")
	if has := w.CountClustersWith("web"); has != 3 {
		t.Errorf("%d clusters have it still", has)
	}

	// An administrator gives more room, and nobody has to wait for that.
	limit("1Gi")
	w.Eventually("all clusters have what it is now", func() error {
		for n := range 3 {
			cluster := fmt.Sprintf("member%d", n+1)
			for _, work := range w.WorksOf(cluster) {
				if object := w.ObjectOf(&work); object.GetName() == "web" && len(object.GetAnnotations()["example.com/text"]) != 2<<10 {
					return fmt.Errorf("%s has not", cluster)
				}
			}
		}
		return nil
	})

	// Nothing keeps works from going.
	limit("0")
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.HasWorks(0)
}

// TestATenantHoldsBackNothingOfAnAdministrator has a tenant with all that the works of his namespace may
// have, while a ClusterPropagationPolicy sends another object from there. The tenant gets nothing more sent
// by giving the marks of that policy to his own object and its binding.
func TestATenantHoldsBackNothingOfAnAdministrator(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	limit := func(key string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
		w.ChangeObject(namespace, func() { namespace.Annotations = map[string]string{key: "0"} })
	}
	limit(fleetv1alpha1.AnnotationWorkBytesMax)
	quota := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "quota"}, Data: map[string]string{"of": "the administrator"}}
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: harness.Policy("web", policyv1alpha1.Placement{}).Spec}
	wide.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Namespace: metav1.NamespaceDefault, Name: "quota"}}
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), harness.Deployment("web", 1), wide, quota)
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonNamespaceFull, fleetv1alpha1.AnnotationWorkBytesMax)
	all := func() error {
		if has := w.CountClustersWith("quota"); has != 3 {
			return fmt.Errorf("%d of 3 clusters have what the administrator sends", has)
		}
		return nil
	}
	w.Eventually("the administrator's object is sent", all)

	if err := w.Get(t.Context(), client.ObjectKeyFromObject(wide), wide); err != nil {
		t.Fatal(err)
	}
	marks := claims.MarksForPolicy(wide)
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "own", Labels: marks.Labels, Annotations: marks.Annotations,
	}}
	w.CreateAll(own)
	forged := bound(own)
	forged.Namespace, forged.Name, forged.Annotations = own.Namespace, "own-configmap", marks.Annotations
	forged.Spec.Resource.Kind, forged.Spec.Resource.Namespace = "ConfigMap", own.Namespace
	maps.Copy(forged.Labels, marks.Labels)
	w.CreateAll(forged)
	w.BindingSays(forged.Name, workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonNamespaceFull, fleetv1alpha1.AnnotationWorkBytesMax)
	if has := w.CountClustersWith("own"); has != 0 {
		t.Errorf("%d clusters have what a tenant has given the marks of an administrator's policy", has)
	}

	// An administrator's limit is for what ClusterPropagationPolicies send, and for nothing else.
	limit(fleetv1alpha1.AnnotationClusterPolicyWorkBytesMax)
	w.RunsOn("web", map[string]int32{"member1": 1, "member2": 1, "member3": 1})
	w.ChangeObject(quota, func() { quota.Data["of"] = strings.Repeat("x", 4<<10) })
	w.BindingSays("quota-configmap", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonNamespaceFull, fleetv1alpha1.AnnotationClusterPolicyWorkBytesMax)
	if err := all(); err != nil {
		t.Error(err)
	}
}
