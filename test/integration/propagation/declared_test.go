// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// declared are the clusters that are to have objects, by KIND/NAME.
type declared map[string][]string

// sentWork is a work, and what it has.
type sentWork struct {
	uid, template types.UID
	applied       types.UID // of the object in the cluster, if this is a member that has it
	object        *unstructured.Unstructured
	going         bool
}

// everySent returns the works of bindings by CLUSTER/KIND/NAME of what they have.
func (w world) everySent() (map[string]sentWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := w.List(w.Context(), list, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
		return nil, err
	}
	all := map[string]sentWork{}
	for i := range list.Items {
		work, object := &list.Items[i], &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
			return nil, err
		}
		key := work.Namespace + "/" + object.GetKind() + "/" + object.GetName()
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("%s was sent twice", key)
		}
		all[key] = sentWork{
			uid: work.UID, template: types.UID(object.GetAnnotations()[workv1alpha2.AnnotationTemplateUID]), object: object,
			going: !work.DeletionTimestamp.IsZero(),
		}
	}
	return all, w.noteApplied(all)
}

// exact tells what differs from what is declared: of the works, of the objects
// that they were made of, of the bindings, and of the objects in the members.
func (w world) exact(want declared) error {
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

// become waits until everything is as declared, and sees that the works which were
// there before are the same.
func (w world) become(want declared, before map[string]sentWork) {
	w.Helper()
	w.eventually(fmt.Sprintf("sent is %v", want), func() error { return w.exact(want) })
	w.unbroken(before)
}

// unbroken sees that no work is another one than it was: its object would have
// been deleted in the cluster, and created again.
func (w world) unbroken(before map[string]sentWork) {
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
		if is.uid != was.uid || was.applied != "" && is.applied != was.applied {
			w.Errorf("%s was deleted and made anew: work %s became %s, the object %s became %s", key, was.uid, is.uid, was.applied, is.applied)
		}
	}
}

// remember returns what is sent now.
func (w world) remember() map[string]sentWork {
	w.Helper()
	sent, err := w.everySent()
	if err != nil {
		w.Fatal(err)
	}
	return sent
}

// remove deletes an object, and waits until it is gone.
func (w world) remove(object client.Object) {
	w.Helper()
	if err := w.Delete(w.Context(), object); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	w.gone(object)
}

func onClusters(names ...string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
}
