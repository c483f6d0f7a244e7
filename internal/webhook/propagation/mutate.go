// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-io/capstan/internal/untrusted/quantity"
	"github.com/capstan-io/capstan/internal/webhook/patch"
)

// objectMutator fills in what objects of a kind leave open.
type objectMutator[T client.Object] struct {
	fresh func() T
	// complete fills in what is left open, but for what follows; nil if that is nothing.
	complete func(T, *patch.JSONPatch)
	// label has the ID that the object keeps for life; empty if it has none.
	label string
	newID func() string
	// keepID leaves the ID that a new object comes with. Policies get one of their
	// own: a copy of a policy must not have that of the original.
	keepID bool
	// finalizer is put onto new objects; empty is none.
	finalizer string
}

// Handle answers with what is missing. Only that is in the patch: nothing of the
// object is written differently.
func (m *objectMutator[T]) Handle(_ context.Context, request admission.Request) admission.Response {
	object := m.fresh()
	if err := quantity.UnmarshalChecked(request.Object.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s %q: %w", request.Kind.Kind, request.Name, err))
	}
	if object.GetDeletionTimestamp() != nil {
		return admission.Allowed("")
	}
	object.SetNamespace(request.Namespace)
	var old metav1.PartialObjectMetadata
	if request.Operation == admissionv1.Update {
		if err := json.Unmarshal(request.OldObject.Raw, &old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s %q as it was: %w", request.Kind.Kind, request.Name, err))
		}
	}
	var changes patch.JSONPatch
	changes.UpdateLabels(object.GetLabels(), m.withPermanentID(object.GetLabels(), old.Labels, request.Operation == admissionv1.Create))
	if m.finalizer != "" && request.Operation == admissionv1.Create {
		changes.AddFinalizer(object.GetFinalizers(), m.finalizer)
	}
	if m.complete != nil {
		m.complete(object, &changes)
	}
	return changes.AdmissionResponse()
}

// withPermanentID returns the labels of an object with its ID. Who replaces an object need not
// know it: the one that it had is put back.
func (m *objectMutator[T]) withPermanentID(labels, old map[string]string, created bool) map[string]string {
	if m.label == "" || labels[m.label] != "" && (m.keepID || !created) {
		return labels
	}
	identified := maps.Clone(labels)
	if identified == nil {
		identified = map[string]string{}
	}
	identified[m.label] = cmp.Or(old[m.label], m.newID())
	return identified
}
