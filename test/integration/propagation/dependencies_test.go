// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestWhatAnObjectNeedsGoesAlong is about the ConfigMaps that Deployments read:
// one that is there, one that comes later, and one that two of them share.
func TestWhatAnObjectNeedsGoesAlong(t *testing.T) {
	w := newWorld(t, 2)
	to := func(cluster string) policyv1alpha1.Placement {
		return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
	}
	web, other := deployment("web", 1), deployment("other", 1)
	for _, name := range []string{"page", "late", "kube-root-ca.crt"} {
		web.Spec.Template.Spec.Containers[0].EnvFrom = append(web.Spec.Template.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	other.Spec.Template.Spec.Containers[0].EnvFrom = web.Spec.Template.Spec.Containers[0].EnvFrom[:1]
	config := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	webs, others := policy("web", to("member1")), policy("other", to("member2"))
	for p, name := range map[*policyv1alpha1.PropagationPolicy]string{webs: "web", others: "other"} {
		p.Spec.ResourceSelectors[0].Name, p.Spec.PropagateDeps = name, true
	}
	page := config("page")
	w.create(page, config("kube-root-ca.crt"), config("unneeded"), web, webs)
	w.on("web", map[string]int32{"member1": 1})
	w.sentAre("ConfigMap", "member1/page")

	// No policy claims it, and what is changed of it arrives all the same: not only
	// while the binding is looked at for another reason.
	w.eventually("all is said about the ConfigMap", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: page.Namespace, Name: "page-configmap"}, b); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied) {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
	w.change(page, func() { page.Data = map[string]string{"title": "changed"} })
	w.eventually("the change of the ConfigMap is sent", func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.InNamespace("member1")); err != nil {
			return err
		}
		for i := range works.Items {
			sent := &corev1.ConfigMap{}
			if err := json.Unmarshal(works.Items[i].Spec.Workload.Manifests[0].Raw, sent); err == nil && sent.Name == page.Name && sent.Data["title"] == "changed" {
				return nil
			}
		}
		return errors.New("it is not")
	})

	w.create(config("late"))
	w.sentAre("ConfigMap", "member1/page", "member1/late")

	w.create(other, others)
	w.on("other", map[string]int32{"member2": 1})
	w.sentAre("ConfigMap", "member1/page", "member1/late", "member2/page")

	w.change(webs, func() { webs.Spec.Placement = to("member2") })
	w.on("web", map[string]int32{"member2": 1})
	w.sentAre("ConfigMap", "member2/page", "member2/late")

	if err := w.Delete(w.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.sentAre("ConfigMap", "member2/page")
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "web-deployment"}})
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "late-configmap"}})

	// A policy of its own keeps it when nobody needs it any more.
	pages := policy("pages", to("member1"))
	pages.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "page"}
	w.create(pages)
	w.sentAre("ConfigMap", "member1/page", "member2/page")
	if err := w.Delete(w.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.sentAre("ConfigMap", "member1/page")
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "other-deployment"}})
}

// sentAre waits until exactly these objects of a kind are sent, as CLUSTER/NAME.
func (w world) sentAre(kind string, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("the %ss that are sent are %v", kind, want), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
			return err
		}
		sent := map[string]bool{}
		for i := range works.Items {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(works.Items[i].Spec.Workload.Manifests[0].Raw); err != nil {
				return err
			}
			if object.GetKind() == kind {
				sent[works.Items[i].Namespace+"/"+object.GetName()] = true
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}
