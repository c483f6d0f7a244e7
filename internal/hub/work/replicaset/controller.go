// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"cmp"
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
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
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

// WorkReplicaSetDeps are what the controller works with.
type WorkReplicaSetDeps struct {
	// Client may read from a cache that SlimWork has been through and that has the indexes of IndexReplicaSets.
	// Live reads from the API server what the cache may not have yet.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Allowance says what the works of a namespace may take up, and Counted reports whether it knows
	// what they do.
	Allowance *allowance.Allowance
	Counted   func() bool
	Events    *events.Recorder
}

// countedAgain is how soon to look again whether all works are counted.
const countedAgain = 100 * time.Millisecond

// WorkReplicaSetController keeps the works of replica sets.
type WorkReplicaSetController struct {
	WorkReplicaSetDeps

	seen seenStates
}

// NewWorkReplicaSetController returns the controller.
func NewWorkReplicaSetController(d WorkReplicaSetDeps) *WorkReplicaSetController {
	return &WorkReplicaSetController{WorkReplicaSetDeps: d}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *WorkReplicaSetController) ControllerName() string { return "manifestworkreplicaset" }

// Reconcile brings the works of one replica set on, and reports how far they are.
func (c *WorkReplicaSetController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := c.Client.Get(ctx, req.NamespacedName, set); err != nil {
		c.seen.forgetReplicaSet(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !c.Counted() {
		return ctrl.Result{RequeueAfter: countedAgain}, nil
	}
	if !set.DeletionTimestamp.IsZero() {
		again, err := c.cleanUp(ctx, set)
		return ctrl.Result{RequeueAfter: again}, err
	}
	if invalid, is := invalidStatus(set); is {
		return ctrl.Result{}, c.writeReplicaSetStatus(ctx, set, invalid)
	}
	if err := c.addFinalizer(ctx, set); err != nil {
		return ctrl.Result{}, err
	}
	f, err := c.gatherFacts(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := planWrites(f)
	c.seen.keepStates(req.NamespacedName, f, p)
	if isPaused(set) {
		return ctrl.Result{}, c.writeReplicaSetStatus(ctx, set, summarizeStatus(f, p, planOutcome{Paused: true, Failed: f.blockedError()}))
	}
	now, all := limitToPass(p)
	now, held, err := c.limitPlan(ctx, set, now, f.Bytes)
	if err != nil {
		return ctrl.Result{}, err
	}
	c.seen.giveTurns(req.NamespacedName, now.Writes)
	failed := c.applyPlan(ctx, set, now)
	told := c.writeReplicaSetStatus(ctx, set, summarizeStatus(f, p, planOutcome{Failed: errors.Join(f.blockedError(), failed), Held: held}))
	again := p.requeueAfter(f)
	if held.AnyHeld() {
		again = shorterWait(held.Again, again)
	} else if !all {
		again = time.Millisecond
	}
	if later, waits := conflict.RetryAfter(told); waits { // it holds up no works
		told, again = nil, shorterWait(later, again)
	}
	if err := cmp.Or(told, failed); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// invalidStatus returns the status of a replica set with a mistake for which nothing is done about it.
func invalidStatus(set *workv1alpha1.ManifestWorkReplicaSet) (replicaSetStatus, bool) {
	key := client.ObjectKeyFromObject(set)
	if problems := validation.IsValidLabelValue(ownerLabel(key)); len(problems) > 0 {
		return invalidNameStatus(key, problems), true
	}
	if problems := rollout.CheckReferences(set.Spec.PlacementRefs); len(problems) > 0 {
		return tooManyStatus(problems), true
	}
	return replicaSetStatus{}, false
}

// shorterWait returns the shorter of two waits; 0 is none.
func shorterWait(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func isPaused(set *workv1alpha1.ManifestWorkReplicaSet) bool {
	paused, err := strconv.ParseBool(set.Annotations[fleetv1alpha1.AnnotationPaused])
	return err == nil && paused
}

// addFinalizer puts our finalizer onto a replica set, before it gets its first work.
func (c *WorkReplicaSetController) addFinalizer(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) error {
	before := set.DeepCopy()
	if !controllerutil.AddFinalizer(set, workv1alpha1.FinalizerManifestWorkCleanup) {
		return nil
	}
	if err := c.Client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adding the finalizer of ManifestWorkReplicaSet %q: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}

// gatherFacts reads what the plan is made of.
func (c *WorkReplicaSetController) gatherFacts(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (planFacts, error) {
	f := planFacts{
		Template:  workSpecHash(&set.Spec.ManifestWorkTemplate),
		Bytes:     allowance.WorkBytes(newWork(set, "", "")), // which is the same for all
		Namespace: set.Namespace, Now: c.Clock.Now(), Joined: map[string]bool{}, Foreign: map[string]bool{},
	}
	f.Health, _ = copiedHealth(set)
	key := client.ObjectKeyFromObject(set)
	f.Seen, f.Turns = c.seen.statesWithTemplate(key, f.Template), c.seen.turnsWithTemplate(key, f.Template)
	var err error
	if f.Choices, err = c.readChoices(ctx, set); err != nil {
		return planFacts{}, err
	}
	if f.Works, err = c.worksByCluster(ctx, key); err != nil {
		return planFacts{}, err
	}
	if err = c.lookAtNamespaces(ctx, &f); err != nil {
		return planFacts{}, err
	}
	f.Strangers, err = c.strangers(ctx, set, f)
	return f, err
}

// lookAtNamespaces finds out which chosen clusters have a namespace for works.
func (c *WorkReplicaSetController) lookAtNamespaces(ctx context.Context, f *planFacts) error {
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

// isForWorks reports whether a namespace is that of the cluster of the same name, which is
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
func (c *WorkReplicaSetController) strangers(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, f planFacts) (map[string]types.NamespacedName, error) {
	found := map[string]types.NamespacedName{}
	name := workName(client.ObjectKeyFromObject(set))
	for _, chosen := range f.Choices {
		for _, group := range chosen.Groups {
			for _, cluster := range group.Clusters {
				if !f.Joined[cluster] || f.firstWork(cluster) != nil {
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

// writeReplicaSetStatus writes the status.
func (c *WorkReplicaSetController) writeReplicaSetStatus(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, s replicaSetStatus) error {
	after := set.DeepCopy()
	if s.Placements != nil {
		after.Status.Summary = s.Summary
		after.Status.PlacementsSummary = s.Placements
	}
	for _, condition := range s.Conditions {
		conditions.SetCondition(&after.Status.Conditions, set.Generation, condition)
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
