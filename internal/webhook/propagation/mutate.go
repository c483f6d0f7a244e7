// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-io/capstan/internal/quantity"
)

// mutator fills in what objects of a kind leave open.
type mutator[T client.Object] struct {
	fresh    func() T
	complete func(T)
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
func (m *mutator[T]) Handle(_ context.Context, request admission.Request) admission.Response {
	object := m.fresh()
	if err := quantity.Unmarshal(request.Object.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s %q: %w", request.Kind.Kind, request.Name, err))
	}
	if object.GetDeletionTimestamp() != nil {
		return admission.Allowed("")
	}
	object.SetNamespace(request.Namespace)
	old := m.fresh()
	if request.Operation == admissionv1.Update {
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the %s %q as it was: %w", request.Kind.Kind, request.Name, err))
		}
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	m.complete(object)
	m.identify(object, old, request.Operation == admissionv1.Create)
	if m.finalizer != "" && request.Operation == admissionv1.Create {
		controllerutil.AddFinalizer(object, m.finalizer)
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after)
}

// identify gives the object its ID. Who replaces an object need not know it: the
// one that it had is put back.
func (m *mutator[T]) identify(object, old T, created bool) {
	if m.label == "" {
		return
	}
	labels := object.GetLabels()
	if labels[m.label] != "" && (m.keepID || !created) {
		return
	}
	id := old.GetLabels()[m.label]
	if id == "" {
		id = m.newID()
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[m.label] = id
	object.SetLabels(labels)
}
