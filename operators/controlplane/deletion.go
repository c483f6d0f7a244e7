// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// removal has the phases that remove a control plane.
type removal struct{ *host }

// retains tells whether the data outlive the ControlPlane. Those in an external
// etcd are not the operator's to delete.
func retains(cp *fleetv1alpha1.ControlPlane) bool {
	managed := cp.Spec.Etcd.Managed
	return managed == nil || managed.DeletionPolicy != fleetv1alpha1.DeletionPolicyDelete
}

// retained says what is left behind, and where.
func retained(p *pass) string {
	data := "the data in the external etcd"
	if managed := p.plane.Spec.Etcd.Managed; managed != nil {
		var claims []string
		for n := range managed.Replicas {
			claims = append(claims, p.plane.DataClaim(n))
		}
		data = "PersistentVolumeClaims " + strings.Join(claims, ", ")
	}
	return fmt.Sprintf("in namespace %q these are kept: %s, and the Secrets with its authorities and keys (%s); a ControlPlane %q there goes on with them",
		p.plane.Namespace, data, strings.Join(p.plane.KeptSecrets(), ", "), p.plane.Name)
}

// kubeconfig deletes the kubeconfig, so that nobody connects to what is going.
func (r *removal) kubeconfig(ctx context.Context, p *pass) error {
	namespace, name := p.plane.KubeconfigSecret()
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err) && namespace != p.plane.Namespace:
		return nil // whoever took the right away keeps the Secret
	case err != nil:
		return fmt.Errorf("reading the Secret %q: %w", namespace+"/"+name, err)
	case !p.plane.Owns(secret):
		return nil
	default:
		return r.target.DeleteSecret(ctx, secret)
	}
}

// workloads deletes what runs and waits until it has ended: first the API servers,
// which without etcd would wait for it in vain, then etcd, whose members have to
// close their files.
func (r *removal) workloads(ctx context.Context, p *pass) error {
	if err := r.end(ctx, p, "Deployment", manifests.APIServer, manifests.ControllerManager); err != nil {
		return err
	}
	r.hubs.forget(client.ObjectKeyFromObject(p.Object))
	if err := r.end(ctx, p, "StatefulSet", manifests.Etcd); err != nil {
		return err
	}
	_, err := r.target.Applier.Prune(ctx, render.Scope{Kinds: otherKinds(), Labels: p.plane.Labels(), Namespace: p.plane.Namespace}, nil)
	return err
}

// end deletes what is of the kind and waits until the pods of its components have
// ended.
func (r *removal) end(ctx context.Context, p *pass, kind string, components ...string) error {
	scope := render.Scope{
		Kinds:  []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind(kind)},
		Labels: p.plane.Labels(), Namespace: p.plane.Namespace,
	}
	if _, err := r.target.Applier.Prune(ctx, scope, nil); err != nil {
		return err
	}
	count := 0
	for _, component := range components {
		pods := &corev1.PodList{}
		if err := r.Live.List(ctx, pods, client.InNamespace(p.plane.Namespace), client.MatchingLabels(p.plane.PodLabels(component))); err != nil {
			return fmt.Errorf("listing the pods in namespace %q: %w", p.plane.Namespace, err)
		}
		count += len(pods.Items)
	}
	if count > 0 {
		return install.WaitError{After: waitRetry, Message: fmt.Sprintf("waiting for %d pods of %s to terminate", count, strings.Join(components, " and "))}
	}
	return nil
}

// data deletes the data, or says where they are kept.
func (r *removal) data(ctx context.Context, p *pass) error {
	scope := render.Scope{
		Kinds:  []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret")},
		Labels: p.plane.Labels(), Namespace: p.plane.Namespace,
	}
	if retains(p.Object) {
		var keep []render.Record
		for _, name := range p.plane.KeptSecrets() {
			record := render.Record{Kind: "Secret", Namespace: p.plane.Namespace, Name: name}
			keep = append(keep, record)
		}
		if _, err := r.target.Secrets.Prune(ctx, scope, keep); err != nil {
			return err
		}
		r.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, fleetv1alpha1.ControlPlaneReasonRetained, install.ActionRemove, "%s", retained(p))
		return nil
	}
	if err := r.deleteClaims(ctx, p); err != nil {
		return err
	}
	_, err := r.target.Secrets.Prune(ctx, scope, nil)
	return err
}

// deleteClaims deletes the PersistentVolumeClaims, and with them what they hold.
func (r *removal) deleteClaims(ctx context.Context, p *pass) error {
	claims, err := r.claims(ctx, p)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		gone := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}}
		if err := r.Client.Delete(ctx, gone, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the PersistentVolumeClaim %q: %w", claim.Name, err)
		}
	}
	if len(claims) > 0 {
		return install.WaitError{After: waitRetry, Message: fmt.Sprintf("waiting for %d PersistentVolumeClaims to go", len(claims))}
	}
	return nil
}
