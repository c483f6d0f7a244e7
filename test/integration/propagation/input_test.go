// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestMistakesAreTold has many things go wrong at once, and one that is right go
// on.
func TestMistakesAreTold(t *testing.T) {
	w := newWorld(t, 1)
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
	w.create(&policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "images"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "unreadable"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{
				{Component: policyv1alpha1.ImageRegistry, Operator: policyv1alpha1.OverriderOpReplace, Value: "registry.example.com"},
			}}}},
		},
	})
	for name, mistake := range mistakes {
		p, d := policy(name, policyv1alpha1.Placement{}), deployment(name, 1)
		p.Spec.ResourceSelectors[0].Name = name
		if name == "unreadable" {
			d.Spec.Template.Spec.Containers[0].Image = "not an:image:name"
		}
		mistake(p)
		w.create(p, d)
	}
	large := policy("large", policyv1alpha1.Placement{})
	large.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "large"}}
	w.create(large, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "large"}, Data: map[string]string{"text": strings.Repeat("<", 1_040_000)},
	}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "unselected"}})

	w.on("good", map[string]int32{"member1": 1})
	w.noted("unranked", "ApplyPolicyFailed", `names PriorityClass "missing" (spec.schedulePriority), which does not exist: create it`)
	unranked := policy("unranked", policyv1alpha1.Placement{})
	w.change(unranked, func() { unranked.Spec.SchedulePriority.PriorityClassName = "absent" })
	w.noted("unranked", "ApplyPolicyFailed", `names PriorityClass "absent"`)
	w.noted("unserved", "KindNotServed", "spec.resourceSelectors[1]: the hub has no kind Gadget in example.io/v1; spec.resourceSelectors[2]: the hub has no kind configmap in v1: install its definition")
	w.on("unserved", map[string]int32{"member1": 1})
	w.says("nowhere-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonNoClusterFit, `its labels do not match "gpu=yes"`)
	w.says("unreadable-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, `OverridePolicy`)
	w.says("large-configmap", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "the object is too large to be sent; make it smaller, or split it")
	// The policy "unserved" spells ConfigMap in lower case.
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "unselected-configmap"}})
}

// says waits until a condition of a binding is False for a reason, and it or what
// is said of its cluster has a text.
func (w world) says(binding, condition, reason, text string) {
	w.Helper()
	w.eventually(fmt.Sprintf("binding %s says %s", binding, reason), func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: binding}, b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		all := c.Message
		for _, item := range b.Status.AggregatedStatus {
			all += "\n" + item.AppliedMessage
		}
		if !strings.Contains(all, text) {
			return fmt.Errorf("it says %s", all)
		}
		w.Log(binding, all)
		return nil
	})
}

// TestAPolicyThatSelectsNothing puts the clock forward: objects may come a moment
// after their policy.
func TestAPolicyThatSelectsNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.stop()
	clk := &later{}
	w.options.Clock = clk
	w.start()
	p := policy("vain", policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors[0].Name, p.Finalizers = "nothing", nil
	w.create(p)
	w.eventually("the policy is seen", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || len(p.Finalizers) > 0 {
			return err
		}
		return errors.New("it has no finalizer")
	})
	clk.by.Store(int64(time.Minute))
	w.change(p, func() { p.Labels["looked"] = "at" })
	w.noted("vain", "NothingSelected", "no object of the hub matches spec.resourceSelectors")
}
