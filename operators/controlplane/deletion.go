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

// controlPlaneRemoval has the phases that remove a control plane.
type controlPlaneRemoval struct{ *hostCluster }

// retainsData reports whether the data outlive the ControlPlane. Those in an external
// etcd are not the operator's to delete.
func retainsData(cp *fleetv1alpha1.ControlPlane) bool {
	managed := cp.Spec.Etcd.Managed
	return managed == nil || managed.DeletionPolicy != fleetv1alpha1.DeletionPolicyDelete
}

// describeRetainedData says what is left behind, and where.
func describeRetainedData(p *controlPlanePass) string {
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

// deleteKubeconfig deletes the kubeconfig, so that nobody connects to what is going.
func (r *controlPlaneRemoval) deleteKubeconfig(ctx context.Context, p *controlPlanePass) error {
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
	case !p.plane.OwnsObject(secret):
		return nil
	default:
		return r.target.DeleteSecret(ctx, secret)
	}
}

// deleteWorkloads deletes what runs and waits until it has ended: first the API servers,
// which without etcd would wait for it in vain, then etcd, whose members have to
// close their files.
func (r *controlPlaneRemoval) deleteWorkloads(ctx context.Context, p *controlPlanePass) error {
	if err := r.deleteAndAwaitPods(ctx, p, "Deployment", manifests.APIServer, manifests.ControllerManager); err != nil {
		return err
	}
	r.hubs.forgetClient(client.ObjectKeyFromObject(p.Object))
	if err := r.deleteAndAwaitPods(ctx, p, "StatefulSet", manifests.Etcd); err != nil {
		return err
	}
	_, err := r.target.Applier.Prune(ctx, render.PruneScope{Kinds: otherKinds(), Labels: p.plane.Labels(), Namespace: p.plane.Namespace}, nil)
	return err
}

// deleteAndAwaitPods deletes what is of the kind and waits until the pods of its components have
// ended.
func (r *controlPlaneRemoval) deleteAndAwaitPods(ctx context.Context, p *controlPlanePass, kind string, components ...string) error {
	scope := render.PruneScope{
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

// deleteOrRetainData deletes the data, or says where they are kept.
func (r *controlPlaneRemoval) deleteOrRetainData(ctx context.Context, p *controlPlanePass) error {
	scope := render.PruneScope{
		Kinds:  []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret")},
		Labels: p.plane.Labels(), Namespace: p.plane.Namespace,
	}
	if retainsData(p.Object) {
		var keep []render.AppliedRecord
		for _, name := range p.plane.KeptSecrets() {
			record := render.AppliedRecord{Kind: "Secret", Namespace: p.plane.Namespace, Name: name}
			keep = append(keep, record)
		}
		if _, err := r.target.Secrets.Prune(ctx, scope, keep); err != nil {
			return err
		}
		r.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, fleetv1alpha1.ControlPlaneReasonRetained, install.ActionRemove, "%s", describeRetainedData(p))
		return nil
	}
	if err := r.deleteVolumeClaims(ctx, p); err != nil {
		return err
	}
	_, err := r.target.Secrets.Prune(ctx, scope, nil)
	return err
}

// deleteVolumeClaims deletes the PersistentVolumeClaims, and with them what they hold.
func (r *controlPlaneRemoval) deleteVolumeClaims(ctx context.Context, p *controlPlanePass) error {
	claims, err := r.listDataClaims(ctx, p)
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
		return install.WaitError{After: waitRetry, Message: fmt.Sprintf("waiting for %d PersistentVolumeClaims to be deleted", len(claims))}
	}
	return nil
}
