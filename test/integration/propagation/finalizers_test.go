// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestTheFinalizersOfABindingComeBack has a client write its own finalizers over those of
// the bindings of objects that policies claim, of what another object needs, and of one that
// somebody wrote himself.
func TestTheFinalizersOfABindingComeBack(t *testing.T) {
	w := newWorld(t, 2)
	web, page, own := deployment("web", 1), configMap(metav1.NamespaceDefault, "page"), configMap(tenant, "own")
	web.Spec.Template.Spec.Containers[0].EnvFrom = envFrom(page)
	webs := policy("web", policyv1alpha1.Placement{})
	webs.Spec.PropagateDeps = true
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	roles := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "roles"}}
	roles.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, page, web, webs, role, roles, own)
	written := bound(own)
	written.Name, written.Spec.Resource.Kind = "own-configmap", "ConfigMap"
	w.create(written)

	wide, ours := &workv1alpha2.ClusterResourceBinding{}, []string{workv1alpha2.FinalizerResourceBinding}
	wide.Name = "reader-clusterrole"
	for _, tc := range []struct {
		binding client.Object
		want    []string
	}{
		{resourceBinding(metav1.NamespaceDefault, "web-deployment"), append(ours, workv1alpha2.FinalizerDependencies)},
		{resourceBinding(metav1.NamespaceDefault, "page-configmap"), ours},
		{written, ours},
		{wide, []string{workv1alpha2.FinalizerClusterResourceBinding}},
	} {
		b := tc.binding
		w.eventually(fmt.Sprintf("binding %s has the finalizers %q", b.GetName(), tc.want), func() error { return w.hasFinalizers(b, tc.want) })
		for _, foreign := range [][]string{{"example.com/x"}, {"example.com/y", "example.com/z"}, nil} {
			w.change(b, func() { b.SetFinalizers(foreign) })
			want := slices.Concat(foreign, tc.want)
			w.eventually(fmt.Sprintf("binding %s has the finalizers %q", b.GetName(), want), func() error { return w.hasFinalizers(b, want) })
		}
	}
}

// TestAForeignFinalizerKeepsOnlyTheBinding deletes an object whose binding a client holds,
// once as it is and once after the client has written its finalizer over that of the
// controllers, which do not run then.
func TestAForeignFinalizerKeepsOnlyTheBinding(t *testing.T) {
	for name, alone := range map[string]bool{"beside that of the hub": false, "in the place of that of the hub": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			web, b := deployment("web", 1), resourceBinding(metav1.NamespaceDefault, "web-deployment")
			w.create(web, policy("web", policyv1alpha1.Placement{}))
			w.on("web", map[string]int32{"member1": 1})
			if alone {
				w.stop()
				w.change(b, func() { b.Finalizers = []string{"example.com/x"} })
				if err := w.Delete(t.Context(), b); err != nil { // as the garbage collector does
					t.Fatal(err)
				}
				w.remove(web)
				w.start()
			} else {
				w.change(b, func() { b.Finalizers = append(b.Finalizers, "example.com/x") })
				w.remove(web)
			}
			w.sentAre("Deployment")
			w.eventually("the binding has only the finalizer of the client", func() error { return w.hasFinalizers(b, []string{"example.com/x"}) })
			if b.DeletionTimestamp.IsZero() {
				t.Error("the binding is not being deleted")
			}
			w.change(b, func() { b.Finalizers = nil })
			w.gone(b)
		})
	}
}

// TestAnObjectThatFinalizersKeepStaysAndIsToldOf deletes an object that has finalizers. Its
// clusters have it without these, and keep it as long as the hub does; the binding says so.
// What was deleted before a policy came, or a workload that needs it, is not sent.
func TestAnObjectThatFinalizersKeepStaysAndIsToldOf(t *testing.T) {
	w := newWorld(t, 1)
	web, late, page := deployment("web", 1), deployment("late", 1), configMap(metav1.NamespaceDefault, "page")
	web.Finalizers, late.Finalizers, page.Finalizers = []string{"example.com/f", "example.com/g"}, []string{"example.com/f"}, []string{"example.com/f"}
	web.Spec.Template.Spec.Containers[0].EnvFrom = envFrom(page)
	w.create(web, late, page)
	for _, object := range []client.Object{late, page} {
		if err := w.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	all := policy("all", policyv1alpha1.Placement{})
	all.Spec.PropagateDeps = true
	w.create(all)
	w.on("web", map[string]int32{"member1": 1})
	work := w.work("member1", "web")
	if finalizers := w.object(&work).GetFinalizers(); len(finalizers) > 0 {
		t.Errorf("the cluster is sent the finalizers %q", finalizers)
	}
	if err := w.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.remarks("web-deployment", "waits for finalizers: example.com/f, example.com/g.")
	w.change(web, func() { web.Finalizers = []string{"example.com/g"} })
	w.remarks("web-deployment", "waits for finalizers: example.com/g.")
	w.on("web", map[string]int32{"member1": 1})
	w.bindings(metav1.NamespaceDefault, "web-deployment") // the others were looked at long ago
	w.sentAre("Deployment", "member1/web")

	w.change(web, func() { web.Finalizers = nil })
	w.sentAre("Deployment")
	w.gone(resourceBinding(metav1.NamespaceDefault, "web-deployment"))
	w.change(late, func() { late.Finalizers = nil })
	w.change(page, func() { page.Finalizers = nil })
	w.gone(late)
}

// remarks waits until a binding says that all clusters have its object, and a text besides.
func (w world) remarks(binding, text string) {
	w.Helper()
	w.eventually(fmt.Sprintf("binding %s says %q", binding, text), func() error {
		b := resourceBinding(metav1.NamespaceDefault, binding)
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, text) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// hasFinalizers reads an object, and returns an error if it has other finalizers.
func (w world) hasFinalizers(object client.Object, want []string) error {
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	has := object.GetFinalizers()
	if len(has) == len(want) && !slices.ContainsFunc(want, func(finalizer string) bool { return !slices.Contains(has, finalizer) }) {
		return nil
	}
	return fmt.Errorf("it has %q", has)
}

func resourceBinding(namespace, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// envFrom returns what has a container read a ConfigMap.
func envFrom(config *corev1.ConfigMap) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config.Name}}}}
}
