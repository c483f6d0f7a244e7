// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestTheFinalizersOfABindingComeBack has a client write its own finalizers over those of
// the bindings of objects that policies claim, of what another object needs, and of one that
// somebody wrote himself.
func TestTheFinalizersOfABindingComeBack(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	web, page, own := harness.Deployment("web", 1), configMap(metav1.NamespaceDefault, "page"), configMap(tenant, "own")
	web.Spec.Template.Spec.Containers[0].EnvFrom = envFrom(page)
	webs := harness.Policy("web", policyv1alpha1.Placement{})
	webs.Spec.PropagateDeps = true
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	roles := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "roles"}}
	roles.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name}}
	w.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, page, web, webs, role, roles, own)
	written := bound(own)
	written.Name, written.Spec.Resource.Kind = "own-configmap", "ConfigMap"
	w.CreateAll(written)

	wide, ours := &workv1alpha2.ClusterResourceBinding{}, []string{workv1alpha2.FinalizerResourceBinding}
	wide.Name = "reader-clusterrole"
	for _, tc := range []struct {
		binding client.Object
		want    []string
	}{
		{harness.ResourceBinding(metav1.NamespaceDefault, "web-deployment"), append(ours, workv1alpha2.FinalizerDependencies)},
		{harness.ResourceBinding(metav1.NamespaceDefault, "page-configmap"), ours},
		{written, ours},
		{wide, []string{workv1alpha2.FinalizerClusterResourceBinding}},
	} {
		b := tc.binding
		w.Eventually(fmt.Sprintf("binding %s has the finalizers %q", b.GetName(), tc.want), func() error { return w.HasFinalizers(b, tc.want) })
		for _, foreign := range [][]string{{"example.com/x"}, {"example.com/y", "example.com/z"}, nil} {
			w.ChangeObject(b, func() { b.SetFinalizers(foreign) })
			want := slices.Concat(foreign, tc.want)
			w.Eventually(fmt.Sprintf("binding %s has the finalizers %q", b.GetName(), want), func() error { return w.HasFinalizers(b, want) })
		}
	}
}

// TestAForeignFinalizerKeepsOnlyTheBinding deletes an object whose binding a client holds,
// once as it is and once after the client has written its finalizer over that of the
// controllers, which do not run then.
func TestAForeignFinalizerKeepsOnlyTheBinding(t *testing.T) {
	for name, alone := range map[string]bool{"beside that of the hub": false, "in the place of that of the hub": true} {
		t.Run(name, func(t *testing.T) {
			w := harness.NewWorld(t, servers, 1)
			web, b := harness.Deployment("web", 1), harness.ResourceBinding(metav1.NamespaceDefault, "web-deployment")
			w.CreateAll(web, harness.Policy("web", policyv1alpha1.Placement{}))
			w.RunsOn("web", map[string]int32{"member1": 1})
			if alone {
				w.StopControllers()
				w.ChangeObject(b, func() { b.Finalizers = []string{"example.com/x"} })
				if err := w.Delete(t.Context(), b); err != nil { // as the garbage collector does
					t.Fatal(err)
				}
				w.Remove(web)
				w.StartControllers()
			} else {
				w.ChangeObject(b, func() { b.Finalizers = append(b.Finalizers, "example.com/x") })
				w.Remove(web)
			}
			w.SendsObjects("Deployment")
			w.Eventually("the binding has only the finalizer of the client", func() error { return w.HasFinalizers(b, []string{"example.com/x"}) })
			if b.DeletionTimestamp.IsZero() {
				t.Error("the binding is not being deleted")
			}
			w.ChangeObject(b, func() { b.Finalizers = nil })
			w.IsGone(b)
		})
	}
}

// TestAnObjectThatFinalizersKeepStaysAndIsToldOf deletes an object that has finalizers. Its
// clusters have it without these, and keep it as long as the hub does; the binding says so.
// What was deleted before a policy came, or a workload that needs it, is not sent.
func TestAnObjectThatFinalizersKeepStaysAndIsToldOf(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	web, late, page := harness.Deployment("web", 1), harness.Deployment("late", 1), configMap(metav1.NamespaceDefault, "page")
	web.Finalizers, late.Finalizers, page.Finalizers = []string{"example.com/f", "example.com/g"}, []string{"example.com/f"}, []string{"example.com/f"}
	web.Spec.Template.Spec.Containers[0].EnvFrom = envFrom(page)
	w.CreateAll(web, late, page)
	for _, object := range []client.Object{late, page} {
		if err := w.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	all := harness.Policy("all", policyv1alpha1.Placement{})
	all.Spec.PropagateDeps = true
	w.CreateAll(all)
	w.RunsOn("web", map[string]int32{"member1": 1})
	work := w.WorkOf("member1", "web")
	if finalizers := w.ObjectOf(&work).GetFinalizers(); len(finalizers) > 0 {
		t.Errorf("the cluster is sent the finalizers %q", finalizers)
	}
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.BindingRemarks("web-deployment", "waits for finalizers: example.com/f, example.com/g.")
	w.ChangeObject(web, func() { web.Finalizers = []string{"example.com/g"} })
	w.BindingRemarks("web-deployment", "waits for finalizers: example.com/g.")
	w.RunsOn("web", map[string]int32{"member1": 1})
	w.HasBindings(metav1.NamespaceDefault, "web-deployment") // the others were looked at long ago
	w.SendsObjects("Deployment", "member1/web")

	w.ChangeObject(web, func() { web.Finalizers = nil })
	w.SendsObjects("Deployment")
	w.IsGone(harness.ResourceBinding(metav1.NamespaceDefault, "web-deployment"))
	w.ChangeObject(late, func() { late.Finalizers = nil })
	w.ChangeObject(page, func() { page.Finalizers = nil })
	w.IsGone(late)
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// envFrom returns what has a container read a ConfigMap.
func envFrom(config *corev1.ConfigMap) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config.Name}}}}
}
