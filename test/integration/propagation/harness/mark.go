// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// BindingRemarks waits until a binding says that all clusters have its object, and a text besides.
func (w World) BindingRemarks(binding, text string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("binding %s says %q", binding, text), func() error {
		b := ResourceBinding(metav1.NamespaceDefault, binding)
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, text) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// HasFinalizers reads an object, and returns an error if it has other finalizers.
func (w World) HasFinalizers(object client.Object, want []string) error {
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	has := object.GetFinalizers()
	if len(has) == len(want) && !slices.ContainsFunc(want, func(finalizer string) bool { return !slices.Contains(has, finalizer) }) {
		return nil
	}
	return fmt.Errorf("it has %q", has)
}

// ResourceBinding returns the binding of an object.
func ResourceBinding(namespace, name string) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// Marks are labels and annotations of Karmada, KEY=VALUE in any order.
type Marks struct{ Template, Binding, Work, Object []string }

// HasMarks waits until a template, its binding, its work and the object in member1 have these marks
// and no others.
func (w World) HasMarks(template client.Object, binding workv1alpha2.Binding, want Marks) {
	w.Helper()
	key := client.ObjectKeyFromObject(template)
	w.Eventually(fmt.Sprintf("%T %s has its marks", template, key), func() error {
		if err := errors.Join(w.Get(w.Context(), key, template), w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding)); err != nil {
			return err
		}
		work, err := w.SentWorkOf(template)
		if err != nil {
			return err
		}
		object := w.ObjectOf(work)
		if err := w.Members["member1"].Get(w.Context(), key, object); err != nil {
			return err
		}
		names, err := w.NamesOf(template, binding, work)
		if err != nil {
			return err
		}
		got := Marks{Template: marksOf(template, names), Binding: marksOf(binding, names), Work: marksOf(work, names), Object: marksOf(object, names)}
		for _, list := range []*[]string{&want.Template, &want.Binding, &want.Work, &want.Object} {
			slices.Sort(*list)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Marks{})); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// SentWorkOf returns the work that sends the object of a template to member1.
func (w World) SentWorkOf(template client.Object) (*workv1.ManifestWork, error) {
	works := w.WorksOf("member1")
	for i := range works {
		if w.ObjectOf(&works[i]).GetAnnotations()[workv1alpha2.AnnotationTemplateUID] == string(template.GetUID()) {
			return &works[i], nil
		}
	}
	return nil, errors.New("there is no work")
}

// NamesOf returns what stands for the values that are other ones in each run. IDs are there.
func (w World) NamesOf(template client.Object, binding workv1alpha2.Binding, work *workv1.ManifestWork) (*strings.Replacer, error) {
	id := func(labels map[string]string) string {
		return labels[workv1alpha2.LabelResourceBindingID] + labels[workv1alpha2.LabelClusterResourceBindingID]
	}
	values := map[string]string{
		"=" + id(binding.GetLabels()):                                            "=ID OF THE BINDING",
		"=" + work.Labels[workv1alpha2.LabelWorkID]:                              "=ID OF THE WORK",
		"work.karmada.io/name=" + work.Name:                                      "work.karmada.io/name=NAME OF THE WORK",
		"=" + string(template.GetUID()):                                          "=UID",
		fmt.Sprint("karmada.io/generation=", template.GetGeneration()):           "karmada.io/generation=GENERATION",
		workv1alpha2.LabelDependedByPrefix + dependedByHash(binding.GetLabels()): workv1alpha2.LabelDependedByPrefix + "HASH",
	}
	needs := &workv1alpha2.ResourceBinding{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}, needs); err != nil {
		return nil, err
	}
	if needs.Name != binding.GetName() {
		values["="+id(needs.Labels)] = "=ID OF web-deployment"
	}
	if _, empty := values["="]; empty {
		return nil, errors.New("an ID is empty")
	}
	var pairs []string
	for value, name := range values {
		pairs = append(pairs, value, name)
	}
	return strings.NewReplacer(pairs...), nil
}

// dependedByHash returns by which binding another one is needed; "-" if by none.
func dependedByHash(labels map[string]string) string {
	for key := range maps.Keys(labels) {
		if hash, is := strings.CutPrefix(key, workv1alpha2.LabelDependedByPrefix); is && hash != "" {
			return hash
		}
	}
	return "-"
}

// marksOf returns the marks of Karmada that an object has.
func marksOf(object client.Object, names *strings.Replacer) []string {
	var all []string
	for _, of := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
		for key, value := range of {
			if domain, _, _ := strings.Cut(key, "/"); domain == "karmada.io" || strings.HasSuffix(domain, ".karmada.io") {
				all = append(all, names.Replace(key+"="+value))
			}
		}
	}
	slices.Sort(all)
	return all
}

// StandingOf is in which versions a binding and its works are. Of works it is what they say,
// as they are also marked.
func (w World) StandingOf(binding *workv1alpha2.ResourceBinding) string {
	w.Helper()
	works := &workv1.ManifestWorkList{}
	if err := errors.Join(
		w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding),
		w.List(w.Context(), works, client.MatchingLabels{workv1alpha2.LabelResourceBindingID: binding.Labels[workv1alpha2.LabelResourceBindingID]}),
	); err != nil {
		w.Fatal(err)
	}
	standing := fmt.Sprintf("binding %d at %s", binding.Generation, binding.ResourceVersion)
	for i := range works.Items {
		standing += fmt.Sprintf(", work %s %d with %d conditions", works.Items[i].UID, works.Items[i].Generation, len(works.Items[i].Status.Conditions))
	}
	return standing
}
