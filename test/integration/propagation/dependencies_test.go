// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestWhatAnObjectNeedsGoesAlong is about the ConfigMaps that Deployments read:
// one that is there, one that comes later, and one that two of them share.
func TestWhatAnObjectNeedsGoesAlong(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	to := func(cluster string) policyv1alpha1.Placement {
		return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
	}
	web, other := harness.Deployment("web", 1), harness.Deployment("other", 1)
	for _, name := range []string{"page", "late", "kube-root-ca.crt"} {
		web.Spec.Template.Spec.Containers[0].EnvFrom = append(web.Spec.Template.Spec.Containers[0].EnvFrom, corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	other.Spec.Template.Spec.Containers[0].EnvFrom = web.Spec.Template.Spec.Containers[0].EnvFrom[:1]
	config := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	webs, others := harness.Policy("web", to("member1")), harness.Policy("other", to("member2"))
	for p, name := range map[*policyv1alpha1.PropagationPolicy]string{webs: "web", others: "other"} {
		p.Spec.ResourceSelectors[0].Name, p.Spec.PropagateDeps = name, true
	}
	page := config("page")
	w.CreateAll(page, config("kube-root-ca.crt"), config("unneeded"), web, webs)
	w.RunsOn("web", map[string]int32{"member1": 1})
	w.SendsObjects("ConfigMap", "member1/page")

	// No policy claims it, and what is changed of it arrives all the same: not only
	// while the binding is looked at for another reason.
	w.Eventually("all is said about the ConfigMap", func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: page.Namespace, Name: "page-configmap"}, b); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied) {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
	w.ChangeObject(page, func() { page.Data = map[string]string{"title": "changed"} })
	w.Eventually("the change of the ConfigMap is sent", func() error {
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

	w.CreateAll(config("late"))
	w.SendsObjects("ConfigMap", "member1/page", "member1/late")

	w.CreateAll(other, others)
	w.RunsOn("other", map[string]int32{"member2": 1})
	w.SendsObjects("ConfigMap", "member1/page", "member1/late", "member2/page")

	w.ChangeObject(webs, func() { webs.Spec.Placement = to("member2") })
	w.RunsOn("web", map[string]int32{"member2": 1})
	w.SendsObjects("ConfigMap", "member2/page", "member2/late")

	if err := w.Delete(w.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.SendsObjects("ConfigMap", "member2/page")
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "web-deployment"}})
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "late-configmap"}})

	// A policy of its own keeps it when nobody needs it any more.
	pages := harness.Policy("pages", to("member1"))
	pages.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "page"}
	w.CreateAll(pages)
	w.SendsObjects("ConfigMap", "member1/page", "member2/page")
	if err := w.Delete(w.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.SendsObjects("ConfigMap", "member1/page")
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "other-deployment"}})
}
