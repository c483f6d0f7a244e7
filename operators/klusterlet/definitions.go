// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/render"
)

// definitionHashBytes is how much of the SHA-256 of a definition is kept.
const definitionHashBytes = 8

func definitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

// definitions installs the kinds that the agents need on the member. Only the
// metadata of what is there is read: schemas are large, and a changed one shows
// in the annotations.
func (c *Controller) definitions(ctx context.Context, p *pass) error {
	crds, err := config.SpokeCRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(definitionKind())
		if err := p.member.client.Get(ctx, types.NamespacedName{Name: crd.Name}, live); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading CustomResourceDefinition %q: %w", crd.Name, err)
		}
		desired, err := c.stamped(crd)
		if err != nil {
			return err
		}
		p.applied = append(p.applied, render.Record{
			GroupVersionResource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
			Kind:                 definitionKind().Kind, Name: crd.Name,
		})
		if newer(live.Annotations[operatorv1.AnnotationCRDVersion], c.Settings.Version) {
			p.notes = append(p.notes, fmt.Sprintf("CustomResourceDefinition %q is of the newer version %s and was left alone",
				crd.Name, live.Annotations[operatorv1.AnnotationCRDVersion]))
			continue
		}
		if current(live, desired) {
			continue
		}
		apply := client.ApplyConfigurationFromUnstructured(desired)
		if err := p.member.client.Apply(ctx, apply, client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying CustomResourceDefinition %q: %w", crd.Name, err)
		}
	}
	return nil
}

// stamped returns what to apply for a definition: with the version of this
// operator, and a hash to see by whether it is there already.
func (c *Controller) stamped(crd *apiextensionsv1.CustomResourceDefinition) (*unstructured.Unstructured, error) {
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, fmt.Errorf("encoding CustomResourceDefinition %q: %w", crd.Name, err)
	}
	desired := &unstructured.Unstructured{Object: content}
	desired.SetGroupVersionKind(definitionKind())
	unstructured.RemoveNestedField(desired.Object, "status")
	unstructured.RemoveNestedField(desired.Object, "metadata", "creationTimestamp")
	encoded, err := json.Marshal(desired.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding CustomResourceDefinition %q: %w", crd.Name, err)
	}
	sum := sha256.Sum256(encoded)
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[operatorv1.AnnotationCRDVersion] = c.Settings.Version
	annotations[render.HashAnnotation] = hex.EncodeToString(sum[:definitionHashBytes])
	desired.SetAnnotations(annotations)
	return desired, nil
}

func current(live *metav1.PartialObjectMetadata, desired *unstructured.Unstructured) bool {
	for _, key := range []string{operatorv1.AnnotationCRDVersion, render.HashAnnotation} {
		if live.Annotations[key] != desired.GetAnnotations()[key] {
			return false
		}
	}
	return true
}

// newer tells whether a definition was written by a newer operator. One without
// a version that we understand was not.
func newer(live, ours string) bool {
	l, err := version.ParseSemantic(live)
	if err != nil {
		return false
	}
	o, err := version.ParseSemantic(ours)
	return err == nil && o.LessThan(l)
}

// releaseDefinitions takes our version off the definitions, so that whoever
// installs agents next may write their own.
func (m *site) releaseDefinitions(ctx context.Context) error {
	crds, err := config.SpokeCRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(definitionKind())
		err := m.client.Get(ctx, types.NamespacedName{Name: crd.Name}, live)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading CustomResourceDefinition %q: %w", crd.Name, err)
		}
		if err != nil || live.Annotations[operatorv1.AnnotationCRDVersion] == "" {
			continue
		}
		before := live.DeepCopy()
		delete(live.Annotations, operatorv1.AnnotationCRDVersion)
		delete(live.Annotations, render.HashAnnotation)
		if err := m.client.Patch(ctx, live, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing CustomResourceDefinition %q: %w", crd.Name, err)
		}
	}
	return nil
}
