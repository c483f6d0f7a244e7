// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/pods"
)

// Requirements are what each pod of an object needs of a node.
type Requirements = pods.Requirements

// GetReplicas returns how many pods an object asks for and what each of them needs,
// which is nil if that is nothing. The kinds that have no replicas have none; those
// that nobody knows have them if the object has the usual shape. An error is that of
// a customization.
func (c Chain) GetReplicas(object *unstructured.Unstructured) (replicas int32, needs *Requirements, has bool, err error) {
	known := c.operationsOf(object)
	switch {
	case known.Custom.Replicas != nil:
		replicas, needs, err = known.Custom.Replicas(object.Object)
		return replicas, needs, true, err
	case known.Replicas != nil:
		replicas, needs = known.Replicas(object.Object)
		return replicas, needs, true, nil
	case known.knowsReplicas():
		return 0, nil, false, nil
	}
	replicas, needs, has = usualReplicas(object)
	return replicas, needs, has, nil
}

// Component is a part of an object with pods of its own.
type Component struct {
	// Name is unique in the object.
	Name string
	// Replicas is how many pods the part asks for.
	Replicas int32
	// Needs is what each of them needs, nil if that is nothing.
	Needs *Requirements
}

// GetComponents returns the parts of an object that have pods of their own. The kinds
// that have one pod template have none. An error is that of a customization.
func (c Chain) GetComponents(object *unstructured.Unstructured) (parts []Component, has bool, err error) {
	known := c.operationsOf(object)
	switch {
	case known.Custom.Components != nil:
		parts, err = known.Custom.Components(object.Object)
		return parts, true, err
	case known.Components != nil:
		return known.Components(object.Object), true, nil
	}
	return nil, false, nil
}

// ReviseReplicas returns a copy of an object that asks for another number of pods. Of a
// kind whose number cannot be revised it is the same. An error is that of a
// customization.
func (c Chain) ReviseReplicas(object *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	known := c.operationsOf(object)
	switch {
	case known.Custom.Revise != nil:
		revised, err := known.Custom.Revise(object.Object, replicas)
		if err == nil {
			err = CheckSame(revised, object.Object)
		}
		if err != nil {
			return nil, err
		}
		return copyToUnstructured(revised), nil
	case known.Revise != nil:
		return copyToUnstructured(known.Revise(object.Object, replicas)), nil
	}
	if _, _, has := usualReplicas(object); has && !known.knowsReplicas() {
		return copyToUnstructured(fields.With(object.Object, int64(replicas), "spec", "replicas")), nil
	}
	return object.DeepCopy(), nil
}

// GetCompletions returns how many pods of an object have to succeed in all. Only
// kinds that end with a number of them have it, and only if one is set.
func (c Chain) GetCompletions(object *unstructured.Unstructured) (completions int32, has bool) {
	if known := c.operationsOf(object); known.Completions != nil {
		return known.Completions(object.Object)
	}
	return 0, false
}

// ReviseCompletions returns a copy of an object of which another number of pods
// has to succeed. An object without such a number does not get one.
func (c Chain) ReviseCompletions(object *unstructured.Unstructured, completions int32) *unstructured.Unstructured {
	if _, has := c.GetCompletions(object); has {
		if known := c.operationsOf(object); known.ReviseCompletions != nil {
			return copyToUnstructured(known.ReviseCompletions(object.Object, completions))
		}
	}
	return object.DeepCopy()
}

// HasIndexedCompletions reports whether the pods of an object that have to succeed are told apart by
// indexes from 0 on, so that those of several clusters would have the same.
func (c Chain) HasIndexedCompletions(object *unstructured.Unstructured) bool {
	known := c.operationsOf(object)
	return known.Indexed != nil && known.Indexed(object.Object)
}

// PruneObject returns a copy of an object without what only this object has, and no
// other that is made from it on a cluster: what the API server and controllers
// wrote into it.
func (c Chain) PruneObject(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object == nil || object.Object == nil {
		return object.DeepCopy()
	}
	pruned := fields.Without(object.Object, "status")
	if known := c.operationsOf(object); known.Prune != nil {
		pruned = known.Prune(pruned)
	}
	for _, name := range []string{
		"creationTimestamp", "uid", "resourceVersion", "generation", "managedFields", "selfLink",
		"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
	} {
		pruned = fields.Without(pruned, "metadata", name)
	}
	return copyToUnstructured(pruned)
}

// Dependency is an object that another needs on the same cluster, or several
// that a selector selects.
type Dependency struct {
	APIVersion string
	Kind       string
	Namespace  string
	// Either Name or Selector is set.
	Name     string
	Selector *metav1.LabelSelector
}

// GetDependencies returns the objects that an object needs beside it, each once
// and always in the same order. They need not exist. An error is that of a
// customization.
func (c Chain) GetDependencies(object *unstructured.Unstructured) ([]Dependency, error) {
	known := c.operationsOf(object)
	switch {
	case known.Custom.Dependencies != nil:
		return known.Custom.Dependencies(object.Object)
	case known.Dependencies != nil:
		return known.Dependencies(object.Object), nil
	}
	return nil, nil
}

// MayHaveDependencies reports whether objects of a kind may need others.
func (c Chain) MayHaveDependencies(kind schema.GroupVersionKind) bool {
	known := c.Operations(kind)
	return known.Custom.Dependencies != nil || known.Dependencies != nil
}

// RetainedFieldPaths returns the paths of fields that are the cluster's once the object
// exists there: its own controllers and its API server set them.
//
// They matter only if the manifest has them, because server-side apply leaves
// alone what is not in it. Who applies must take them out of the manifest, and
// before that give up what it owns of them: apply removes what its manager alone
// owned and has no longer.
//
// spec.replicas of any kind is one if a label says so: something in the cluster
// decides it then, such as an autoscaler.
func (c Chain) RetainedFieldPaths(manifest *unstructured.Unstructured) [][]string {
	var paths [][]string
	if known := c.operationsOf(manifest); known.Retained != nil {
		paths = known.Retained(manifest.Object)
	}
	if manifest != nil && fields.String(manifest.Object, "metadata", "labels", policyv1alpha1.LabelRetainReplicas) == "true" {
		paths = append(paths, []string{"spec", "replicas"})
	}
	return paths
}

// CustomizesRetention reports whether a customization says what of an object of the kind is the
// cluster's: then RetainFields is asked, and RetainedFieldPaths does not matter.
func (c Chain) CustomizesRetention(kind schema.GroupVersionKind) bool {
	return c.Operations(kind).Custom.Retain != nil
}

// RetainFields returns what to apply of an object of a kind that CustomizesRetention, by the one that
// is in the cluster. It is about the same object, and has no status. An error is
// that of the customization: then the object has to stay as it is.
func (c Chain) RetainFields(desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	known := c.operationsOf(desired)
	if known.Custom.Retain == nil {
		return desired.DeepCopy(), nil
	}
	made, err := known.Custom.Retain(desired.Object, observed.Object)
	if err != nil {
		return nil, err
	}
	if err := CheckSame(made, desired.Object); err != nil {
		return nil, err
	}
	return copyToUnstructured(fields.Without(made, "status")), nil
}

// CheckSame returns what is wrong with what a customization has made of an object: it has
// to be the same one. Whoever may customize one kind could send others by it, with rights
// that are not his.
func CheckSame(made, desired map[string]any) error {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "namespace"}, {"metadata", "name"}} {
		if is, want := fields.String(made, path...), fields.String(desired, path...); is != want {
			return fmt.Errorf("it returns another object: %s is %q, want %q", strings.Join(path, "."), is, want)
		}
	}
	return nil
}

// operationsOf returns what is known of the kind of an object, which may be nothing.
func (c Chain) operationsOf(object *unstructured.Unstructured) Operations {
	if object == nil || object.Object == nil {
		return Operations{}
	}
	return c.Operations(object.GroupVersionKind())
}

func copyToUnstructured(object map[string]any) *unstructured.Unstructured {
	return (&unstructured.Unstructured{Object: object}).DeepCopy()
}
