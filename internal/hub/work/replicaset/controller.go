// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// The webhooks of works exempt this component from what its user was asked for
// already, as the author of the template.
//
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworkreplicasets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworkreplicasets/status,verbs=patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements;placementdecisions;managedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Deps are what the controller works with.
type Deps struct {
	// Client may read from a cache that Trim has been through and that has the indexes of Index.
	// Live reads from the API server what the cache may not have yet.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Allowance says what the works of a namespace may take up, and Counted tells whether it knows
	// what they do.
	Allowance *allowance.Allowance
	Counted   func() bool
	Events    *events.Recorder
}

// countedAgain is how soon to look again whether all works are counted.
const countedAgain = 100 * time.Millisecond

// Controller keeps the works of replica sets.
type Controller struct {
	Deps

	seen seen
}

// New returns the controller.
func New(d Deps) *Controller { return &Controller{Deps: d} }

// Name is the name of the controller in logs and metrics.
func (c *Controller) Name() string { return "manifestworkreplicaset" }

// Reconcile brings the works of one replica set on, and reports how far they are.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := c.Client.Get(ctx, req.NamespacedName, set); err != nil {
		c.seen.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !c.Counted() {
		return ctrl.Result{RequeueAfter: countedAgain}, nil
	}
	if !set.DeletionTimestamp.IsZero() {
		again, err := c.cleanUp(ctx, set)
		return ctrl.Result{RequeueAfter: again}, err
	}
	if problems := validation.IsValidLabelValue(ownerOf(req.NamespacedName)); len(problems) > 0 {
		return ctrl.Result{}, c.report(ctx, set, invalidName(req.NamespacedName, problems))
	}
	if err := c.claim(ctx, set); err != nil {
		return ctrl.Result{}, err
	}
	f, err := c.look(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := planOf(f)
	c.seen.keep(req.NamespacedName, f, p)
	if isPaused(set) {
		return ctrl.Result{}, c.report(ctx, set, statusOf(f, p, outcome{Paused: true, Failed: f.blocked()}))
	}
	now, all := passOf(p)
	now, held, err := c.limit(ctx, set, now, f.Bytes)
	if err != nil {
		return ctrl.Result{}, err
	}
	c.seen.giveTurns(req.NamespacedName, now.Writes)
	failed := c.apply(ctx, set, now)
	if err := c.report(ctx, set, statusOf(f, p, outcome{Failed: errors.Join(f.blocked(), failed), Held: held})); err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case failed != nil:
		return ctrl.Result{}, failed
	case held.Any():
		return ctrl.Result{RequeueAfter: sooner(held.Again, p.again(f))}, nil
	case !all:
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return ctrl.Result{RequeueAfter: p.again(f)}, nil
}

// sooner returns the shorter of two waits; 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func isPaused(set *workv1alpha1.ManifestWorkReplicaSet) bool {
	paused, err := strconv.ParseBool(set.Annotations[fleetv1alpha1.AnnotationPaused])
	return err == nil && paused
}

// claim puts our finalizer onto a replica set, before it gets its first work.
func (c *Controller) claim(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) error {
	before := set.DeepCopy()
	if !controllerutil.AddFinalizer(set, workv1alpha1.FinalizerManifestWorkCleanup) {
		return nil
	}
	if err := c.Client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adding the finalizer of ManifestWorkReplicaSet %q: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}

// look reads what the plan is made of.
func (c *Controller) look(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (facts, error) {
	f := facts{
		Template: hashOf(&set.Spec.ManifestWorkTemplate), Health: cut(set.Annotations[workv1.AnnotationReportHealth], annotationMax),
		Bytes:     allowance.Bytes(newWork(set, "", "")), // which is the same for all
		Namespace: set.Namespace, Now: c.Clock.Now(), Joined: map[string]bool{}, Foreign: map[string]bool{},
	}
	key := client.ObjectKeyFromObject(set)
	f.Seen, f.Turns = c.seen.with(key, f.Template), c.seen.turns(key, f.Template)
	var err error
	if f.Choices, err = c.choices(ctx, set); err != nil {
		return facts{}, err
	}
	if f.Works, err = c.works(ctx, key); err != nil {
		return facts{}, err
	}
	if err = c.lookAtNamespaces(ctx, &f); err != nil {
		return facts{}, err
	}
	f.Strangers, err = c.strangers(ctx, set, f)
	return f, err
}

// lookAtNamespaces finds out which chosen clusters have a namespace for works.
func (c *Controller) lookAtNamespaces(ctx context.Context, f *facts) error {
	for _, chosen := range f.Choices {
		for _, group := range chosen.Groups {
			for _, name := range group.Clusters {
				namespace := &corev1.Namespace{}
				cluster := &clusterv1.ManagedCluster{}
				if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
					continue
				} else if err != nil {
					return fmt.Errorf("reading Namespace %q: %w", name, err)
				}
				if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("reading ManagedCluster %q: %w", name, err)
				}
				f.Joined[name] = isForWorks(namespace, cluster)
				f.Foreign[name] = !f.Joined[name]
			}
		}
	}
	return nil
}

// isForWorks tells whether a namespace is that of the cluster of the same name, which is
// empty if there is none. The label says so, which the hub sets. Without it the namespace
// may be that of a tenant, and the name of the cluster the choice of somebody who has a
// bootstrap token: then somebody has to vouch for the cluster who may accept it.
func isForWorks(namespace *corev1.Namespace, cluster *clusterv1.ManagedCluster) bool {
	if !namespace.DeletionTimestamp.IsZero() {
		return false
	}
	return namespace.Labels[clusterv1.LabelClusterName] == namespace.Name || cluster.Spec.HubAcceptsClient ||
		meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) != nil ||
		cluster.Annotations[clusterv1.AnnotationRegisteredByAcceptor] == "true"
}

// strangers finds the works of others that have the name of ours.
func (c *Controller) strangers(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, f facts) (map[string]types.NamespacedName, error) {
	found := map[string]types.NamespacedName{}
	name := workName(client.ObjectKeyFromObject(set))
	for _, chosen := range f.Choices {
		for _, group := range chosen.Groups {
			for _, cluster := range group.Clusters {
				if !f.Joined[cluster] || f.work(cluster) != nil {
					continue
				}
				key := types.NamespacedName{Namespace: cluster, Name: name}
				work := &workv1.ManifestWork{}
				if err := c.Client.Get(ctx, key, work, client.UnsafeDisableDeepCopy); err == nil {
					found[cluster] = key
				} else if !apierrors.IsNotFound(err) {
					return nil, fmt.Errorf("reading ManifestWork %q: %w", key, err)
				}
			}
		}
	}
	return found, nil
}

// report writes the status.
func (c *Controller) report(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, s status) error {
	after := set.DeepCopy()
	if s.Placements != nil {
		after.Status.Summary = s.Summary
		after.Status.PlacementsSummary = s.Placements
	}
	for _, condition := range s.Conditions {
		conditions.Set(&after.Status.Conditions, set.Generation, condition)
	}
	if err := conditions.PatchStatus(ctx, c.Client, set, after); err != nil {
		return client.IgnoreNotFound(err)
	}
	was := meta.FindStatusCondition(set.Status.Conditions, workv1alpha1.ConditionManifestworkApplied)
	is := meta.FindStatusCondition(after.Status.Conditions, workv1alpha1.ConditionManifestworkApplied)
	if s.Lasts && (was == nil || was.Reason != is.Reason) {
		c.Events.Eventf(set, nil, corev1.EventTypeWarning, is.Reason, "WriteWorks", "%s", is.Message)
	}
	return nil
}
