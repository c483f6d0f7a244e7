// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/webhook/patch"
)

// finalizerMutator puts the agent's finalizer onto a work when it is created. So the
// agent needs no write of its own before it applies the manifests, and a work
// that is deleted at once is not forgotten on the member.
type finalizerMutator struct{}

// workFinalizers is the part of a work that is read. The manifests are not: they may be
// large.
type workFinalizers struct {
	Metadata struct {
		Finalizers []string `json:"finalizers"`
	} `json:"metadata"`
}

// Handle answers with the finalizer that is missing, if it is.
func (finalizerMutator) Handle(_ context.Context, request admission.Request) admission.Response {
	if request.Operation != admissionv1.Create {
		return admission.Allowed("")
	}
	var work workFinalizers
	if err := json.Unmarshal(request.Object.Raw, &work); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the ManifestWork %q: %w", request.Name, err))
	}
	var changes patch.JSONPatch
	changes.AddFinalizer(work.Metadata.Finalizers, workv1.FinalizerManifestWorkCleanup)
	return changes.AdmissionResponse()
}
