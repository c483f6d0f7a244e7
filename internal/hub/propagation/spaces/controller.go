// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spaces keeps for each accepted cluster the namespace in which its Works
// are shown in Karmada's API: Events about them need one that exists.
//
// It deletes nothing. A namespace that it makes belongs to the ManagedCluster, so
// Kubernetes removes it with that; one of the name that was there is left alone.
package spaces

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	karmadaclusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/karmadauid"
	"github.com/capstan-io/capstan/internal/hub/propagation/announce"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// labelSystem marks namespaces that belong to the hub itself in Karmada.
const labelSystem = "karmada.io/system"

// ExecutionSpaceController keeps the namespaces.
type ExecutionSpaceController struct {
	// Client reads clusters and namespaces from a cache.
	Client   client.Client
	Announce *announce.Announcer
}

// SetupWithManager adds the controller to the manager.
func (c *ExecutionSpaceController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("execution-space").
		Watches(&clusterv1.ManagedCluster{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.Funcs{UpdateFunc: c.onUpdated, DeleteFunc: c.onDeleted}).
		Complete(conflict.RequeueConflicts(c))
}

// onUpdated tells why a namespace of ours that is being deleted does not go.
func (c *ExecutionSpaceController) onUpdated(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	before, is := e.ObjectOld.(*corev1.Namespace)
	after, isToo := e.ObjectNew.(*corev1.Namespace)
	if !is || !isToo {
		return
	}
	cluster, owner := owningCluster(after)
	if why := deletionHindrance(after); owner != nil && why != "" && why != deletionHindrance(before) {
		c.recordClusterEvent(cluster, owner.UID, corev1.EventTypeWarning, announce.ReasonRemoveExecutionSpaceFailed, "Namespace "+after.Name+" is not removed yet: "+why)
	}
}

// onDeleted tells that a namespace of ours is gone, and brings back its cluster.
func (c *ExecutionSpaceController) onDeleted(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	cluster, owner := owningCluster(e.Object)
	if cluster == "" {
		return
	}
	if owner != nil {
		c.recordClusterEvent(cluster, owner.UID, corev1.EventTypeNormal, announce.ReasonRemoveExecutionSpaceSucceed, "Namespace "+e.Object.GetName()+" was removed.")
	}
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: cluster}})
}

// owningCluster returns the cluster whose Works a namespace is for, "" if it is for those of
// none, and the reference to its ManagedCluster, nil if the namespace is not ours.
func owningCluster(namespace client.Object) (cluster string, owner *metav1.OwnerReference) {
	cluster, is := strings.CutPrefix(namespace.GetName(), karmadaworkv1alpha1.NamespacePrefix)
	if !is {
		return "", nil
	}
	owner = metav1.GetControllerOf(namespace)
	if owner == nil || owner.Kind != "ManagedCluster" || owner.Name != cluster {
		return cluster, nil
	}
	return cluster, owner
}

// deletionHindrance says why a namespace that is being deleted does not go without help, in the
// words of the controller that deletes it; "" if nothing hinders that. Content that is
// being deleted is no hindrance.
func deletionHindrance(namespace *corev1.Namespace) string {
	if namespace.DeletionTimestamp.IsZero() {
		return ""
	}
	var all []string
	for _, condition := range namespace.Status.Conditions {
		switch condition.Type {
		case corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure, corev1.NamespaceDeletionContentFailure,
			corev1.NamespaceFinalizersRemaining:
			if condition.Status == corev1.ConditionTrue {
				all = append(all, condition.Message)
			}
		}
	}
	return strings.Join(all, "; ")
}

// Reconcile makes the namespace of one cluster if there is none.
func (c *ExecutionSpaceController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.ManagedCluster{}
	if err := c.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading ManagedCluster %q: %w", req.Name, err)
	}
	if !cluster.DeletionTimestamp.IsZero() || !cluster.Spec.HubAcceptsClient {
		return ctrl.Result{}, nil
	}
	name := karmadaworkv1alpha1.NamespacePrefix + req.Name
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{})
	if err == nil {
		return ctrl.Result{}, nil // if it is being deleted, the cluster comes again when it is gone
	}
	if !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return ctrl.Result{}, c.createNamespace(ctx, cluster, name)
}

func (c *ExecutionSpaceController) createNamespace(ctx context.Context, cluster *clusterv1.ManagedCluster, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{labelSystem: "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "ManagedCluster", Name: cluster.Name, UID: cluster.UID, Controller: new(true),
		}},
	}}
	err := c.Client.Create(ctx, namespace)
	switch {
	case err == nil:
		c.recordClusterEvent(cluster.Name, cluster.UID, corev1.EventTypeNormal, announce.ReasonCreateExecutionSpaceSucceed, "Namespace "+name+" was created.")
		return nil
	case apierrors.IsAlreadyExists(err):
		return nil
	}
	c.recordClusterEvent(cluster.Name, cluster.UID, corev1.EventTypeWarning, announce.ReasonCreateExecutionSpaceFailed, err.Error())
	if apierrors.IsInvalid(err) { // the name of the cluster is too long for it
		return nil
	}
	return fmt.Errorf("creating namespace %q: %w", name, err)
}

// recordClusterEvent records an event about a cluster.
func (c *ExecutionSpaceController) recordClusterEvent(cluster string, uid types.UID, eventType, reason, note string) {
	c.Announce.RecordEvents(announce.Event{
		About: corev1.ObjectReference{
			APIVersion: karmadaclusterv1alpha1.GroupVersion.String(), Kind: "Cluster", Name: cluster, UID: karmadauid.ClusterUID(uid),
		},
		Type: eventType, Reason: reason, Note: note,
	})
}
