// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work contains the admission webhooks of the group
// work.open-cluster-management.io.
package work

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/webhook/size"
)

// The paths of the webhooks, which their configurations name.
const (
	MutateWorkPath   = "/mutate-work-open-cluster-management-io-v1-manifestwork"
	ValidateWorkPath = "/validate-work-open-cluster-management-io-v1-manifestwork"

	ValidateReplicaSetPath = "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset"
)

// besidesMax is how many bytes a work may have beside its manifests, on a hub that is told
// to take large ones.
const besidesMax = 1 << 20

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// WebhookOptions say how the webhooks work.
type WebhookOptions struct {
	// Clients ask the hub's API server.
	Clients kubernetes.Interface
	// ManifestsSizeMax is what the manifests of one work may have together, in
	// bytes. It has to be more than zero.
	ManifestsSizeMax int
	// NilExecutor asks for the permission to work as the agent itself where a
	// work names no executor (feature gate NilExecutorValidating).
	NilExecutor bool
	// CleanUp says that the hub deletes works that have finished, when their time
	// to live is over (feature gate CleanUpCompletedManifestWork).
	CleanUp bool
	// ReplicaSets says that the hub creates the works of ManifestWorkReplicaSets
	// (feature gate ManifestWorkReplicaSet).
	ReplicaSets bool
}

// WebhookHandlers returns the webhooks by their paths.
func WebhookHandlers(options WebhookOptions) (map[string]http.Handler, error) {
	if options.ManifestsSizeMax <= 0 {
		return nil, fmt.Errorf("the limit for the size of manifests is %d bytes, want more than 0", options.ManifestsSizeMax)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("adding the group %s to the scheme: %w", workv1.GroupName, err)
	}
	rules := specRules{
		access:      access.NewAccessReviewer(options.Clients.AuthorizationV1().SubjectAccessReviews()),
		sizeMax:     options.ManifestsSizeMax,
		nilExecutor: options.NilExecutor,
	}
	return size.LimitObjectSize(max(size.Stored, options.ManifestsSizeMax+besidesMax), map[string]*admission.Webhook{
		MutateWorkPath:         {Handler: finalizerMutator{}},
		ValidateWorkPath:       admission.WithValidator(scheme, &workValidator{specRules: rules, cleanUp: options.CleanUp}),
		ValidateReplicaSetPath: admission.WithValidator(scheme, &replicaSetValidator{specRules: rules, works: options.ReplicaSets}),
	}), nil
}
