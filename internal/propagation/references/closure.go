// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

const (
	// foundMax is how many objects are sent along with one at most.
	foundMax = 200
	// depthMax is how far references of references are followed.
	depthMax = 3
)

// ResolveClosure returns what an object needs, and what these need. Direct returns what one
// object needs itself, and follow an object that is referred to, nil if there is
// none or it needs no others. Left says what is left out, "" if that is nothing.
func ResolveClosure(
	root *unstructured.Unstructured, direct func(*unstructured.Unstructured) ([]Reference, error), follow func(Reference) (*unstructured.Unstructured, error),
) (all []Reference, left string, err error) {
	found := map[string]bool{}
	level := []*unstructured.Unstructured{root}
	for depth := 0; len(level) > 0; depth++ {
		var next []*unstructured.Unstructured
		needed, err := collectReferences(level, direct)
		if err != nil {
			return nil, "", err
		}
		for _, reference := range needed {
			name := reference.ReferenceKey() + metav1.FormatLabelSelector(reference.LabelSelector)
			switch {
			case found[name]:
				continue
			case depth == depthMax:
				return all, fmt.Sprintf("%s is not sent along: the object needs it through %d others, and no more than %d are followed", describeReference(reference), depth, depthMax-1), nil
			case len(all) == foundMax:
				return all, fmt.Sprintf("%s is not sent along, nor is what follows: the object needs more than %d others", describeReference(reference), foundMax), nil
			case !withinLimits(append(all, reference)):
				return all, fmt.Sprintf("%s is not sent along, nor is what follows: the selectors of what the object needs have more than %d labels and values",
					describeReference(reference), labelselector.TermsMax), nil
			}
			found[name] = true
			all = append(all, reference)
			further, err := follow(reference)
			if err != nil {
				return nil, "", err
			}
			if further != nil {
				next = append(next, further)
			}
		}
		level = next
	}
	return all, "", nil
}

// collectReferences returns what several objects need themselves.
func collectReferences(objects []*unstructured.Unstructured, direct func(*unstructured.Unstructured) ([]Reference, error)) ([]Reference, error) {
	var all []Reference
	for _, object := range objects {
		needed, err := direct(object)
		if err != nil {
			return nil, err
		}
		all = append(all, needed...)
	}
	return all, nil
}

func describeReference(r Reference) string {
	if r.Name == "" {
		return fmt.Sprintf("what is selected of %s", r.Kind)
	}
	return fmt.Sprintf("%s %q", r.Kind, r.Name)
}
