// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package abandoned

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/rights"
)

const fieldOwner = "registration-controller"

// OrphanedWorkController removes the finalizer of the agent from works that are being deleted, if the
// cluster never had an agent.
type OrphanedWorkController struct {
	client client.Client
	// live reads from the API server what the cache may not have yet.
	live client.Reader
	// connections is false if the hub may not read ClusterConnections, and so has no Push
	// clusters.
	connections bool
}

// NewOrphanedWorkController returns the controller. The rights are those of the hub: see RequiredRights.
func NewOrphanedWorkController(c client.Client, live client.Reader, held rights.Rights) *OrphanedWorkController {
	return &OrphanedWorkController{client: c, live: live, connections: held.AllowsRules(rbacv1.PolicyRule{
		APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"}, Verbs: []string{"get", "list", "watch"},
	})}
}

// RequiredRights returns the rights without which the controller can do nothing. A hub whose
// operator may not grant them leaves all works to agents.
func RequiredRights() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{manifestWorkKind().Group}, Resources: []string{"manifestworks"}, Verbs: []string{"get", "list", "watch", "patch"},
	}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *OrphanedWorkController) ControllerName() string { return "manifestwork.abandoned" }

// SetupWithManager adds the controller to the manager.
func (c *OrphanedWorkController) SetupWithManager(mgr ctrl.Manager) error {
	works := &metav1.PartialObjectMetadata{}
	works.SetGroupVersionKind(manifestWorkKind())
	deleted := predicate.NewPredicateFuncs(func(work client.Object) bool { return !work.GetDeletionTimestamp().IsZero() })
	gone := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		// A watch that was interrupted reports another object of the name as an update.
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
	}
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(works, builder.OnlyMetadata, builder.WithPredicates(deleted)).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.worksOfCluster), builder.WithPredicates(gone)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(c.worksOfRoleBinding), builder.WithPredicates(gone)).
		Complete(conflict.RequeueConflicts(c))
}

func manifestWorkKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"}
}

// worksOfCluster returns the works of a ManagedCluster that is gone.
func (c *OrphanedWorkController) worksOfCluster(ctx context.Context, mc client.Object) []reconcile.Request {
	return c.deletedWorksIn(ctx, mc.GetName())
}

// worksOfRoleBinding returns the works of a cluster whose agents have lost their rights to them.
func (c *OrphanedWorkController) worksOfRoleBinding(ctx context.Context, binding client.Object) []reconcile.Request {
	if binding.GetName() != grants.WorkRoleBindingName(binding.GetNamespace()) {
		return nil
	}
	return c.deletedWorksIn(ctx, binding.GetNamespace())
}

func (c *OrphanedWorkController) deletedWorksIn(ctx context.Context, namespace string) []reconcile.Request {
	works := &metav1.PartialObjectMetadataList{}
	works.SetGroupVersionKind(manifestWorkKind().GroupVersion().WithKind("ManifestWorkList"))
	if err := c.client.List(ctx, works, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	var requests []reconcile.Request
	for i := range works.Items {
		if !works.Items[i].DeletionTimestamp.IsZero() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&works.Items[i])})
		}
	}
	return requests
}

// Reconcile removes the finalizer of the agent from a work that no agent can have applied.
// Signs of an agent count wherever they are, so the cache is enough for the works of
// clusters that have one; that there are none has to be true at the API server.
func (c *OrphanedWorkController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	known, err := c.gather(ctx, c.client, req.Namespace)
	if err != nil || known.agentMayHaveApplied() {
		return ctrl.Result{}, err
	}
	work := &unstructured.Unstructured{}
	work.SetGroupVersionKind(manifestWorkKind())
	if found, err := readObject(ctx, c.live, req.NamespacedName, work); err != nil || !found {
		return ctrl.Result{}, err
	}
	before := work.DeepCopy()
	if work.GetDeletionTimestamp().IsZero() || !controllerutil.RemoveFinalizer(work, clusterv1.FinalizerManifestWorkCleanup) {
		return ctrl.Result{}, nil
	}
	if known, err = c.gather(ctx, c.live, req.Namespace); err != nil {
		return ctrl.Result{}, err
	}
	status, _, _ := unstructured.NestedMap(work.Object, "status")
	if known.Reported = len(status) > 0; known.agentMayHaveApplied() {
		return ctrl.Result{}, nil
	}
	// What an agent reports in the meantime makes the write a conflict.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, work, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing the finalizer of the agent from ManifestWork %q, whose cluster never had one: %w", req.NamespacedName, err)
	}
	log.FromContext(ctx).Info("A deleted ManifestWork was released: no agent can have applied it", "cluster", req.Namespace, "work", req.Name)
	return ctrl.Result{}, nil
}

// gather reads what the hub knows about the agents of a cluster.
func (c *OrphanedWorkController) gather(ctx context.Context, reader client.Reader, name string) (evidence, error) {
	cluster := &clusterv1.ManagedCluster{}
	connection := &fleetv1alpha1.ClusterConnection{}
	binding := grants.WorkRoleBinding(name)
	var known evidence
	found, err := readObject(ctx, reader, client.ObjectKey{Name: name}, cluster)
	if found {
		known.Cluster = cluster
	}
	if err == nil && c.connections {
		if found, err = readObject(ctx, reader, client.ObjectKey{Name: name}, connection); found {
			known.Connection = connection
		}
	}
	if err == nil {
		if found, err = readObject(ctx, reader, client.ObjectKeyFromObject(binding), binding); found {
			known.Binding = binding
		}
	}
	return known, err
}

// readObject reads an object and reports whether there is one.
func readObject(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object) (bool, error) {
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %q: %w", object, key.String(), err)
	}
	return true, nil
}
