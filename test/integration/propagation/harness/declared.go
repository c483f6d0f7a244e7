// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/outage"
)

// Declared are the clusters that are to have objects, by KIND/NAME.
type Declared map[string][]string

// SentWork is a work, and what it has.
type SentWork struct {
	uid, template types.UID
	Applied       types.UID // of the object in the cluster, if this is a member that has it
	object        *unstructured.Unstructured
	going         bool
}

// everySent returns the works of bindings by CLUSTER/KIND/NAME of what they have.
func (w World) everySent() (map[string]SentWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := w.List(w.Context(), list, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
		return nil, err
	}
	all := map[string]SentWork{}
	for i := range list.Items {
		work, object := &list.Items[i], &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
			return nil, err
		}
		key := work.Namespace + "/" + object.GetKind() + "/" + object.GetName()
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("%s was sent twice", key)
		}
		all[key] = SentWork{
			uid: work.UID, template: types.UID(object.GetAnnotations()[workv1alpha2.AnnotationTemplateUID]), object: object,
			going: !work.DeletionTimestamp.IsZero(),
		}
	}
	return all, w.noteApplied(all)
}

// DiffersFrom tells what differs from what is declared: of the works, of the objects
// that they were made of, of the bindings, and of the objects in the members.
func (w World) DiffersFrom(want Declared) error {
	sent, err := w.everySent()
	if err != nil {
		return err
	}
	var keys, bindings []string
	for object, clusters := range want {
		bindings = append(bindings, object)
		for _, cluster := range clusters {
			keys = append(keys, cluster+"/"+object)
		}
	}
	slices.Sort(keys)
	if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, keys) {
		return fmt.Errorf("sent are %v, want %v", got, keys)
	}
	for key, work := range sent {
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(work.object.GroupVersionKind())
		err := w.Get(w.Context(), client.ObjectKeyFromObject(work.object), template)
		if err != nil || work.going || work.template != template.GetUID() {
			return fmt.Errorf("%s is of the object %q, that of the hub is %q; it goes: %t; %w", key, work.template, template.GetUID(), work.going, err)
		}
	}
	list := &workv1alpha2.ResourceBindingList{}
	if err := w.List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	var has []string
	for i := range list.Items {
		b := &list.Items[i]
		has = append(has, b.Spec.Resource.Kind+"/"+b.Spec.Resource.Name)
		if !b.DeletionTimestamp.IsZero() {
			return fmt.Errorf("binding %s is on its way out, but for %v", b.Name, b.Finalizers)
		}
	}
	slices.Sort(has)
	slices.Sort(bindings)
	if !slices.Equal(has, bindings) {
		return fmt.Errorf("bound are %v, want %v", has, bindings)
	}
	return w.delivered(sent)
}

// BecomesDeclared waits until everything is as declared, and sees that the works which were
// there before are the same.
func (w World) BecomesDeclared(want Declared, before map[string]SentWork) {
	w.Helper()
	w.Eventually(fmt.Sprintf("sent is %v", want), func() error { return w.DiffersFrom(want) })
	w.Unbroken(before)
}

// Unbroken sees that no work is another one than it was: its object would have
// been deleted in the cluster, and created again.
func (w World) Unbroken(before map[string]SentWork) {
	w.Helper()
	now, err := w.everySent()
	if err != nil {
		w.Fatal(err)
	}
	for key, was := range before {
		is, stays := now[key]
		if !stays || is.template != was.template {
			continue
		}
		if is.uid != was.uid || was.Applied != "" && is.Applied != was.Applied {
			w.Errorf("%s was deleted and made anew: work %s became %s, the object %s became %s", key, was.uid, is.uid, was.Applied, is.Applied)
		}
	}
}

// RememberSent returns what is sent now.
func (w World) RememberSent() map[string]SentWork {
	w.Helper()
	sent, err := w.everySent()
	if err != nil {
		w.Fatal(err)
	}
	return sent
}

// Remove deletes an object, and waits until it is gone.
func (w World) Remove(object client.Object) {
	w.Helper()
	if err := w.Delete(w.Context(), object); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	w.IsGone(object)
}

// OnClusters returns a placement on these clusters.
func OnClusters(names ...string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
}

// shop is what the fault tests send: a Deployment that needs a ConfigMap, and
// others that need nothing.
type shop struct {
	Page   *corev1.ConfigMap
	Web    *appsv1.Deployment
	Others []*appsv1.Deployment
	Policy *policyv1alpha1.PropagationPolicy
}

// OpenShop creates the shop, for the first two clusters.
func (w World) OpenShop(others ...string) *shop {
	w.Helper()
	s := &shop{
		Page: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page"}},
		Web:  Deployment("web", 2), Policy: Policy("shop", OnClusters("member1", "member2")),
	}
	s.Policy.Spec.PropagateDeps = true
	s.Web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}},
	}}
	w.CreateAll(s.Page, s.Web, s.Policy)
	for _, name := range others {
		s.Others = append(s.Others, Deployment(name, 1))
		w.CreateAll(s.Others[len(s.Others)-1])
	}
	return s
}

// DeclaredOn is what is declared if all of the shop is on these clusters.
func (s *shop) DeclaredOn(clusters ...string) Declared {
	all := Declared{"ConfigMap/page": clusters, "Deployment/web": clusters}
	for _, other := range s.Others {
		all["Deployment/"+other.Name] = clusters
	}
	return all
}

// Outlive starts one controller after the other until everything is as declared,
// and returns how many have died. What is to stay is never deleted.
func (w World) Outlive(want Declared) (deaths int) {
	w.Helper()
	before := w.RememberSent()
	for until := time.Now().Add(5 * patience); w.DiffersFrom(want) != nil; deaths++ {
		if time.Now().After(until) {
			w.Fatalf("after %d deaths: %v", deaths, w.DiffersFrom(want))
		}
		server := &outage.WrappedServer{}
		server.EndsAfter(1, deaths%4 != 0)
		stop := w.RunControllers(server.WrapTransport)
		// What the one before has sent may be all that was missing.
		for !server.HasEnded() && w.DiffersFrom(want) != nil && time.Now().Before(until) {
			time.Sleep(20 * time.Millisecond)
		}
		server.EndNow()
		stop()
	}
	w.Logf("as declared after %d deaths", deaths)
	w.Unbroken(before)
	return deaths
}
