// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// docs/spec/work/works-of-bindings.md says what an orphan loses.
func TestAnOrphanLosesWhatSendingPutOnItAndNothingElse(t *testing.T) {
	lost := []string{
		workv1alpha2.LabelManaged, workv1alpha2.LabelWorkID,
		workv1alpha2.AnnotationWorkNamespace, workv1alpha2.AnnotationWorkName,
		workv1alpha2.AnnotationTemplateUID, workv1alpha2.AnnotationManagedLabels,
		workv1alpha2.LabelManagedBy,
		workv1alpha2.LabelResourceBindingID, workv1alpha2.AnnotationResourceBindingName,
		workv1alpha2.LabelClusterResourceBindingID, workv1alpha2.AnnotationClusterResourceBindingName,
		policyv1alpha1.LabelPropagationPolicyID, policyv1alpha1.AnnotationPropagationPolicyName,
		policyv1alpha1.LabelClusterPropagationPolicyID, policyv1alpha1.AnnotationClusterPropagationPolicyName,
		policyv1alpha1.AnnotationAppliedOverrides,
	}
	kept := []string{
		"app", "", "managed", "karmada.io/team", "work.karmada.io", "example.com/work.karmada.io", "work.karmada.io.example.com/name", "my-work.karmada.io/name",
		"namespace.karmada.io/skip-auto-propagation", workv1.AnnotationAdopted, workv1.LabelManaged, // this one is not of bindings alone
	}
	texts := map[string]string{}
	for _, key := range slices.Concat(lost, kept) {
		texts[key] = "value"
	}
	got := nullMarks(texts)
	for key, value := range got {
		if value != nil {
			t.Errorf("%q is %v, want null: that removes it in a merge patch", key, value)
		}
	}
	slices.Sort(lost)
	if diff := cmp.Diff(lost, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("what an orphan loses, -want +got:\n%s", diff)
	}
	if got := nullMarks(nil); got == nil || len(got) > 0 {
		t.Errorf("an object without labels loses %v, want a map that others can be added to", got)
	}
}

func TestWhoBroughtAnObject(t *testing.T) {
	work := func(id string) *workv1.ManifestWork {
		w := &workv1.ManifestWork{}
		if id != "" {
			w.Labels = map[string]string{workv1alpha2.LabelWorkID: id}
		}
		return w
	}
	object := func(managed, id string) map[string]string {
		return map[string]string{workv1alpha2.LabelManaged: managed, workv1alpha2.LabelWorkID: id}
	}
	cases := map[string]struct {
		work   *workv1.ManifestWork
		labels map[string]string
		want   bool
	}{
		"a work brought what has its ID":                      {work("1"), object("true", "1"), true},
		"a work did not bring what has the ID of another":     {work("1"), object("true", "2"), false},
		"a work of no binding brought nothing for one":        {work(""), object("true", "1"), false},
		"no ID is not the same as none":                       {work(""), object("true", ""), false},
		"an object without labels was brought for no binding": {work("1"), nil, false},
		"an ID alone may be from a copy":                      {work("1"), object("", "1"), false},
		"an object that says it is not sent was not":          {work("1"), object("false", "1"), false},
		"a work that vanished has no say":                     {nil, object("true", "1"), true},
		"a work that vanished did not bring what has no ID":   {nil, object("true", ""), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sentBy(tc.work, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}); got != tc.want {
				t.Errorf("brought: got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestOnlyANamespaceThatWasThereBeforeOutlivesItsDeletion(t *testing.T) {
	namespace := apply.ObjectRef{Resource: "namespaces", Name: "shop"}
	theirs := apply.ObjectRef{Group: "tenancy.example.com", Resource: "namespaces", Name: "shop"}
	pod := apply.ObjectRef{Resource: "pods", Namespace: "shop", Name: "web"}
	adopted := map[string]string{workv1.AnnotationAdopted: "true"}
	cases := map[string]struct {
		end         plan.Fate
		object      apply.ObjectRef
		annotations map[string]string
		want        bool
	}{
		"a namespace that we made goes":                         {plan.FateDelete, namespace, nil, true},
		"a namespace that was there stays":                      {plan.FateDelete, namespace, adopted, false},
		"a namespace that was made anew is ours":                {plan.FateDelete, namespace, map[string]string{workv1.AnnotationAdopted: "false"}, true},
		"another object goes, whatever it says of itself":       {plan.FateDelete, pod, adopted, true},
		"a kind of others that is called so is no namespace":    {plan.FateDelete, theirs, adopted, true},
		"what is kept is not deleted":                           {plan.FateKeep, pod, nil, false},
		"what is orphaned is not deleted":                       {plan.FateOrphan, pod, nil, false},
		"what moves is not deleted":                             {plan.FateMove, pod, nil, false},
		"what nobody knows the fate of is not deleted":          {plan.FateUnknown, pod, nil, false},
		"a namespace that is orphaned is not deleted, nor ours": {plan.FateOrphan, namespace, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			if got := shouldDelete(tc.end, tc.object, seen); got != tc.want {
				t.Errorf("deleted: got %t, want %t", got, tc.want)
			}
		})
	}
}
