// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/propagation/forecast"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// alongObject is what is sent to the clusters of an object, as that needs it.
type alongObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Either Name is set or Selector, which selects objects by their labels.
	Name     string `json:"name,omitempty"`
	Selector string `json:"selector,omitempty"`
	// Change is gained, lost or unchanged.
	Change string `json:"change"`
}

// String returns what is sent as people call it.
func (a alongObject) String() string {
	if a.Name == "" {
		return fmt.Sprintf("%s with labels %q", a.Kind, a.Selector)
	}
	return a.Kind + " " + a.Name
}

// alongObjects returns what is sent along with an object, and would be.
func (r Reader) alongObjects(ctx context.Context, f *previewFacts, s *previewSubject, outcome forecast.ObjectForecast) ([]alongObject, error) {
	if s.namespace == "" {
		return nil, nil
	}
	var now, then []references.Reference
	if s.Binding != nil {
		now, _ = references.BindingReferences(s.Binding) // what cannot be read is written anew by the hub
	}
	switch {
	case outcome.Then == nil: // the binding stays as it is
		then = now
	case outcome.Then.PropagationSpec().PropagateDeps:
		var err error
		if then, err = r.requiredReferences(ctx, f, s.Then); err != nil {
			return nil, err
		}
	}
	var all []alongObject
	for _, reference := range now {
		change := forecast.Lost
		if containsReference(then, reference) {
			change = forecast.Same
		}
		all = append(all, newAlongObject(reference, change))
	}
	for _, reference := range then {
		if !containsReference(now, reference) {
			all = append(all, newAlongObject(reference, forecast.Gained))
		}
	}
	slices.SortFunc(all, func(a, b alongObject) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// requiredReferences returns what an object needs, and what that needs, by the files and by what
// is on the hub.
func (r Reader) requiredReferences(ctx context.Context, f *previewFacts, object *unstructured.Unstructured) ([]references.Reference, error) {
	direct := func(o *unstructured.Unstructured) ([]references.Reference, error) {
		return references.DirectReferences(f.world.Chain, o, object.GetNamespace())
	}
	all, _, err := references.ResolveClosure(object, direct, func(reference references.Reference) (*unstructured.Unstructured, error) {
		kind := reference.GroupVersionKind()
		if reference.Name == "" || !f.world.Chain.MayHaveDependencies(kind) {
			return nil, nil //nolint:nilnil // nothing to follow
		}
		for _, one := range f.templates {
			if reference.RefersToObject(one.Then.GroupVersionKind().GroupKind(), one.Then) {
				return one.Then, nil
			}
		}
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(kind)
		err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, found))
		if err != nil {
			return nil, f.recordForbidden(err, ofNamespace(kind.Kind+" objects", reference.Namespace), "what they need in turn is not shown here")
		}
		return found, nil
	})
	return all, err
}

func containsReference(all []references.Reference, one references.Reference) bool {
	return slices.ContainsFunc(all, func(other references.Reference) bool { return newAlongObject(one, "") == newAlongObject(other, "") })
}

func newAlongObject(reference references.Reference, change string) alongObject {
	a := alongObject{APIVersion: reference.APIVersion, Kind: reference.Kind, Name: reference.Name, Change: change}
	if reference.LabelSelector != nil && reference.Name == "" {
		a.Selector = metav1.FormatLabelSelector(reference.LabelSelector)
	}
	return a
}

// alongText says what is sent along, and would be.
func (o objectPreview) alongText() string {
	var b strings.Builder
	for _, line := range []struct{ change, text string }{
		{forecast.Same, "Along with it goes"}, {forecast.Gained, "Along with it would go, too:"}, {forecast.Lost, "Along with it would not go any more:"},
	} {
		var names []string
		for _, a := range o.Along {
			if a.Change == line.change {
				names = append(names, a.String())
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "%s %s.\n", line.text, strings.Join(names, ", "))
		}
	}
	return b.String()
}
