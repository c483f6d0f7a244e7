// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

func definitionKind() schema.GroupVersionKind {
	return apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
}

func definitionResource() schema.GroupVersionResource {
	return apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
}

// definitions installs the CustomResourceDefinitions and waits until they are
// served. One that a newer operator wrote is left alone.
func (c *Controller) definitions(ctx context.Context, p *pass) error {
	wrote := false
	for _, crd := range c.crds {
		record, written, err := c.definition(ctx, p, crd)
		if err != nil {
			return err
		}
		p.records = append(p.records, record)
		wrote = wrote || written
	}
	if !wrote && isTrue(p.cm, operatorv1.ClusterManagerConditionApplied) {
		return nil
	}
	return c.awaitServed(ctx, p.site)
}

// definition installs one of them and tells whether it was written.
func (c *Controller) definition(
	ctx context.Context, p *pass, crd *apiextensionsv1.CustomResourceDefinition,
) (render.Record, bool, error) {
	wanted, err := c.wantedDefinition(p.hub, crd)
	if err != nil {
		return render.Record{}, false, err
	}
	stamped, err := render.Stamped(wanted)
	if err != nil {
		return render.Record{}, false, err
	}
	live, err := p.site.liveDefinition(ctx, crd.Name)
	if err != nil {
		return render.Record{}, false, err
	}
	record := render.Record{GroupVersionResource: definitionResource(), Kind: definitionKind().Kind, Name: crd.Name}
	if live != nil && !needsWrite(live, stamped, recordedGeneration(p.cm, record)) {
		record.Generation = live.Generation
		return record, false, nil
	}
	record, err = p.site.applier.Write(ctx, wanted)
	return record, true, err
}

// wantedDefinition returns the definition as it is to be, with our marks.
func (c *Controller) wantedDefinition(h manifests.Hub, crd *apiextensionsv1.CustomResourceDefinition) (render.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, fmt.Errorf("encoding the definition %q: %w", crd.Name, err)
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(definitionKind())
	m := render.Meta{Labels: u.GetLabels(), Annotations: u.GetAnnotations()}.
		Labelled(h.Labels).Labelled(h.Owner()).
		Annotated(map[string]string{operatorv1.AnnotationCRDVersion: c.options.Version})
	u.SetLabels(m.Labels)
	u.SetAnnotations(m.Annotations)
	return client.ApplyConfigurationFromUnstructured(u), nil
}

// liveDefinition returns the metadata of the definition, or nil if there is
// none. The cache has those that we made; others are asked for.
func (s *site) liveDefinition(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	for _, reader := range []client.Reader{s.client, s.reader} {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(definitionKind())
		err := reader.Get(ctx, client.ObjectKey{Name: name}, live)
		if err == nil {
			return live, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the definition %q: %w", name, err)
		}
	}
	return nil, nil
}

// needsWrite tells whether the definition differs from what is wanted, and is
// not of a newer operator.
func needsWrite(live *metav1.PartialObjectMetadata, desired *unstructured.Unstructured, recorded int64) bool {
	if newer(live.Annotations[operatorv1.AnnotationCRDVersion], desired.GetAnnotations()[operatorv1.AnnotationCRDVersion]) {
		return false
	}
	for key, value := range desired.GetAnnotations() {
		if live.Annotations[key] != value {
			return true
		}
	}
	for key, value := range desired.GetLabels() {
		if live.Labels[key] != value {
			return true
		}
	}
	return live.Generation != recorded
}

// newer tells whether a is a later version than b. What is not a version is
// older than anything.
func newer(a, b string) bool {
	va, err := version.ParseSemantic(a)
	if err != nil {
		return false
	}
	vb, err := version.ParseSemantic(b)
	return err != nil || vb.LessThan(va)
}

// awaitServed returns a waitError while a definition is not served.
func (c *Controller) awaitServed(ctx context.Context, hub *site) error {
	var missing []string
	for _, crd := range c.crds {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := hub.reader.Get(ctx, client.ObjectKey{Name: crd.Name}, live); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the definition %q: %w", crd.Name, err)
		}
		if !served(live) {
			missing = append(missing, crd.Name)
		}
	}
	if len(missing) > 0 {
		return waitError{operatorv1.ClusterManagerReasonInstalling, "the API server does not serve these definitions yet: " + strings.Join(missing, ", ")}
	}
	return nil
}

func served(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
