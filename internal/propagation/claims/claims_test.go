// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

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
		for key, value := range MarksForPolicy(by).Labels {
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
			if chosen := new(Selections).ChoosePolicy(object, object, test.policies, test.preempts); chosen != nil {
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
			if PolicyDisplayName(policy) != c.want || version != c.version {
				t.Errorf("got %q in version %d, want %q in version %d", PolicyDisplayName(policy), version, c.want, c.version)
			}
		})
	}
}

// TestHolds has whoever may write an object and its binding give them the marks of policies.
func TestHolds(t *testing.T) {
	bindingOf := func(by policyv1alpha1.Policy) metav1.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web-deployment", Labels: MarksForPolicy(by).Labels}}
	}
	deleting := wide("w")
	deleting.(metav1.Object).SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) //nolint:forcetypeassert // it is one
	for name, c := range map[string]struct {
		policy, object, binding policyv1alpha1.Policy
		want                    bool
	}{
		"both have its marks":                          {wide("w"), wide("w"), wide("w"), true},
		"the object cannot be marked":                  {wide("w"), nil, wide("w"), true},
		"the object is another policy's":               {wide("w"), own("o"), wide("w"), false},
		"the binding alone is another policy's":        {wide("w"), wide("w"), own("o"), true},
		"the ID is another one":                        {wide("w"), wide("v"), wide("w"), false},
		"the policy does not select the object":        {wide("w", otherName), wide("w"), wide("w"), false},
		"it does not select the object of the binding": {wide("w", otherName), nil, wide("w"), false},
		"the policy is being deleted":                  {deleting, wide("w"), wide("w"), false},
		"the policy has no ID, nor have the marks":     {withoutID(wide("w")), nil, withoutID(wide("w")), false},
	} {
		if got := new(Selections).PolicyHoldsObject(c.policy, web(c.object), bindingOf(c.binding)); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func withoutID(policy policyv1alpha1.Policy) policyv1alpha1.Policy {
	policy.GetLabels()[policyv1alpha1.LabelClusterPropagationPolicyID] = ""
	return policy
}

func TestChangeLeavesOneClaim(t *testing.T) {
	object := web(wide("w"))
	object.Annotations = map[string]string{policyv1alpha1.AnnotationClusterPropagationPolicyName: "w", "mine": "stays"}

	labels, annotations := MarksForPolicy(own("a")).MetadataChanges(object)

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

func TestBindingNames(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	long := strings.Repeat("a", 250)
	for _, test := range []struct {
		group, kind, name string
		want              []string
	}{
		{"apps", "Deployment", "web", []string{"web-deployment", "web-deployment.apps"}},
		{"", "ConfigMap", "web", []string{"web-configmap"}},
		{rbac, "ClusterRole", "system:node", []string{"system.node-clusterrole", "system.node-clusterrole." + rbac, "system-node-clusterrole-6b0f8405f0a29836ab44"}},
		{rbac, "Role", "Foo", []string{"foo-role", "foo-role." + rbac, "foo-role-HASH"}},
		{rbac, "Role", "team::viewer", []string{"team-viewer-role-HASH"}},
		{rbac, "Role", "Ops_View", []string{"ops-view-role-HASH"}},
		{rbac, "Role", "jane@example.com-view", []string{"jane-example-com-view-role-HASH"}},
		{rbac, "Role", "ops:a..b", []string{"ops-a-b-role-HASH"}},
		{rbac, "Role", "-lead", []string{"lead-role-HASH"}},
		{rbac, "Role", "trailing-", []string{"trailing--role", "trailing--role." + rbac, "trailing-role-HASH"}},
		{rbac, "Role", "foo", []string{"foo-role", "foo-role." + rbac, "foo-role-HASH"}},
		{rbac, "Role", "::", []string{"role-HASH"}},
		{rbac, "Role", "ä b", []string{"b-role-HASH"}},
		{"", "ConfigMap", long, []string{long[:253-len("-configmap-HASH")-16] + "-configmap-HASH"}},
		{"", strings.Repeat("K", 1000), "web", []string{"web-" + strings.Repeat("k", 63) + "-HASH"}},
	} {
		kind := schema.GroupVersionKind{Group: test.group, Version: "v1", Kind: test.kind}
		got := BindingNames(kind, test.name)
		hashed := HashedBindingName(kind, test.name)
		for i := range test.want {
			test.want[i] = strings.ReplaceAll(test.want[i], "HASH", hashed[len(hashed)-20:])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s %s: got %q, want %q", test.kind, test.name, got, test.want)
		}
		for _, name := range got {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				t.Errorf("%s %s: %q: %v", test.kind, test.name, name, problems)
			}
		}
	}
}

// TestEachObjectHasANameOfABindingThatNoOtherHas has objects whose readable names are the same:
// whichever come first, there is a name left for each of them.
func TestEachObjectHasANameOfABindingThatNoOtherHas(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}
	objects := []string{"foo", "Foo", "FOO", "a:b", "a.b", "A:b", "a::b", "a:.b", "a_b", "a@b", "-a-b", "_a_b", "a..b"}
	for _, name := range objects {
		names := BindingNames(kind, name)
		last := names[len(names)-1]
		for _, other := range objects {
			if other != name && slices.Contains(BindingNames(kind, other), last) {
				t.Errorf("%q can take %q, which is the last name of %q", other, last, name)
			}
		}
	}
}
