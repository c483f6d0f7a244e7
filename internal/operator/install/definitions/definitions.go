// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package definitions keeps CustomResourceDefinitions on a cluster.
//
// One that a newer operator wrote is left alone, and one is written only if it
// is not as wanted: its schema is large, so only metadata is read. Definitions
// are never deleted here, as that deletes the objects of their users.
package definitions

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// DefinitionKind is that of definitions.
func DefinitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

// DefinitionMetadata returns an empty object that reads and watches the metadata of definitions.
func DefinitionMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(DefinitionKind())
	return object
}

// DefinitionSet is what an operator of one version wants to be defined.
type DefinitionSet struct {
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Foreign are definitions of APIs that are others'. They are installed where
	// there is none; one that is there is left as it is, as its versions and what
	// is stored in them are up to those who installed it.
	Foreign []*apiextensionsv1.CustomResourceDefinition
	// Version of the operator, stamped onto what it writes.
	Version string
	// Labels that all of them get.
	Labels map[string]string
}

// InstalledDefinitions says what became of a DefinitionSet.
type InstalledDefinitions struct {
	// Records of all definitions.
	Records []render.AppliedRecord
	// Notes are sentences about those that a newer operator wrote.
	Notes []string
	// Written reports whether any was written.
	Written bool
}

// InstallDefinitions writes the definitions that are not as wanted. The inventory tells by
// their generation those that someone else has changed since.
func (s DefinitionSet) InstallDefinitions(ctx context.Context, to *install.Target, known install.Inventory) (InstalledDefinitions, error) {
	var done InstalledDefinitions
	for _, crd := range s.CRDs {
		wanted, err := s.desiredDefinition(crd)
		if err != nil {
			return done, err
		}
		stamped, err := render.StampAppliedHash(wanted)
		if err != nil {
			return done, err
		}
		live, err := readMetadata(ctx, to, crd.Name)
		if err != nil {
			return done, err
		}
		record := render.AppliedRecord{
			GroupVersionResource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
			Kind:                 DefinitionKind().Kind, Name: crd.Name,
		}
		switch decideWrite(live, stamped, known.LastGenerationOf(record)) {
		case leave:
			done.Notes = append(done.Notes, fmt.Sprintf("CustomResourceDefinition %q has the newer version %s and was not changed",
				crd.Name, live.Annotations[operatorv1.AnnotationCRDVersion]))
			record.Generation = live.Generation
		case keep:
			record.Generation = live.Generation
		case write:
			if record, err = to.Applier.ApplyUnconditionally(ctx, wanted); err != nil {
				return done, err
			}
			done.Written = true
		}
		done.Records = append(done.Records, record)
	}
	return done, s.installForeign(ctx, to, &done)
}

// installForeign writes the definitions of others' APIs that are not there.
func (s DefinitionSet) installForeign(ctx context.Context, to *install.Target, done *InstalledDefinitions) error {
	for _, crd := range s.Foreign {
		live, err := readMetadata(ctx, to, crd.Name)
		if err != nil {
			return err
		}
		if live != nil {
			continue
		}
		wanted, err := DefinitionSet{}.desiredDefinition(crd)
		if err != nil {
			return err
		}
		if _, err := to.Applier.ApplyUnconditionally(ctx, wanted); err != nil {
			return err
		}
		done.Written = true
	}
	return nil
}

// desiredDefinition returns the definition as it is to be, with the marks of the DefinitionSet.
func (s DefinitionSet) desiredDefinition(crd *apiextensionsv1.CustomResourceDefinition) (render.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, fmt.Errorf("encoding CustomResourceDefinition %q: %w", crd.Name, err)
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(DefinitionKind())
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	m := render.ResourceMeta{Labels: u.GetLabels(), Annotations: u.GetAnnotations()}.
		WithLabels(s.Labels)
	if s.Version != "" {
		m = m.WithAnnotations(map[string]string{operatorv1.AnnotationCRDVersion: s.Version})
	}
	if len(m.Labels) > 0 {
		u.SetLabels(m.Labels)
	}
	u.SetAnnotations(m.Annotations)
	return client.ApplyConfigurationFromUnstructured(u), nil
}

// ForeignDefinitions returns the names of the definitions that are there already without the
// label by which their owner is known.
func ForeignDefinitions(ctx context.Context, on *install.Target, crds []*apiextensionsv1.CustomResourceDefinition, label string) ([]string, error) {
	var foreign []string
	for _, crd := range crds {
		live, err := readMetadata(ctx, on, crd.Name)
		if err != nil {
			return nil, err
		}
		if live != nil && live.Labels[label] == "" {
			foreign = append(foreign, crd.Name)
		}
	}
	return foreign, nil
}

// readMetadata returns the metadata of the definition, or nil if there is none.
// What the cache does not have is asked for.
func readMetadata(ctx context.Context, on *install.Target, name string) (*metav1.PartialObjectMetadata, error) {
	for _, reader := range []client.Reader{on.Client, on.Live} {
		live := DefinitionMetadata()
		err := reader.Get(ctx, client.ObjectKey{Name: name}, live)
		if err == nil {
			return live, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading CustomResourceDefinition %q: %w", name, err)
		}
	}
	return nil, nil //nolint:nilnil // "there is none" is an answer
}

// writeDecision is what to do with a definition.
type writeDecision int

const (
	// write it: there is none, or it is not as wanted.
	write writeDecision = iota
	// keep it: it is as wanted.
	keep
	// leave it to the newer operator that wrote it.
	leave
)

// decideWrite compares the definition that is there with what is wanted. The
// generation is that after it was written last.
func decideWrite(live *metav1.PartialObjectMetadata, wanted *unstructured.Unstructured, written int64) writeDecision {
	if live == nil {
		return write
	}
	if isNewerVersion(live.Annotations[operatorv1.AnnotationCRDVersion], wanted.GetAnnotations()[operatorv1.AnnotationCRDVersion]) {
		return leave
	}
	for key, value := range wanted.GetAnnotations() {
		if live.Annotations[key] != value {
			return write
		}
	}
	for key, value := range wanted.GetLabels() {
		if live.Labels[key] != value {
			return write
		}
	}
	if live.Generation != written {
		return write
	}
	return keep
}

// isNewerVersion reports whether a is a later version than b. What is not a version is
// older than any: an operator that does not know its own must not overwrite
// what one of a release wrote.
func isNewerVersion(a, b string) bool {
	va, err := version.ParseSemantic(a)
	if err != nil {
		return false
	}
	vb, err := version.ParseSemantic(b)
	return err != nil || vb.LessThan(va)
}

// UnservedDefinitions returns the names of those that the API server does not serve yet.
func (s DefinitionSet) UnservedDefinitions(ctx context.Context, on *install.Target) ([]string, error) {
	var missing []string
	for _, crd := range s.CRDs {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := on.Live.Get(ctx, client.ObjectKey{Name: crd.Name}, live); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %q: %w", crd.Name, err)
		}
		if !isEstablished(live) {
			missing = append(missing, crd.Name)
		}
	}
	return missing, nil
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// ReleaseVersion takes the version off the definitions, so that whoever comes next may
// write their own.
func (s DefinitionSet) ReleaseVersion(ctx context.Context, on *install.Target) error {
	for _, crd := range s.CRDs {
		live, err := readMetadata(ctx, on, crd.Name)
		if err != nil {
			return err
		}
		if live == nil || live.Annotations[operatorv1.AnnotationCRDVersion] == "" {
			continue
		}
		before := live.DeepCopy()
		delete(live.Annotations, operatorv1.AnnotationCRDVersion)
		delete(live.Annotations, render.HashAnnotation)
		if err := on.Client.Patch(ctx, live, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing CustomResourceDefinition %q: %w", crd.Name, err)
		}
	}
	return nil
}
