// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

func TestTheAnnotationIsWhatKarmadaWrites(t *testing.T) {
	all := []Reference{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web"},
		{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespace: "shop", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}
	text, err := EncodeAnnotation(all)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"web"},` +
		`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","namespace":"shop","labelSelector":{"matchLabels":{"a":"b"}}}]`
	if text != want {
		t.Errorf("the annotation is %s, want %s", text, want)
	}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	b.Annotations = map[string]string{workv1alpha2.AnnotationDependencies: text}
	got, err := BindingReferences(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	b.Annotations[workv1alpha2.AnnotationDependencies] = "{}"
	if _, err := BindingReferences(b); err == nil || !strings.Contains(err.Error(), "JSON list") {
		t.Errorf("no list: %v", err)
	}
	if text, err := EncodeAnnotation(nil); text != "" || err != nil {
		t.Errorf("no reference: %q, %v", text, err)
	}
}

// TestABindingSaysNoMoreThanIsFound has bindings say what only somebody else than the hub
// can have written.
func TestABindingSaysNoMoreThanIsFound(t *testing.T) {
	named := func(namespace string) Reference {
		return Reference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "web"}
	}
	selecting := func(values int) Reference {
		one := named("shop")
		one.Name, one.LabelSelector = "", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpIn, Values: slices.Repeat([]string{"web"}, values),
		}}}
		return one
	}
	for name, c := range map[string]struct {
		all    []Reference
		counts int
		may    bool
	}{
		"as many as are found":          {slices.Repeat([]Reference{named("shop")}, foundMax), foundMax, true},
		"one more":                      {slices.Repeat([]Reference{named("shop")}, foundMax+1), 0, false},
		"as many terms as a policy":     {[]Reference{selecting(500), selecting(500)}, 2, true},
		"one more term":                 {[]Reference{selecting(500), selecting(501)}, 0, false},
		"what is in another namespace":  {[]Reference{named("shop"), named("bank")}, 1, true},
		"what has no namespace, or any": {[]Reference{named("")}, 0, true},
		"everything, again and again":   {slices.Repeat([]Reference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", LabelSelector: &metav1.LabelSelector{}}}, 3000), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := EncodeAnnotation(c.all)
			if err != nil {
				t.Fatal(err)
			}
			b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{workv1alpha2.AnnotationDependencies: text}}}
			if got, err := BindingReferences(b); (err == nil) != c.may || len(got) != c.counts {
				t.Errorf("%d of them count (%v), want %d", len(got), err, c.counts)
			}
		})
	}
	whole := slices.Repeat([]Reference{named("shop")}, foundMax)
	if both := MergeReferences(whole, []Reference{selecting(1)}); len(both) != foundMax {
		t.Errorf("two lists become one of %d, which no binding may say", len(both))
	}
}

func TestToWhichObjectsAReferenceIs(t *testing.T) {
	byName := Reference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"}
	bySelector := Reference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
	broken := Reference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}},
	}}
	cases := map[string]struct {
		reason    string
		reference Reference
		kind      schema.GroupKind
		namespace string
		name      string
		labels    map[string]string
		want      bool
	}{
		"named":                   {"it is the one", byName, schema.GroupKind{Kind: "Secret"}, "shop", "key", nil, true},
		"another name":            {"only the named one is meant", byName, schema.GroupKind{Kind: "Secret"}, "shop", "other", nil, false},
		"another namespace":       {"a reference never leaves its namespace", byName, schema.GroupKind{Kind: "Secret"}, "bank", "key", nil, false},
		"another group":           {"a kind of the name in another group is another kind", byName, schema.GroupKind{Group: "x.io", Kind: "Secret"}, "shop", "key", nil, false},
		"selected":                {"its labels match", bySelector, schema.GroupKind{Kind: "Secret"}, "shop", "any", map[string]string{"app": "web"}, true},
		"not selected":            {"its labels do not match", bySelector, schema.GroupKind{Kind: "Secret"}, "shop", "any", nil, false},
		"selected elsewhere":      {"a selector never leaves its namespace", bySelector, schema.GroupKind{Kind: "Secret"}, "bank", "any", map[string]string{"app": "web"}, false},
		"a selector that is none": {"it selects nothing", broken, schema.GroupKind{Kind: "Secret"}, "shop", "any", map[string]string{"app": "web"}, false},
		"neither":                 {"an entry without name and selector selects nothing", Reference{APIVersion: "v1", Kind: "Secret", Namespace: "shop"}, schema.GroupKind{Kind: "Secret"}, "shop", "any", nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Namespace: c.namespace, Name: c.name, Labels: c.labels}
			if got := c.reference.RefersToObject(c.kind, object); got != c.want {
				t.Errorf("%s: %t, want %t", c.reason, got, c.want)
			}
		})
	}
}

// referrer is a binding that sends along what its object needs.
func referrer(name string, change func(*workv1alpha2.ResourceBindingSpec), clusters ...string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{workv1alpha2.LabelResourceBindingID: "id-" + name},
	}}
	b.Spec.PropagateDeps = true
	for _, cluster := range clusters {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster, Replicas: 3})
	}
	if change != nil {
		change(&b.Spec)
	}
	return b
}

func snapshot(name string, clusters ...string) workv1alpha2.BindingSnapshot {
	s := workv1alpha2.BindingSnapshot{Namespace: "shop", Name: name}
	for _, cluster := range clusters {
		s.Clusters = append(s.Clusters, workv1alpha2.TargetCluster{Name: cluster})
	}
	return s
}

// TestBindingsOfOneNameAreTwo: their namespaces tell them apart.
func TestBindingsOfOneNameAreTwo(t *testing.T) {
	ofShop, ofApps := referrer("web", nil, "a"), referrer("web", nil, "a")
	ofApps.Namespace = "apps"
	got := SumReferrerNeeds([]workv1alpha2.Binding{ofShop, ofApps})
	first, second := snapshot("web", "a"), snapshot("web", "a")
	first.Namespace = "apps"
	if diff := cmp.Diff([]workv1alpha2.BindingSnapshot{first, second}, got.RequiredBy); diff != "" {
		t.Errorf("those that need it (-want +got):\n%s", diff)
	}
	stranger := snapshot("web")
	stranger.Namespace = "bank"
	if got.HasReferrer(stranger) {
		t.Error("a binding of that name in another namespace needs it, too")
	}
}

func TestWhatSeveralBindingsNeed(t *testing.T) {
	overwrite := func(s *workv1alpha2.ResourceBindingSpec) { s.ConflictResolution = policyv1alpha1.ConflictOverwrite }
	abort := func(s *workv1alpha2.ResourceBindingSpec) { s.ConflictResolution = policyv1alpha1.ConflictAbort }
	preserve := func(s *workv1alpha2.ResourceBindingSpec) { s.PreserveResourcesOnDeletion = new(true) }
	drop := func(s *workv1alpha2.ResourceBindingSpec) { s.PreserveResourcesOnDeletion = new(false) }
	cases := map[string]struct {
		reason    string
		referrers []workv1alpha2.Binding
		want      ReferrerNeeds
	}{
		"nobody":     {reason: "nothing is needed"},
		"no cluster": {reason: "what is nowhere needs nothing", referrers: []workv1alpha2.Binding{referrer("web", nil)}},
		"without propagateDeps": {
			reason: "its policy sends nothing along", referrers: []workv1alpha2.Binding{referrer("web", func(s *workv1alpha2.ResourceBindingSpec) { s.PropagateDeps = false }, "a")},
		},
		"two": {
			reason:    "the entries are in the order of names, however they come",
			referrers: []workv1alpha2.Binding{referrer("web", nil, "b", "a"), referrer("api", nil, "c")},
			want:      ReferrerNeeds{RequiredBy: []workv1alpha2.BindingSnapshot{snapshot("api", "c"), snapshot("web", "a", "b")}},
		},
		"one overwrites": {
			reason: "overwriting wins", referrers: []workv1alpha2.Binding{referrer("a", abort, "x"), referrer("b", overwrite, "x"), referrer("c", abort, "x")},
			want: ReferrerNeeds{
				RequiredBy:         []workv1alpha2.BindingSnapshot{snapshot("a", "x"), snapshot("b", "x"), snapshot("c", "x")},
				ConflictResolution: policyv1alpha1.ConflictOverwrite, Conflicts: []string{conflictingResolution},
			},
		},
		"one preserves": {
			reason: "staying wins", referrers: []workv1alpha2.Binding{referrer("a", drop, "x"), referrer("b", preserve, "x"), referrer("c", nil, "x")},
			want: ReferrerNeeds{
				RequiredBy: []workv1alpha2.BindingSnapshot{snapshot("a", "x"), snapshot("b", "x"), snapshot("c", "x")},
				Preserve:   new(true), Conflicts: []string{conflictingPreserving},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := SumReferrerNeeds(c.referrers)
			for _, s := range c.want.RequiredBy {
				if id := got.Labels[DependedByLabel(s.Namespace, s.Name)]; id != "id-"+s.Name {
					t.Errorf("%s: the label of %s says %q", c.reason, s.Name, id)
				}
			}
			if len(got.Labels) != len(c.want.RequiredBy) {
				t.Errorf("%s: labels %v", c.reason, got.Labels)
			}
			got.Labels = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestTheLastOneThatNeedsAnObjectGoes(t *testing.T) {
	b := &workv1alpha2.ResourceBinding{}
	b.Labels = map[string]string{"mine": "stays"}
	overwrites := referrer("web", func(s *workv1alpha2.ResourceBindingSpec) { s.ConflictResolution = policyv1alpha1.ConflictOverwrite }, "a")
	SumReferrerNeeds([]workv1alpha2.Binding{overwrites}).ApplyToBinding(b)
	if !Attached(b) || len(b.Spec.RequiredBy) != 1 || b.Spec.ConflictResolution != policyv1alpha1.ConflictOverwrite {
		t.Errorf("needed by one: %v %+v", b.Labels, b.Spec)
	}
	SumReferrerNeeds(nil).ApplyToBinding(b)
	if Attached(b) || len(b.Spec.RequiredBy) != 0 || b.Labels["mine"] != "stays" {
		t.Errorf("needed by none: %v %+v", b.Labels, b.Spec)
	}

	b.Spec.Placement, b.Spec.ConflictResolution = &policyv1alpha1.Placement{}, policyv1alpha1.ConflictAbort
	SumReferrerNeeds([]workv1alpha2.Binding{overwrites}).ApplyToBinding(b)
	if b.Spec.ConflictResolution != policyv1alpha1.ConflictAbort {
		t.Error("who needs the object changed what its own policy says")
	}
}

func TestWhoNeedsAnObjectIsKept(t *testing.T) {
	nothing := func(*workv1alpha2.ResourceBindingSpec) {}
	web := referrer("web", nothing, "member1")
	page := &workv1alpha2.ResourceBinding{}
	SumReferrerNeeds([]workv1alpha2.Binding{web}).ApplyToBinding(page)
	page.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	api := referrer("api", nothing, "member2")

	needs := SumReferrerNeeds([]workv1alpha2.Binding{api})
	if needs.HasReferrer(page.Spec.RequiredBy[0]) {
		t.Error("web is among those that were summed up")
	}
	kept := needs.WithReferrers(page, page.Spec.RequiredBy)

	if len(kept.RequiredBy) != 2 || kept.RequiredBy[0].Name != "api" || kept.RequiredBy[1].Name != "web" || len(kept.Labels) != 2 {
		t.Errorf("required by %v, labels %v", kept.RequiredBy, kept.Labels)
	}
	if alone := SumReferrerNeeds(nil).WithReferrers(page, page.Spec.RequiredBy); alone.ConflictResolution != policyv1alpha1.ConflictOverwrite {
		t.Errorf("the object is sent another way: %q", alone.ConflictResolution)
	}
}
