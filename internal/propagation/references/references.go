// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package references finds the objects that the object of a binding needs,
// and what the bindings of these get from all who need them.
//
// The package is pure.
package references

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

// Reference names an object that another needs, or selects several.
type Reference struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	// Either Name or LabelSelector is set.
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// GroupVersionKind returns the kind of the object.
func (r Reference) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// RefersToObject reports whether the reference is to an object of its kind, in whatever version
// that is read.
func (r Reference) RefersToObject(kind schema.GroupKind, object metav1.Object) bool {
	return r.GroupVersionKind().GroupKind() == kind && r.ObjectMatcher()(object)
}

// ObjectMatcher returns what reports whether the reference is to an object of the kind that it
// names: for many objects, its selector is read once.
func (r Reference) ObjectMatcher() func(metav1.Object) bool {
	if r.Name != "" || r.LabelSelector == nil {
		return func(object metav1.Object) bool {
			return r.Namespace == object.GetNamespace() && r.Name == object.GetName()
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(r.LabelSelector)
	return func(object metav1.Object) bool {
		return err == nil && r.Namespace == object.GetNamespace() && selector.Matches(labels.Set(object.GetLabels()))
	}
}

// ReferenceKey is the same for a reference and the object that it names. Those that select
// objects have one key for all of a kind in a namespace, that of no name.
func ReferenceKey(kind schema.GroupKind, namespace, name string) string {
	return strings.Join([]string{kind.Group, kind.Kind, namespace, name}, "/")
}

// ReferenceKey returns the key of a reference.
func (r Reference) ReferenceKey() string {
	return ReferenceKey(r.GroupVersionKind().GroupKind(), r.Namespace, r.Name)
}

// BindingReferences returns the references that a binding says its object has. Whoever may write the
// bindings of a namespace can say anything there: what is in another namespace is left out,
// and it is an error to say more than ResolveClosure finds.
func BindingReferences(b workv1alpha2.Binding) ([]Reference, error) {
	text := b.GetAnnotations()[workv1alpha2.AnnotationDependencies]
	if text == "" {
		return nil, nil
	}
	var all []Reference
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("reading annotation %s of binding %q: want a JSON list of objects with apiVersion, kind, namespace and name or labelSelector: %w",
			workv1alpha2.AnnotationDependencies, b.GetNamespace()+"/"+b.GetName(), err)
	}
	all = slices.DeleteFunc(all, func(r Reference) bool { return r.Namespace != b.GetNamespace() })
	if !withinLimits(all) {
		return nil, fmt.Errorf("annotation %s of binding %q may be about %d objects, whose selectors have %d labels and values",
			workv1alpha2.AnnotationDependencies, b.GetNamespace()+"/"+b.GetName(), foundMax, labelselector.TermsMax)
	}
	return all, nil
}

// withinLimits reports whether a binding may say these references: each is compared with all objects
// of its kind in the namespace.
func withinLimits(all []Reference) bool {
	selectors := make([]*metav1.LabelSelector, len(all))
	for i := range all {
		selectors[i] = all[i].LabelSelector
	}
	return len(all) <= foundMax && labelselector.CountTerms(selectors...) <= labelselector.TermsMax
}

// EncodeAnnotation returns the references as bindings have them; "" for none.
func EncodeAnnotation(all []Reference) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("encoding references to other objects: %w", err)
	}
	return string(text), nil
}

// MergeReferences returns the references of two lists, those of the first one first, up to what a
// binding may say.
func MergeReferences(a, b []Reference) []Reference {
	all := slices.Clone(a)
	has := map[string]bool{}
	for _, reference := range a {
		has[reference.canonicalText()] = true
	}
	for _, reference := range b {
		if !has[reference.canonicalText()] && withinLimits(append(all, reference)) {
			all = append(all, reference)
		}
	}
	return all
}

// canonicalText is the same for references that say the same.
func (r Reference) canonicalText() string {
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error() // not of what was read from JSON
	}
	return string(text)
}

// DependedByLabel returns the key of the label by which a binding says that the named one
// needs its object.
func DependedByLabel(namespace, name string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(namespace + "/" + name)) // never fails
	return workv1alpha2.LabelDependedByPrefix + rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
}
