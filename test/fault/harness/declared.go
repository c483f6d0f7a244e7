// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// key names an object.
type key struct{ kind, namespace, name string }

// declared is an object as the works declare it.
type declared struct {
	value  string
	owners []string // names of records, sorted
}

func (w *World) works(ctx context.Context) ([]workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	err := w.Hub.Client.List(ctx, list, client.InNamespace(w.Agent.Cluster()))
	return list.Items, err
}

// Records returns the records of the agent in the member, by the names of the works.
func (w *World) Records(ctx context.Context) (map[string]workv1.AppliedManifestWork, error) {
	list := &workv1.AppliedManifestWorkList{}
	if err := w.Member.Client.List(ctx, list); err != nil {
		return nil, err
	}
	records := map[string]workv1.AppliedManifestWork{}
	for i := range list.Items {
		if list.Items[i].Spec.AgentID == w.AgentID {
			records[list.Items[i].Name] = list.Items[i]
		}
	}
	return records, nil
}

// Objects returns all managed objects of the world's namespace.
func (w *World) Objects(ctx context.Context) (map[key]unstructured.Unstructured, error) {
	found := map[key]unstructured.Unstructured{}
	for _, kind := range w.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := w.Member.Client.List(ctx, list, client.InNamespace(w.Namespace), client.HasLabels{workv1.LabelManaged}); err != nil {
			return nil, err
		}
		for _, object := range list.Items {
			found[key{kind.Kind, object.GetNamespace(), object.GetName()}] = object
		}
	}
	return found, nil
}

// valueOf returns what the tests change in objects.
func valueOf(object *unstructured.Unstructured) string {
	for _, path := range [][]string{{"data", "value"}, {"spec", "value"}} {
		if value, ok, err := unstructured.NestedString(object.Object, path...); ok && err == nil {
			return value
		}
	}
	return ""
}

// Exact returns an error as long as the member is not exactly what the works
// on the hub declare, or a work does not say that it is.
func (w *World) Exact(ctx context.Context) error {
	works, err := w.works(ctx)
	if err != nil {
		return err
	}
	want := map[key]declared{}
	applied := map[string][]key{} // by record
	for i := range works {
		if err := IsDone(&works[i]); err != nil {
			return err
		}
		record := w.recordName(works[i].Name)
		applied[record] = []key{}
		for _, manifest := range works[i].Spec.Workload.Manifests {
			object := unstructured.Unstructured{}
			if err := json.Unmarshal(manifest.Raw, &object.Object); err != nil {
				return err
			}
			k := key{object.GetKind(), object.GetNamespace(), object.GetName()}
			d := declared{value: valueOf(&object), owners: append(want[k].owners, record)}
			slices.Sort(d.owners)
			want[k] = d
			applied[record] = append(applied[record], k)
		}
	}
	records, err := w.Records(ctx)
	if err != nil {
		return err
	}
	if got, want := slices.Sorted(maps.Keys(records)), slices.Sorted(maps.Keys(applied)); !slices.Equal(got, want) {
		return fmt.Errorf("the records are %v, want %v", got, want)
	}
	objects, err := w.Objects(ctx)
	if err != nil {
		return err
	}
	return errors.Join(w.compare(want, objects, records), compareRecords(applied, objects, records))
}

// IsDone returns an error unless all is said of a work in its present generation.
func IsDone(work *workv1.ManifestWork) error {
	if work.DeletionTimestamp != nil {
		return fmt.Errorf("work %s is still there: %+v", work.Name, work.Status.Conditions)
	}
	for _, condition := range []string{workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable} {
		c := meta.FindStatusCondition(work.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != work.Generation {
			return fmt.Errorf("condition %s of work %s at generation %d is %+v", condition, work.Name, work.Generation, c)
		}
	}
	if got, want := len(work.Status.ResourceStatus.Manifests), len(work.Spec.Workload.Manifests); got != want {
		return fmt.Errorf("the status of work %s has %d manifests of %d", work.Name, got, want)
	}
	return nil
}

func (w *World) compare(want map[key]declared, objects map[key]unstructured.Unstructured, records map[string]workv1.AppliedManifestWork) error {
	var errs []error
	for k := range objects {
		if _, ok := want[k]; !ok {
			errs = append(errs, fmt.Errorf("%v is left over", k))
		}
	}
	for k, d := range want {
		object, ok := objects[k]
		if !ok {
			errs = append(errs, fmt.Errorf("%v is missing", k))
			continue
		}
		if got := valueOf(&object); got != d.value || object.GetDeletionTimestamp() != nil {
			errs = append(errs, fmt.Errorf("%v is %q, want %q, deleted %v", k, got, d.value, object.GetDeletionTimestamp()))
		}
		var owners []string
		for _, owner := range object.GetOwnerReferences() {
			if records[owner.Name].UID != owner.UID {
				errs = append(errs, fmt.Errorf("%v has an owner that is gone: %v", k, owner))
			}
			owners = append(owners, owner.Name)
		}
		slices.Sort(owners)
		if !slices.Equal(owners, d.owners) {
			errs = append(errs, fmt.Errorf("%v is owned by %v, want %v", k, owners, d.owners))
		}
	}
	return errors.Join(errs...)
}

// compareRecords sees that each record lists its objects and no others.
func compareRecords(applied map[string][]key, objects map[key]unstructured.Unstructured, records map[string]workv1.AppliedManifestWork) error {
	var errs []error
	for name, keys := range applied {
		var got, want []string
		for _, r := range records[name].Status.AppliedResources {
			got = append(got, r.UID)
		}
		for _, k := range keys {
			object := objects[k]
			want = append(want, string(object.GetUID()))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || records[name].DeletionTimestamp != nil {
			errs = append(errs, fmt.Errorf("record %s lists %v, want %v, deleted %v", name, got, want, records[name].DeletionTimestamp))
		}
	}
	return errors.Join(errs...)
}

// Clear deletes all works and sees that nothing is left of them.
func (w *World) Clear() {
	w.t.Helper()
	works, err := w.works(w.t.Context())
	w.Must(err)
	for i := range works {
		if err := w.Hub.Client.Delete(w.t.Context(), &works[i]); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	w.Eventually("nothing is left", func(ctx context.Context) error {
		works, err := w.works(ctx)
		if err != nil {
			return err
		}
		if len(works) > 0 {
			return fmt.Errorf("there are %d works; %s: %+v", len(works), works[0].Name, works[0].Status.Conditions)
		}
		return w.Exact(ctx)
	})
}
