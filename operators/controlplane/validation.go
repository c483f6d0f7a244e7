// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/install"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// minorMin is the first minor version of Kubernetes whose API server reads the
// configuration that it gets.
const minorMin = 34

// installation has the phases that install a control plane.
type installation struct{ *host }

// validate finds what the API server could not refuse: what depends on what is
// there already.
func (i *installation) validate(ctx context.Context, p *pass) error {
	if problem := versionProblem(p.Object.Status.Version, p.plane.Spec.Version); problem != "" {
		return install.MistakeError{Reason: fleetv1alpha1.ControlPlaneReasonUnsupportedVersion, Message: problem}
	}
	if p.plane.Managed() && p.facts.Etcd == nil {
		return i.retainedData(ctx, p)
	}
	return nil
}

// versionProblem says why the version cannot be changed; empty if it can.
func versionProblem(from, to string) string {
	wanted, err := version.ParseSemantic(to)
	switch {
	case err != nil:
		return fmt.Sprintf("spec.version %q is not a version", to)
	case wanted.Minor() < minorMin:
		return fmt.Sprintf("spec.version %s is not supported: set v1.%d or later", to, minorMin)
	case from == "":
		return ""
	}
	present, err := version.ParseSemantic(from)
	switch {
	case err != nil:
		return ""
	case wanted.Minor() > present.Minor()+1:
		return fmt.Sprintf("spec.version %s is more than one minor version after %s: upgrade to v1.%d first", to, from, present.Minor()+1)
	case wanted.Minor() < present.Minor():
		return fmt.Sprintf("spec.version %s is an older minor version than %s, which may have stored what it cannot read: set v1.%d", to, from, present.Minor())
	default:
		return ""
	}
}

// retainedData makes sure that data of a former ControlPlane of the name can be
// used: members that do not know each other would not start, and nobody could
// read what other keys encrypted.
func (i *installation) retainedData(ctx context.Context, p *pass) error {
	claims, err := i.claims(ctx, p)
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
		p.plane.Of(manifests.EtcdAuthority), p.plane.Of(manifests.ServingAuthority), p.plane.Of(manifests.ClientAuthority),
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

// claims are the PersistentVolumeClaims of the members of etcd.
func (h *host) claims(ctx context.Context, p *pass) ([]corev1.PersistentVolumeClaim, error) {
	list := &corev1.PersistentVolumeClaimList{}
	err := h.Live.List(ctx, list, client.InNamespace(p.plane.Namespace), client.MatchingLabels(p.plane.PodLabels(manifests.Etcd)))
	if err != nil {
		return nil, fmt.Errorf("listing the PersistentVolumeClaims in namespace %q: %w", p.plane.Namespace, err)
	}
	return list.Items, nil
}
