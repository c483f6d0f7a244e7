// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestMistakesAreTold has many things go wrong at once, and one that is right go
// on.
func TestMistakesAreTold(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	mistakes := map[string]func(*policyv1alpha1.PropagationPolicy){
		"good": func(*policyv1alpha1.PropagationPolicy) {},
		"unranked": func(p *policyv1alpha1.PropagationPolicy) {
			p.Spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassSource: policyv1alpha1.KubePriorityClass, PriorityClassName: "missing"}
		},
		"nowhere": func(p *policyv1alpha1.PropagationPolicy) {
			p.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "yes"}}}
		},
		"unreadable": func(*policyv1alpha1.PropagationPolicy) {},
		"unserved": func(p *policyv1alpha1.PropagationPolicy) {
			p.Spec.ResourceSelectors = append(p.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "example.io/v1", Kind: "Gadget"},
				policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "configmap"})
		},
	}
	w.CreateAll(&policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "images"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "unreadable"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
				{Component: policyv1alpha1.ImageRegistry, Operator: policyv1alpha1.OverriderOpReplace, Value: "registry.example.com"},
			}}}},
		},
	})
	for name, mistake := range mistakes {
		p, d := harness.Policy(name, policyv1alpha1.Placement{}), harness.Deployment(name, 1)
		p.Spec.ResourceSelectors[0].Name = name
		if name == "unreadable" {
			d.Spec.Template.Spec.Containers[0].Image = "not an:image:name"
		}
		mistake(p)
		w.CreateAll(p, d)
	}
	large := harness.Policy("large", policyv1alpha1.Placement{})
	large.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "large"}}
	w.CreateAll(large, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "large"}, Data: map[string]string{"text": strings.Repeat("<", 1_040_000)},
	}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "unselected"}})

	w.RunsOn("good", map[string]int32{"member1": 1})
	w.HasEventWith("unranked", "ApplyPolicyFailed", `names PriorityClass "missing" (spec.schedulePriority), which does not exist: create it`)
	unranked := harness.Policy("unranked", policyv1alpha1.Placement{})
	w.ChangeObject(unranked, func() { unranked.Spec.SchedulePriority.PriorityClassName = "absent" })
	w.HasEventWith("unranked", "ApplyPolicyFailed", `names PriorityClass "absent"`)
	w.HasEventWith("unserved", "KindNotServed", "spec.resourceSelectors[1]: the hub has no kind Gadget in example.io/v1; spec.resourceSelectors[2]: the hub has no kind configmap in v1: install its definition")
	w.RunsOn("unserved", map[string]int32{"member1": 1})
	w.BindingSays("nowhere-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonNoClusterFit, `its labels do not match "gpu=yes"`)
	w.BindingSays("unreadable-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, `OverridePolicy`)
	w.BindingSays("large-configmap", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "the object is too large to be sent; make it smaller, or split it")
	// The policy "unserved" spells ConfigMap in lower case.
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "unselected-configmap"}})
}

// TestAPolicyThatSelectsNothing puts the clock forward: objects may come a moment
// after their policy.
func TestAPolicyThatSelectsNothing(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.StopControllers()
	clk := &harness.Later{}
	w.Options.Clock = clk
	w.StartControllers()
	p := harness.Policy("vain", policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors[0].Name, p.Finalizers = "nothing", nil
	w.CreateAll(p)
	w.Eventually("the policy is seen", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || len(p.Finalizers) > 0 {
			return err
		}
		return errors.New("it has no finalizer")
	})
	clk.By.Store(int64(time.Minute))
	w.ChangeObject(p, func() { p.Labels["looked"] = "at" })
	w.HasEventWith("vain", "NothingSelected", "no object of the hub matches spec.resourceSelectors")
}
