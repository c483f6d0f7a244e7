// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces sends the namespaces of the hub to the clusters that get an
// object in them, or to all. A namespace that a cluster does not need any more
// stays there, as it may hold what is not ours; when that of the hub is deleted,
// those go that were made for it.
package namespaces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

const (
	// action is what events say that the controller was about.
	action               = "Propagate"
	reasonOverrideFailed = "ApplyOverridePolicyFailed"
	reasonWorkReverted   = "WorkReverted"
)

// TemplateReader reads the metadata of objects that are sent to clusters; nil of one that there is not, or that is not known yet.
type TemplateReader interface {
	Get(key templates.Key) (object *metav1.PartialObjectMetadata, known bool)
}

// NamespaceDeps are what the controller works with.
type NamespaceDeps struct {
	// Client reads namespaces, bindings, clusters and works from a cache, and Live
	// from the API server.
	Client client.Client
	Live   client.Reader
	Writer send.WorkWriter
	// Fleet has the clusters that exist.
	Fleet *fleet.Fleet
	// Templates have the objects of bindings.
	Templates TemplateReader
	// Allowance says when works are written: there is one of each namespace for each cluster that has joined.
	Allowance *allowance.Allowance
	Events    *events.Recorder
	Clock     clock.PassiveClock
	// Everywhere says that each namespace goes to each cluster, needed or not.
	Everywhere bool
}

const (
	// awaitAccepted is how soon to look again for a cluster that may not be sent
	// anything yet.
	awaitAccepted = 30 * time.Second
	// awaitCalm is how soon to look again at the earliest for a work that somebody changes back each time.
	awaitCalm = 15 * time.Second
)

// NamespaceController sends namespaces to clusters.
type NamespaceController struct {
	NamespaceDeps

	hearing  *fleet.ClusterThrottle
	unneeded *unneededNamespaces
}

// NewNamespaceController returns the controller.
func NewNamespaceController(d NamespaceDeps) *NamespaceController {
	return &NamespaceController{NamespaceDeps: d, hearing: fleet.NewClusterThrottle(d.Clock), unneeded: newUnneededNamespaces()}
}

// Reconcile sends one namespace to the clusters that are to have it.
func (c *NamespaceController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := c.Fleet.LoadClusters(ctx, c.Live); err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the clusters that namespace %q may go to: %w", req.Name, err)
	}
	works := &workv1.ManifestWorkList{}
	if err := c.Client.List(ctx, works, client.MatchingFields{IndexNamespace: req.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the works of namespace %q: %w", req.Name, err)
	}
	namespace := &corev1.Namespace{}
	err := c.Client.Get(ctx, req.NamespacedName, namespace)
	switch {
	case apierrors.IsNotFound(err):
		c.unneeded.forgetNamespace(req.Name)
		return ctrl.Result{}, c.deleteNamespaceWorks(ctx, req.Name, works.Items)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading namespace %q: %w", req.Name, err)
	case !namespace.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // it comes again when it is gone
	}
	targets, err := c.namespaceTargets(ctx, namespace, works.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted, problems, err := c.renderNamespaceWorks(ctx, namespace, targets)
	if err != nil {
		return ctrl.Result{}, err
	}
	changes, err := deliver.CompareWorks(wanted, works.Items, problems)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("comparing the works of namespace %q: %w", req.Name, err)
	}
	changes, again, err := c.admitChanges(ctx, targets, changes)
	if err != nil {
		return ctrl.Result{}, err
	}
	failed := c.Writer.WriteChanges(ctx, changes)
	c.reportFailedWrites(targets, failed)
	if targets.awaits || slices.ContainsFunc(slices.Collect(maps.Values(problems)), isNoCluster) {
		again = shorterWait(again, awaitAccepted)
	}
	return c.retryClusters(ctx, failed, again), send.JoinErrors(failed)
}

func isNoCluster(problem error) bool { return errors.Is(problem, deliver.ErrNoCluster) }

// retryClusters takes out what could not be written because of the cluster alone, which all others would wait for as long as it
// likes, and returns when to look at the namespace again; it is after some time anyway, or 0. A look for nothing but what clusters revert
// comes after all others.
func (c *NamespaceController) retryClusters(ctx context.Context, failed map[string]error, again time.Duration) (result ctrl.Result) {
	reverted := time.Duration(0)
	for cluster, err := range failed {
		wait, reverts := send.WaitForRestless(err)
		switch {
		case reverts:
			c.warnOfReverts(ctx, cluster)
			reverted = shorterWait(reverted, max(wait, awaitCalm))
		case errors.Is(err, send.ErrNoNamespace), send.WaitsForEarlier(err): // it has not been accepted, or its member keeps something
			again = shorterWait(again, awaitAccepted)
		default:
			continue
		}
		delete(failed, cluster)
	}
	if again == 0 && reverted > 0 {
		low := handler.LowPriority
		result.Priority = &low
	}
	result.RequeueAfter = shorterWait(again, reverted)
	return result
}

// warnOfReverts tells that somebody changes works of a cluster back each time. That is one Event, however many works there are, and
// whatever else the cluster says meanwhile: its agent decides about both, and would leave no room for other Events.
func (c *NamespaceController) warnOfReverts(ctx context.Context, cluster string) {
	is := &clusterv1.ManagedCluster{}
	if c.Client.Get(ctx, types.NamespacedName{Name: cluster}, is, client.UnsafeDisableDeepCopy) != nil {
		return // it is gone
	}
	of := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster, UID: is.UID}}
	c.Events.Eventf(of, nil, corev1.EventTypeWarning, reasonWorkReverted, action, "something keeps reverting what the hub writes to the ManifestWorks of namespaces "+
		"in cluster %q, so that they are written less and less often: find out whether it is the agent of the cluster, and revoke its access if so (capstan deny --revoke)", cluster)
}

// warnOfCluster tells why a cluster does not get a namespace as it is to be. The Event is related to the cluster, or client-go would count
// those of all clusters as one.
func (c *NamespaceController) warnOfCluster(namespace *corev1.Namespace, cluster string, problem error) {
	of := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	c.Events.Eventf(namespace, of, corev1.EventTypeWarning, reasonOverrideFailed, action, "cluster %q: %v", cluster, problem)
}

// renderNamespaceWorks returns the works that a namespace is to have, and why clusters get none.
func (c *NamespaceController) renderNamespaceWorks(
	ctx context.Context, namespace *corev1.Namespace, targets namespaceTargets,
) (works map[string]*workv1.ManifestWork, problems map[string]error, err error) {
	if len(targets.owners) == 0 {
		return nil, nil, nil
	}
	wide := &policyv1alpha1.ClusterOverridePolicyList{}
	if err := c.Client.List(ctx, wide, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the ClusterOverridePolicies: %w", err)
	}
	overrides, mistake := override.SelectPolicies(deliver.NamespaceTemplate(namespace), wide.Items, nil)
	look := view.IdentityFromCluster
	if len(overrides) > 0 {
		look = view.FromCluster
	}
	works = map[string]*workv1.ManifestWork{}
	problems = map[string]error{}
	for name := range targets.owners {
		named, err := c.fleetOfCluster(ctx, name, look)
		if err != nil {
			return nil, nil, err
		}
		work, problem, err := deliver.NamespaceWork(namespace, overrides, named, name)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case errors.Is(problem, deliver.ErrDeleting):
			continue
		case errors.Is(problem, deliver.ErrNoCluster):
			problems[name] = problem // the binding says so, and what is there stays
			continue
		}
		if problem = errors.Join(mistake, problem); problem != nil {
			problems[name] = problem
			c.warnOfCluster(namespace, name, problem)
			continue
		}
		works[name] = work
	}
	return works, problems, nil
}

// clusterLook is a look at a cluster: view.FromCluster, or view.IdentityFromCluster, which takes no longer where a
// cluster says much of itself and is enough to know whether the cluster is sent anything.
type clusterLook func(*clusterv1.ManagedCluster, *fleetv1alpha1.ClusterConnection) view.Cluster

// fleetOfCluster returns the cluster of a name alone; nothing if there is none.
func (c *NamespaceController) fleetOfCluster(ctx context.Context, name string, look clusterLook) (view.Fleet, error) {
	cluster := &clusterv1.ManagedCluster{}
	connection := &fleetv1alpha1.ClusterConnection{}
	for _, object := range []client.Object{cluster, connection} {
		if err := c.Client.Get(ctx, types.NamespacedName{Name: name}, object, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
			return view.Fleet{}, fmt.Errorf("reading %T %q: %w", object, name, err)
		}
	}
	is := look(cluster, connection)
	if is.Name == "" {
		return view.Fleet{}, nil
	}
	return view.NewFleet(is), nil
}

// isPropagated reports whether a namespace is sent to clusters at all. That of a cluster
// is not, nor that of the hub's own components, nor one that every cluster has.
func isPropagated(namespace *corev1.Namespace, clusters view.Fleet) bool {
	_, ofCluster := namespace.Labels[clusterv1.LabelClusterName]
	_, ofHub := namespace.Labels[operatorv1.LabelCreatedByClusterManager]
	return !ofCluster && !ofHub && namespace.Name != corev1.NamespaceDefault &&
		claims.ReservedNamespace(namespace.Name, clusters) == "" &&
		namespace.Labels[policyv1alpha1.LabelSkipAutoPropagation] != "true"
}
