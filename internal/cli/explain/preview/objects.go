// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/hub"
)

// fewMax is up to how many objects are read one by one, and not as a list.
const fewMax = 20

// readObjects reads the objects that are concerned. What is not there any more is not.
func (r Reader) readObjects(ctx context.Context, f *previewFacts) error {
	type place struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	by := map[place][]*previewSubject{}
	for _, s := range f.subjects {
		if s.trial != nil {
			s.Now, s.Then = s.trial.Now, s.trial.Then
			continue
		}
		at := place{s.kind, s.namespace}
		by[at] = append(by[at], s)
	}
	for at, subjects := range by {
		err := r.fillSubjects(ctx, at.kind, at.namespace, subjects)
		if err := f.recordForbidden(err, ofNamespace(at.kind.Kind+" objects", at.namespace), "what would become of them is not shown here"); err != nil {
			return err
		}
	}
	f.subjects = slices.DeleteFunc(f.subjects, func(s *previewSubject) bool { return s.Then == nil })
	return nil
}

// fillSubjects reads the objects of a kind in a namespace.
func (r Reader) fillSubjects(ctx context.Context, kind schema.GroupVersionKind, namespace string, subjects []*previewSubject) error {
	by := map[string]*previewSubject{}
	for _, s := range subjects {
		by[s.name] = s
	}
	found := func(object *unstructured.Unstructured) {
		if s := by[object.GetName()]; s != nil {
			kept := object.DeepCopy()
			s.Now = kept
			s.Then = kept
		}
	}
	if len(subjects) > fewMax {
		return hub.VisitObjects(ctx, r.Client, kind, found, client.InNamespace(namespace))
	}
	for _, s := range subjects {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.name}, object); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil {
			found(object)
		}
	}
	return nil
}
