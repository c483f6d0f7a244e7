// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// checkInertOnHub makes sure that the hub does nothing itself with the object but to send it. It is
// created as somebody in the cluster has written it, who may do nothing on the hub.
func (p *promotionRun) checkInertOnHub(ctx context.Context) error {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	switch err := p.reads.List(ctx, nodes, client.Limit(1)); {
	case apierrors.IsForbidden(err):
		fmt.Fprintln(p.session.ErrOut, "You may not read Nodes: the hub is assumed to run no workloads itself.")
	case err != nil:
		return fmt.Errorf("find out whether the hub has nodes: %w", err)
	}
	p.effects = effects{hub: scope.Hub{Runs: len(nodes.Items) > 0}, cluster: p.cluster, namespace: p.namespace}
	if p.effects.hub.Runs {
		var err error
		if p.effects.labels, err = labelsOnHub(ctx, p.reads, p.kind.GroupVersionKind, client.ObjectKey{Namespace: p.namespace, Name: p.name}); err != nil {
			return err
		}
	}
	return p.effects.refuseEffect(p.kind.GroupVersionKind, p.promotedObjectName())
}

// labelsOnHub returns the labels on the hub of the namespace of an object or, if it has none, its own.
func labelsOnHub(ctx context.Context, hub client.Reader, kind schema.GroupVersionKind, key client.ObjectKey) (map[string]string, error) {
	if key.Namespace != "" {
		kind = corev1.SchemeGroupVersion.WithKind("Namespace")
		key = client.ObjectKey{Name: key.Namespace}
	}
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(kind)
	if err := hub.Get(ctx, key, about); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the labels of %s %q on the hub: %w", kind.Kind, key.Name, err)
	}
	return about.Labels, nil
}

// effects are those that objects of a cluster would have on the hub.
type effects struct {
	hub scope.Hub
	// labels are what say that objects of kinds on which the hub acts are sent nevertheless.
	labels             map[string]string
	cluster, namespace string
}

// refuseEffect refuses what would take effect on the hub as it does in the cluster.
func (e effects) refuseEffect(kind schema.GroupVersionKind, title string) error {
	const next = "Look at it in the cluster first, and create it on the hub yourself if it should have that effect there, too."
	switch {
	case kind.Group == rbacv1.GroupName:
		return exit.Next(fmt.Errorf("%s would grant on the hub what somebody in cluster %s has written: it is not promoted", title, e.cluster), next)
	case !e.hub.ServesKind(kind.GroupKind(), e.labels):
		return exit.Next(fmt.Errorf("%s would take effect on the hub as in cluster %s: it is not promoted", title, e.cluster),
			"%s.\n%s", scope.RefusalReason(kind.Kind, e.namespace), next)
	}
	return nil
}
