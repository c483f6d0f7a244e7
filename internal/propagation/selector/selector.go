// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

// Priority is how exactly a policy selects an object. Of two policies of the
// same priority in their spec, the one with the greater Priority wins.
type Priority int

// The priorities.
const (
	// None is for an object that is not selected.
	None Priority = iota
	// ByKind is for an object that is selected as all of its kind are.
	ByKind
	// ByLabels is for an object that is selected by its labels.
	ByLabels
	// ByName is for an object that is selected by its name.
	ByName
)

// Object is what has to be known of an object: its kind and its metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Selectors are the resourceSelectors of a policy that were found to be right.
// They do not change, and may be used from several goroutines. The zero value
// selects nothing.
type Selectors []compiledSelector

type compiledSelector struct {
	apiVersion, kind, name string
	namespace              string          // "" selects all, and objects without one
	labels                 labels.Selector // nil selects all
}

// CompileSelectors checks resourceSelectors and prepares them. A policy that is in a
// namespace selects only there, whatever its selectors say. Every error is the
// user's, and is about the field below path that it names; its selector selects
// nothing. If all of them together have too many terms, none selects anything.
func CompileSelectors(namespace string, selectors []policyv1alpha1.ResourceSelector, path *field.Path) (Selectors, field.ErrorList) {
	byLabels := make([]*metav1.LabelSelector, len(selectors))
	for i := range selectors {
		byLabels[i] = selectors[i].LabelSelector
	}
	if problems := labelselector.CheckTerms(path, labelselector.CountTerms(byLabels...)); len(problems) > 0 {
		return nil, problems
	}
	var all Selectors
	var problems field.ErrorList
	for i, s := range selectors {
		if namespace != "" && s.Namespace != "" && s.Namespace != namespace {
			problems = append(problems, field.Invalid(path.Index(i).Child("namespace"), s.Namespace, "must be the namespace of the policy, or empty"))
			continue
		}
		one := compiledSelector{apiVersion: s.APIVersion, kind: s.Kind, name: s.Name, namespace: s.Namespace}
		if namespace != "" {
			one.namespace = namespace
		}
		if s.Name == "" && s.LabelSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
			if err != nil {
				problems = append(problems, field.Invalid(path.Index(i).Child("labelSelector"), metav1.FormatLabelSelector(s.LabelSelector), err.Error()))
				continue
			}
			one.labels = selector
		}
		all = append(all, one)
	}
	return all, problems
}

// PriorityOf returns how exactly the selectors select an object: the most exact
// one of them counts.
func (all Selectors) PriorityOf(object Object) Priority {
	apiVersion, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	best := None
	for _, s := range all {
		if s.apiVersion == apiVersion && s.kind == kind && (s.namespace == "" || s.namespace == object.GetNamespace()) {
			best = max(best, s.matchPriority(object))
		}
	}
	return best
}

// SearchScope is where to look for objects: those of a kind, in one namespace if it is
// given, and of one name if that is.
type SearchScope struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// SearchScopes returns where to look for what the selectors may select.
func (all Selectors) SearchScopes() []SearchScope {
	var scopes []SearchScope
	for _, s := range all {
		scope := SearchScope{Kind: schema.FromAPIVersionAndKind(s.apiVersion, s.kind), Namespace: s.namespace, Name: s.name}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// IndexKeysOfSelectors are those of an index that finds, by KeysOf an object, who has selectors that
// may select it.
func IndexKeysOfSelectors(selectors []policyv1alpha1.ResourceSelector) []string {
	keys := make([]string, 0, len(selectors))
	for _, s := range selectors {
		keys = append(keys, selectorKey(s.APIVersion, s.Kind, s.Name))
	}
	return keys
}

// KeysOf returns the keys of the selectors that may select the objects of a kind and
// name: those that name them, and those that select the kind.
func KeysOf(kind schema.GroupVersionKind, name string) []string {
	apiVersion, kindName := kind.ToAPIVersionAndKind()
	return []string{selectorKey(apiVersion, kindName, name), selectorKey(apiVersion, kindName, "")}
}

func selectorKey(apiVersion, kind, name string) string { return apiVersion + "/" + kind + "/" + name }

// matchPriority is about an object of the right kind and namespace.
func (s compiledSelector) matchPriority(object Object) Priority {
	switch {
	case s.name != "" && s.name == object.GetName():
		return ByName
	case s.name != "":
		return None
	case s.labels == nil:
		return ByKind
	case s.labels.Matches(labels.Set(object.GetLabels())):
		return ByLabels
	default:
		return None
	}
}
