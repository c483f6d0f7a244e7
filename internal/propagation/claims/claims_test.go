// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// web returns the metadata of a Deployment of namespace apps, claimed by the
// policy if there is one.
func web(by policyv1alpha1.Policy) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", Labels: map[string]string{"tier": "front"}},
	}
	if by != nil {
		for key, value := range Of(by).Labels {
			object.Labels[key] = value
		}
	}
	return object
}

type change func(*policyv1alpha1.PropagationSpec)

func own(name string, changes ...change) policyv1alpha1.Policy {
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "apps", Name: name, Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "own-" + name},
	}}
	p.Spec = spec(changes)
	return p
}

func wide(name string, changes ...change) policyv1alpha1.Policy {
	p := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "wide-" + name},
	}}
	p.Spec = spec(changes)
	return p
}

func spec(changes []change) policyv1alpha1.PropagationSpec {
	s := policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}}
	for _, each := range changes {
		each(&s)
	}
	return s
}

func byName(s *policyv1alpha1.PropagationSpec) { s.ResourceSelectors[0].Name = "web" }
func byLabels(s *policyv1alpha1.PropagationSpec) {
	s.ResourceSelectors[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
}
func otherName(s *policyv1alpha1.PropagationSpec) { s.ResourceSelectors[0].Name = "db" }
func otherVersion(s *policyv1alpha1.PropagationSpec) {
	s.ResourceSelectors[0].APIVersion = "apps/v1beta1"
}
func always(s *policyv1alpha1.PropagationSpec) { s.Preemption = policyv1alpha1.PreemptAlways }
func rank(p int32) change {
	return func(s *policyv1alpha1.PropagationSpec) { s.Priority = &p }
}

func TestChoose(t *testing.T) {
	deleting := own("deleting", rank(9))
	now := metav1.Now()
	deleting.SetDeletionTimestamp(&now)
	elsewhere := own("elsewhere")
	elsewhere.SetNamespace("other")
	for name, test := range map[string]struct {
		reason   string
		policies []policyv1alpha1.Policy
		claimed  policyv1alpha1.Policy
		preempts bool
		want     string
	}{
		"None":              {reason: "no policy matches", policies: []policyv1alpha1.Policy{own("a", otherName), own("b", otherVersion), elsewhere}},
		"OwnBeforeWide":     {reason: "any PropagationPolicy beats any ClusterPropagationPolicy", policies: []policyv1alpha1.Policy{wide("w", rank(100), byName), own("o")}, want: "o"},
		"Priority":          {reason: "the greater priority wins over the more exact selector", policies: []policyv1alpha1.Policy{own("a", byName), own("b", rank(1))}, want: "b"},
		"Exact":             {reason: "by name beats by labels", policies: []policyv1alpha1.Policy{own("a"), own("b", byLabels), own("c", byName)}, want: "c"},
		"Labels":            {reason: "by labels beats by kind", policies: []policyv1alpha1.Policy{own("a"), own("b", byLabels)}, want: "b"},
		"Name":              {reason: "the first name wins at last", policies: []policyv1alpha1.Policy{own("b"), own("a")}, want: "a"},
		"Deleting":          {reason: "one that is being deleted matches nothing", policies: []policyv1alpha1.Policy{deleting, own("a")}, want: "a"},
		"Stays":             {reason: "a claim stays although a better policy has come", policies: []policyv1alpha1.Policy{own("a"), own("b", rank(9))}, claimed: own("a"), want: "a"},
		"ClaimOfWide":       {reason: "that of a ClusterPropagationPolicy stays, too", policies: []policyv1alpha1.Policy{wide("w"), own("b", rank(9))}, claimed: wide("w"), want: "w"},
		"NoMatchAnyMore":    {reason: "a policy that does not match any more loses its claim", policies: []policyv1alpha1.Policy{own("a", otherName), own("b")}, claimed: own("a"), want: "b"},
		"Gone":              {reason: "a policy that is gone has no claim", policies: []policyv1alpha1.Policy{own("b")}, claimed: own("a"), want: "b"},
		"NotGated":          {reason: "nobody preempts without the gate", policies: []policyv1alpha1.Policy{own("a"), own("b", rank(9), always)}, claimed: own("a"), want: "a"},
		"Preempts":          {reason: "a greater priority takes it over", policies: []policyv1alpha1.Policy{own("a"), own("b", rank(9), always)}, claimed: own("a"), preempts: true, want: "b"},
		"SamePriority":      {reason: "an equal priority does not", policies: []policyv1alpha1.Policy{own("a"), own("b", always, byName)}, claimed: own("a"), preempts: true, want: "a"},
		"OwnPreemptsWide":   {reason: "a PropagationPolicy takes over from any ClusterPropagationPolicy", policies: []policyv1alpha1.Policy{wide("w", rank(9)), own("b", always)}, claimed: wide("w", rank(9)), preempts: true, want: "b"},
		"WideNeverOwn":      {reason: "a ClusterPropagationPolicy never from a PropagationPolicy", policies: []policyv1alpha1.Policy{own("a"), wide("w", rank(9), always)}, claimed: own("a"), preempts: true, want: "a"},
		"PreemptionIsAsked": {reason: "only those that ask for it preempt", policies: []policyv1alpha1.Policy{own("a"), own("b", rank(9))}, claimed: own("a"), preempts: true, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			object := web(test.claimed)
			if chosen := new(Selections).Choose(object, object, test.policies, test.preempts); chosen != nil {
				got = chosen.GetName()
			}
			if got != test.want {
				t.Errorf("%s: got policy %q, want %q", test.reason, got, test.want)
			}
		})
	}
}

// TestChooseVersion is about an object that is there in two versions.
func TestChooseVersion(t *testing.T) {
	newer := web(nil)
	newer.APIVersion = "apps/v2"
	versions := []selector.Object{web(nil), newer}
	second := func(s *policyv1alpha1.PropagationSpec) { s.ResourceSelectors[0].APIVersion = "apps/v2" }
	both := func(s *policyv1alpha1.PropagationSpec) {
		s.ResourceSelectors = append(s.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "apps/v2", Kind: "Deployment", Name: "web"})
	}
	for name, c := range map[string]struct {
		by       policyv1alpha1.Policy
		policies []policyv1alpha1.Policy
		want     string
		version  int
	}{
		"none":                             {nil, []policyv1alpha1.Policy{own("a", otherVersion)}, "", 0},
		"the version of the policy counts": {nil, []policyv1alpha1.Policy{own("a", second)}, "PropagationPolicy apps/a", 1},
		"policies of two versions contend": {nil, []policyv1alpha1.Policy{own("a", second), own("b", byName)}, "PropagationPolicy apps/b", 0},
		"the one that has it keeps it":     {own("a", second), []policyv1alpha1.Policy{own("a", second), own("b", byName)}, "PropagationPolicy apps/a", 1},
		"the most exact of two selectors":  {nil, []policyv1alpha1.Policy{own("a", both)}, "PropagationPolicy apps/a", 1},
		"the first of two that are alike":  {nil, []policyv1alpha1.Policy{own("a", byName, both)}, "PropagationPolicy apps/a", 0},
	} {
		t.Run(name, func(t *testing.T) {
			policy, version := (&Selections{}).ChooseVersion(versions, web(c.by), c.policies, false)
			if Name(policy) != c.want || version != c.version {
				t.Errorf("got %q in version %d, want %q in version %d", Name(policy), version, c.want, c.version)
			}
		})
	}
}

func TestChangeLeavesOneClaim(t *testing.T) {
	object := web(wide("w"))
	object.Annotations = map[string]string{policyv1alpha1.AnnotationClusterPropagationPolicyName: "w", "mine": "stays"}

	labels, annotations := Of(own("a")).Change(object)

	if labels[policyv1alpha1.LabelPropagationPolicyID] != "own-a" || annotations[policyv1alpha1.AnnotationPropagationPolicyName] != "a" ||
		annotations[policyv1alpha1.AnnotationPropagationPolicyNamespace] != "apps" {
		t.Errorf("the new policy does not claim the object: %v %v", labels, annotations)
	}
	for _, changes := range []map[string]any{labels, annotations} {
		for _, key := range []string{policyv1alpha1.LabelClusterPropagationPolicyID, policyv1alpha1.AnnotationClusterPropagationPolicyName} {
			if value, is := changes[key]; is && value != nil {
				t.Errorf("%s becomes %v", key, value)
			}
		}
		if _, touched := changes["mine"]; touched {
			t.Error("an annotation of the user changes")
		}
	}
	if _, goes := labels[policyv1alpha1.LabelClusterPropagationPolicyID]; !goes {
		t.Error("the former policy keeps its claim")
	}
}

func TestBindingName(t *testing.T) {
	for _, test := range []struct{ group, kind, name, usual, suffixed string }{
		{"apps", "Deployment", "web", "web-deployment", "web-deployment.apps"},
		{"", "ConfigMap", "web", "web-configmap", "web-configmap"},
		{"rbac.authorization.k8s.io", "ClusterRole", "system:node", "system.node-clusterrole", "system.node-clusterrole.rbac.authorization.k8s.io"},
	} {
		usual, suffixed := BindingName(schema.GroupVersionKind{Group: test.group, Version: "v1", Kind: test.kind}, test.name)
		if usual != test.usual || suffixed != test.suffixed {
			t.Errorf("%s %s: got %q and %q, want %q and %q", test.kind, test.name, usual, suffixed, test.usual, test.suffixed)
		}
	}
}
