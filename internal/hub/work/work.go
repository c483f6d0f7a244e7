// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work is what the hub does with ManifestWorks besides admission:
// deleting finished ones after their TTL, and keeping those of
// ManifestWorkReplicaSets. Each concern has a folder of its own; this package
// puts them into one manager.
package work

import (
	"cmp"
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/work/replicaset"
	"github.com/capstan-io/capstan/internal/hub/work/ttl"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance/counting"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// The election of a leader among the replicas.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,resourceNames=work-controller-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hub,resources=pods,verbs=get

const (
	// ComponentName is the name of the component in metrics.
	ComponentName = "work-controller"
	// LockName is the Lease by which the replicas agree on which one works.
	LockName = "work-controller-lock"
)

// SetupOptions are what an administrator chooses.
type SetupOptions struct {
	// Gates are the feature gates of features.HubWork.
	Gates features.GateSet
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
	// SharedWorkBytesMax is how many bytes the works of all namespaces have together that have no
	// limit of their own; 0 is allowance.DefaultShared.
	SharedWorkBytesMax int64
	// WorkWriters is how many programs write works of namespaces, this one included; 0 is 1.
	WorkWriters int64
}

// NewWorkScheme returns the kinds that the controllers work with.
func NewWorkScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme),
		authorizationv1.AddToScheme(scheme), corev1.AddToScheme(scheme), eventsv1.AddToScheme(scheme))
}

// NewWorkCacheOptions keeps of works what the controllers decide by, and no manifest; of
// namespaces and ManagedClusters, whether works may be made for the clusters, and how many bytes
// works may have.
func NewWorkCacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1.ManifestWork{}:                 {Transform: slimWork},
			&workv1alpha1.ManifestWorkReplicaSet{}: {Transform: slimReplicaSet},
			&corev1.Namespace{}:                    {Transform: slimNamespace},
			&clusterv1.ManagedCluster{}:            {Transform: slimCluster},
			&clusterv1beta1.Placement{}:            {Transform: slimPlacement},
		},
	}
}

// slimNamespace keeps of a namespace whose it is, and what its works may take up.
func slimNamespace(object any) (any, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	kept := &corev1.Namespace{ObjectMeta: identityMeta(namespace.ObjectMeta)}
	if of, labelled := namespace.Labels[clusterv1.LabelClusterName]; labelled {
		kept.Labels = map[string]string{clusterv1.LabelClusterName: of}
	}
	if limit, set := namespace.Annotations[fleetv1alpha1.AnnotationWorkBytesMax]; set {
		kept.Annotations = map[string]string{fleetv1alpha1.AnnotationWorkBytesMax: limit}
	}
	return kept, nil
}

// slimCluster keeps of a ManagedCluster whether somebody who may accept it has done so, or
// has registered it.
func slimCluster(object any) (any, error) {
	cluster, ok := object.(*clusterv1.ManagedCluster)
	if !ok {
		return object, nil
	}
	kept := &clusterv1.ManagedCluster{ObjectMeta: identityMeta(cluster.ObjectMeta)}
	kept.Spec.HubAcceptsClient = cluster.Spec.HubAcceptsClient
	if by, marked := cluster.Annotations[clusterv1.AnnotationRegisteredByAcceptor]; marked {
		kept.Annotations = map[string]string{clusterv1.AnnotationRegisteredByAcceptor: by}
	}
	if accepted := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted); accepted != nil {
		kept.Status.Conditions = []metav1.Condition{{Type: accepted.Type, Status: accepted.Status}}
	}
	return kept, nil
}

// slimPlacement keeps of a Placement that it is there, and its status: its decisions tell the rest.
func slimPlacement(object any) (any, error) {
	if placement, ok := object.(*clusterv1beta1.Placement); ok {
		placement.ManagedFields = nil
		placement.Spec = clusterv1beta1.PlacementSpec{}
	}
	return object, nil
}

// slimReplicaSet keeps no more of a replica set than it may have.
func slimReplicaSet(object any) (any, error) {
	if set, ok := object.(*workv1alpha1.ManifestWorkReplicaSet); ok {
		set.ManagedFields = nil
		set.Spec.PlacementRefs = rollout.CutReferences(set.Spec.PlacementRefs)
	}
	return object, nil
}

func identityMeta(of metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion, DeletionTimestamp: of.DeletionTimestamp}
}

// slimWork keeps of a work what the controller needs that it is for, and what it takes up.
func slimWork(object any) (any, error) {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return object, nil
	}
	if part, ok := replicaset.SlimWork(work); ok {
		return part, nil
	}
	return ttl.SlimExpiringWork(work)
}

// WatchedWorkKinds are kinds that a replica that leads has to have in its cache to be
// ready: none without a controller.
func WatchedWorkKinds(gates features.GateSet) []client.Object {
	var kinds []client.Object
	if gates.Enabled(features.CleanUpCompletedManifestWork) || gates.Enabled(features.ManifestWorkReplicaSet) {
		kinds = append(kinds, &workv1.ManifestWork{})
	}
	if gates.Enabled(features.ManifestWorkReplicaSet) {
		kinds = append(kinds, &workv1alpha1.ManifestWorkReplicaSet{}, &clusterv1beta1.Placement{}, &clusterv1beta1.PlacementDecision{}, &corev1.Namespace{}, &clusterv1.ManagedCluster{})
	}
	return kinds
}

// SetupWorkControllers adds the controllers whose gates are on to the manager.
func SetupWorkControllers(ctx context.Context, mgr ctrl.Manager, o SetupOptions) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Gates.Enabled(features.CleanUpCompletedManifestWork) {
		if err := ttl.NewWorkTTLController(mgr.GetClient(), o.Clock).SetupWithManager(mgr); err != nil {
			return err
		}
	}
	if o.Gates.Enabled(features.ManifestWorkReplicaSet) {
		return setUpReplicaSets(ctx, mgr, o)
	}
	return nil
}

// setUpReplicaSets adds the controller of replica sets to the manager.
func setUpReplicaSets(ctx context.Context, mgr ctrl.Manager, o SetupOptions) error {
	held, err := rights.ReviewRights(ctx, mgr.GetClient())
	if err != nil {
		return err
	}
	allowed := allowance.NewAllowance(o.Clock, cmp.Or(o.SharedWorkBytesMax, allowance.DefaultShared), cmp.Or(o.WorkWriters, 1))
	counted, err := counting.WatchAllowance(ctx, mgr.GetCache(), allowed)
	if err != nil {
		return err
	}
	dropped := events.NewDropCounter()
	controller := replicaset.NewWorkReplicaSetController(replicaset.WorkReplicaSetDeps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Allowance: allowed, Counted: counted,
		Events: events.NewAllowedRecorder(mgr.GetEventRecorder(ComponentName), held).WithLogger(mgr.GetLogger()).WithDropCounter(dropped),
	})
	return errors.Join(
		metrics.RegisterCollectors(o.Metrics, counting.HeldBackCollector(allowed, "capstan_work_limited_namespaces", "ManifestWorkReplicaSets"), dropped),
		controller.SetupWithManager(ctx, mgr))
}
