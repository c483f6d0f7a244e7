// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// controlPlaneInstallation has the phases that install a control plane.
type controlPlaneInstallation struct{ *hostCluster }

// validateControlPlane finds what the API server could not refuse: what depends on what is
// there already.
func (i *controlPlaneInstallation) validateControlPlane(ctx context.Context, p *controlPlanePass) error {
	if problem := manifests.VersionProblem(p.Object.Status.Version, p.plane.Spec.Version); problem != "" {
		return install.MistakeError{Reason: fleetv1alpha1.ControlPlaneReasonUnsupportedVersion, Message: "spec.version " + problem}
	}
	if p.plane.HasManagedEtcd() && p.facts.Etcd == nil {
		return i.checkRetainedData(ctx, p)
	}
	return nil
}

// checkRetainedData makes sure that data of a former ControlPlane of the name can be
// used: members that do not know each other would not start, and nobody could
// read what other keys encrypted.
func (i *controlPlaneInstallation) checkRetainedData(ctx context.Context, p *controlPlanePass) error {
	claims, err := i.listDataClaims(ctx, p)
	if err != nil || len(claims) == 0 {
		return err
	}
	mismatch := func(text string, args ...any) error {
		return install.MistakeError{
			Reason: fleetv1alpha1.ControlPlaneReasonRetainedDataMismatch,
			Message: fmt.Sprintf("a ControlPlane %q left data behind (PersistentVolumeClaim %q): ", p.plane.Name, claims[0].Name) +
				fmt.Sprintf(text, args...) + ", or delete the PersistentVolumeClaims to begin without data",
		}
	}
	if wanted := p.plane.Spec.Etcd.Managed.Replicas; len(claims) != int(wanted) {
		return mismatch("there are %d members, so set spec.etcd.managed.replicas to %d", len(claims), len(claims))
	}
	for _, name := range []string{
		p.plane.ResourceName(manifests.EtcdAuthority), p.plane.ResourceName(manifests.ServingAuthority), p.plane.ResourceName(manifests.ClientAuthority),
		p.plane.ServiceAccountSecret(), p.plane.EncryptionSecret(),
	} {
		err := i.Live.Get(ctx, client.ObjectKey{Namespace: p.plane.Namespace, Name: name}, &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return mismatch("restore Secret %q, without which nobody can read them", name)
		}
		if err != nil {
			return fmt.Errorf("reading the Secret %q: %w", name, err)
		}
	}
	return nil
}

// listDataClaims are the PersistentVolumeClaims of the members of etcd.
func (h *hostCluster) listDataClaims(ctx context.Context, p *controlPlanePass) ([]corev1.PersistentVolumeClaim, error) {
	list := &corev1.PersistentVolumeClaimList{}
	err := h.Live.List(ctx, list, client.InNamespace(p.plane.Namespace), client.MatchingLabels(p.plane.PodLabels(manifests.Etcd)))
	if err != nil {
		return nil, fmt.Errorf("listing the PersistentVolumeClaims in namespace %q: %w", p.plane.Namespace, err)
	}
	return list.Items, nil
}
