// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// The election of a leader among the replicas.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,resourceNames=placement-controller-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hub,resources=pods,verbs=get

const (
	// ComponentName is the name of the component in events and metrics.
	ComponentName = "placement-controller"
	// LockName is the Lease by which the replicas agree on which one works.
	LockName = "placement-controller-lock"
)

// NewPlacementScheme returns the kinds that the controller works with.
func NewPlacementScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		authorizationv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), clusterv1alpha1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme))
}

// NewPlacementCacheOptions keeps no object's managed fields, and of clusters and what their add-ons
// think of them what the scheduler and expressions read.
func NewPlacementCacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1beta1.Placement{}:            {Transform: slimPlacement},
			&clusterv1.ManagedCluster{}:            {Transform: fleet.SlimCluster},
			&clusterv1alpha1.AddOnPlacementScore{}: {Transform: fleet.SlimScores},
		},
	}
}

// slimPlacement leaves out managed fields, and what a Placement has more than it may have.
func slimPlacement(obj any) (any, error) {
	if p, ok := obj.(*clusterv1beta1.Placement); ok {
		p.ManagedFields = nil
		placement.BoundLists(&p.Spec)
	}
	return obj, nil
}

// WatchedPlacementKinds are kinds that a replica that leads has to have in its cache to be ready.
func WatchedPlacementKinds() []client.Object {
	return []client.Object{
		&clusterv1beta1.Placement{}, &clusterv1beta1.PlacementDecision{}, &clusterv1.ManagedCluster{},
		&clusterv1beta2.ManagedClusterSet{}, &clusterv1beta2.ManagedClusterSetBinding{}, &clusterv1alpha1.AddOnPlacementScore{},
	}
}

// SetupOptions are what the controller is set up with.
type SetupOptions struct {
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// SetupPlacementController adds the controller to the manager.
func SetupPlacementController(ctx context.Context, mgr ctrl.Manager, o SetupOptions) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	held, err := rights.ReviewRights(ctx, mgr.GetClient())
	if err != nil {
		return err
	}
	if err := IndexDecisions(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	dropped := events.NewDropCounter()
	recorder := events.NewAllowedRecorder(mgr.GetEventRecorder(ComponentName), held).WithLogger(mgr.GetLogger()).WithDropCounter(dropped)
	c := NewSchedulingController(mgr.GetClient(), o.Clock, recorder)
	if err := metrics.RegisterCollectors(o.Metrics, append(c.MetricCollectors(), dropped)...); err != nil {
		return err
	}
	return c.SetupWithManager(mgr)
}

// SelfConflicts says that Placements tell what is written without end of them and their
// decisions.
func SelfConflicts(mgr ctrl.Manager) []selfconflict.ReportedKind {
	of := func(ctx context.Context, written selfconflict.WrittenObject) ([]types.NamespacedName, error) {
		key := types.NamespacedName{Namespace: written.Namespace, Name: written.Name}
		switch written.Resource {
		case "placements":
			return []types.NamespacedName{key}, nil
		case "placementdecisions":
			decision := &clusterv1beta1.PlacementDecision{}
			if err := mgr.GetClient().Get(ctx, key, decision); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading PlacementDecision %q: %w", key, err)
			}
			return []types.NamespacedName{{Namespace: key.Namespace, Name: decision.Labels[clusterv1beta1.LabelPlacement]}}, nil
		}
		return nil, nil
	}
	return []selfconflict.ReportedKind{selfconflict.ReportOnKind(&clusterv1beta1.Placement{}, func(p *clusterv1beta1.Placement) []metav1.Condition { return p.Status.Conditions }, of)}
}
