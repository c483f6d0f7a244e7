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
	"github.com/capstan-io/capstan/internal/conditions"
)

// The webhooks of works exempt this component from what its user was asked for
// already, as the author of the template.
//
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworkreplicasets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworkreplicasets/status,verbs=patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements;placementdecisions,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Controller keeps the works of replica sets.
type Controller struct {
	client client.Client
	// live reads from the API server what the cache may not have yet.
	live  client.Reader
	clock clock.PassiveClock
	seen  seen
}

// New returns the controller. The client may read from a cache that Trim has
// been through and that has the indexes of Index.
func New(c client.Client, live client.Reader, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, live: live, clock: clk}
}

// Name is the name of the controller in logs and metrics.
func (c *Controller) Name() string { return "manifestworkreplicaset" }

// Reconcile brings the works of one replica set on, and reports how far they are.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	if err := c.client.Get(ctx, req.NamespacedName, set); err != nil {
		c.seen.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, c.cleanUp(ctx, set)
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
	p, all := planOf(f), true
	c.seen.keep(req.NamespacedName, f, p)
	paused := isPaused(set)
	var failed error
	if !paused {
		c.seen.giveTurns(req.NamespacedName, p.Writes)
		all, failed = c.apply(ctx, set, p)
	}
	if err := c.report(ctx, set, statusOf(f, p, paused, errors.Join(f.blocked(), failed))); err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case failed != nil:
		return ctrl.Result{}, failed
	case !all:
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	case paused:
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: p.again(f)}, nil
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
	if err := c.client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adding the finalizer of ManifestWorkReplicaSet %q: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}

// look reads what the plan is made of.
func (c *Controller) look(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (facts, error) {
	f := facts{
		Template: hashOf(&set.Spec.ManifestWorkTemplate), Health: cut(set.Annotations[workv1.AnnotationReportHealth], annotationMax),
		Now: c.clock.Now(), Joined: map[string]bool{},
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
	namespaces := &corev1.NamespaceList{}
	if err := c.client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return facts{}, fmt.Errorf("listing the namespaces of clusters: %w", err)
	}
	for i := range namespaces.Items {
		n := &namespaces.Items[i]
		f.Joined[n.Name] = n.DeletionTimestamp.IsZero() && n.Labels[clusterv1.LabelClusterName] == n.Name
	}
	f.Strangers, err = c.strangers(ctx, set, f)
	return f, err
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
				if err := c.client.Get(ctx, key, work, client.UnsafeDisableDeepCopy); err == nil {
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
		after.Status.Summary, after.Status.PlacementsSummary = s.Summary, s.Placements
	}
	for _, condition := range s.Conditions {
		conditions.Set(&after.Status.Conditions, set.Generation, condition)
	}
	return client.IgnoreNotFound(conditions.PatchStatus(ctx, c.client, set, after))
}
