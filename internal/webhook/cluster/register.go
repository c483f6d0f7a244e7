// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster contains the admission webhooks of the group
// cluster.open-cluster-management.io, and that of the certificate requests by which
// clusters get their identity.
package cluster

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/webhook/size"
)

// The paths of the webhooks, which their configurations name.
const (
	MutateClusterPath   = "/mutate-cluster-open-cluster-management-io-v1-managedcluster"
	ValidateClusterPath = "/validate-cluster-open-cluster-management-io-v1-managedcluster"
	ValidateBindingPath = "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding"
	ValidateRequestPath = "/validate-certificates-k8s-io-v1-certificatesigningrequest"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// WebhookOptions say how the webhooks work.
type WebhookOptions struct {
	// Clients ask the hub's API server.
	Clients kubernetes.Interface
	// Metadata watches which clusters wait for acceptance, if there is a limit of them.
	Metadata metadata.Interface
	// Clock tells when a taint was added, and when a cluster was let through.
	Clock clock.PassiveClock
	// DefaultSet puts clusters without a set into the default set (feature gate
	// DefaultClusterSet).
	DefaultSet bool
	// MaxUnaccepted is how many clusters that nobody has accepted yet one user may
	// have who may not accept clusters, and how many certificate requests that nobody
	// has decided about; 0 is no limit.
	MaxUnaccepted int
}

// WebhookHandlers returns the webhooks by their paths. What they watch, they watch until ctx
// ends.
func WebhookHandlers(ctx context.Context, options WebhookOptions) (map[string]http.Handler, error) {
	if options.MaxUnaccepted < 0 {
		return nil, fmt.Errorf("the limit of clusters that wait for acceptance is %d, want 0 for no limit, or more", options.MaxUnaccepted)
	}
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the group %s to the scheme: %w", clusterv1.GroupVersion, err)
	}
	if err := clusterv1beta2.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the group %s to the scheme: %w", clusterv1beta2.GroupVersion, err)
	}
	reviewer := access.NewAccessReviewer(options.Clients.AuthorizationV1().SubjectAccessReviews())
	validator := &clusterValidator{
		access: reviewer, namespace: namespaceReader(options.Clients), defaultSet: options.DefaultSet, maxUnaccepted: options.MaxUnaccepted,
	}
	if options.MaxUnaccepted > 0 {
		validator.admit = watchWaitingClusters(ctx, options.Metadata, options.MaxUnaccepted, options.Clock).admitWaiting
	}
	return size.LimitObjectSize(size.Stored, map[string]*admission.Webhook{
		MutateClusterPath:   {Handler: &clusterMutator{clock: options.Clock, access: reviewer, defaultSet: options.DefaultSet}},
		ValidateClusterPath: admission.WithValidator(scheme, validator),
		ValidateBindingPath: admission.WithValidator(scheme, &clusterSetBindingValidator{access: reviewer}),
		ValidateRequestPath: {Handler: newRequestLimiter(ctx, options.Clients, reviewer, options.MaxUnaccepted, options.Clock)},
	}), nil
}

func namespaceReader(clients kubernetes.Interface) func(context.Context, string) (*corev1.Namespace, error) {
	return func(ctx context.Context, name string) (*corev1.Namespace, error) {
		ctx, cancel := context.WithTimeout(ctx, access.ReviewTimeout)
		defer cancel()
		namespace, err := clients.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the namespace %q: %w", name, err)
		}
		return namespace, nil
	}
}
