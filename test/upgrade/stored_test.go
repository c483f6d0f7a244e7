// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/upgrade/released"
)

// TestStoredObjectsOfReleases puts what releases have stored into the etcd of an API
// server with the present definitions. It has to be served, read by our types and
// written without losing a field.
func TestStoredObjectsOfReleases(t *testing.T) {
	if *store != "" {
		storeObjects(t, *store)
	}
	for _, release := range released.ReleaseVersions(t) {
		t.Run(release, func(t *testing.T) {
			environment, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../config/crd"} })
			s := newServer(t, environment, config)
			for _, r := range released.ServedBy(t, release) {
				objects := released.ObjectsOf(t, release, r)
				if len(objects) == 0 {
					t.Errorf("%s served %s, of which testdata has no object: run 'make store-release-objects'", release, r)
				}
				if !s.serves(r) {
					t.Errorf("%s served %s, which is served no more", release, r)
					continue
				}
				for _, object := range objects {
					t.Run(strings.TrimPrefix(object.Key, released.EtcdPrefix), func(t *testing.T) { s.carriesOver(t, object) })
				}
			}
		})
	}
}

// carriesOver uses a stored object in all versions in which it is served now.
func (s server) carriesOver(t *testing.T, object released.StoredObject) {
	s.acceptsAsNew(t, object)
	for _, r := range released.ServedIn(s.definition(object.Resource)) {
		if err := env.WriteStore(t.Context(), s.environment, object.Key, object.Value); err != nil {
			t.Fatal(err)
		}
		s.serve(t, r, object)
		s.update(t, r, object)
		if s.hasStatus(r) {
			s.updateStatus(t, r, object)
		}
	}
}

// acceptsAsNew creates the object as a user who applies a manifest of the release does.
// Here all is validated; an update may keep what is invalid and was there before.
func (s server) acceptsAsNew(t *testing.T, object released.StoredObject) {
	t.Helper()
	s.needsNamespace(t, object.GetNamespace())
	manifest := object.DeepCopy()
	for _, field := range []string{"uid", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(manifest.Object, "metadata", field)
	}
	want := lasting(manifest.Object)
	if s.hasStatus(object.Resource) {
		delete(want, "status")
	}
	got, err := s.client(object.Resource, object.GetNamespace()).Create(t.Context(), manifest,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Errorf("its manifest is refused now: %v", err)
		return
	}
	expect.TreeKept(t, "what its manifest creates", want, got.Object)
}

// serve reads the object in a version, alone and in a list.
func (s server) serve(t *testing.T, r released.Resource, object released.StoredObject) {
	t.Helper()
	expect.TreeKept(t, "GET in "+r.Version, lasting(object.Object), s.get(t, r, object).Object)
	list, err := s.client(r, object.GetNamespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("LIST in %s: %v", r.Version, err)
	}
	i := slices.IndexFunc(list.Items, func(o unstructured.Unstructured) bool { return o.GetName() == object.GetName() })
	if i < 0 {
		t.Fatalf("LIST in %s does not have it", r.Version)
	}
	expect.TreeKept(t, "LIST in "+r.Version, lasting(object.Object), list.Items[i].Object)
}

func (s server) get(t *testing.T, r released.Resource, object released.StoredObject) *unstructured.Unstructured {
	t.Helper()
	got, err := s.client(r, object.GetNamespace()).Get(t.Context(), object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("GET in %s: %v", r.Version, err)
	}
	return got
}

// update writes the object by our type of it, with one more label.
func (s server) update(t *testing.T, r released.Resource, object released.StoredObject) {
	t.Helper()
	const label = "test.capstan.io/updated"
	typed := s.typed(t, s.get(t, r, object))
	labels := typed.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[label] = "true"
	typed.SetLabels(labels)
	if err := s.types.Update(t.Context(), typed); err != nil {
		t.Fatalf("update in %s: %v", r.Version, err)
	}
	got := s.get(t, r, object)
	if got.GetLabels()[label] == "" {
		t.Errorf("update in %s: the new label is lost", r.Version)
	}
	expect.TreeKept(t, "after an update in "+r.Version, lasting(object.Object), got.Object)
}

// updateStatus removes the status and writes it by our type again: what an update does
// not change is not validated.
func (s server) updateStatus(t *testing.T, r released.Resource, object released.StoredObject) {
	t.Helper()
	without := s.get(t, r, object)
	typed := s.typed(t, without)
	delete(without.Object, "status")
	removed, err := s.client(r, object.GetNamespace()).UpdateStatus(t.Context(), without, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("remove the status in %s: %v", r.Version, err)
	}
	typed.SetResourceVersion(removed.GetResourceVersion())
	if err := s.types.Status().Update(t.Context(), typed); err != nil {
		t.Fatalf("update the status in %s: %v", r.Version, err)
	}
	expect.TreeKept(t, "after an update of the status in "+r.Version, lasting(object.Object), s.get(t, r, object).Object)
}
