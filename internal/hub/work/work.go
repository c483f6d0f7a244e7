// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work is what the hub does with ManifestWorks besides admission:
// deleting finished ones after their TTL, and keeping those of
// ManifestWorkReplicaSets. Each concern has a folder of its own; this package
// puts them into one manager.
package work

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/hub/work/replicaset"
	"github.com/capstan-io/capstan/internal/hub/work/ttl"
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

// Options are what an administrator chooses.
type Options struct {
	// Gates are the feature gates of features.HubWork.
	Gates features.Set
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// NewScheme returns the kinds that the controllers work with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), corev1.AddToScheme(scheme))
}

// CacheOptions keeps of works what the controllers decide by, and no manifest;
// of namespaces, those of clusters.
func CacheOptions() (cache.Options, error) {
	ofCluster, err := labels.NewRequirement(clusterv1.LabelClusterName, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting the namespaces of clusters: %w", err)
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1.ManifestWork{}: {Transform: trim},
			&corev1.Namespace{}:    {Label: labels.NewSelector().Add(*ofCluster)},
		},
	}, nil
}

// trim keeps of a work what the controller needs that it is for.
func trim(object any) (any, error) {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return object, nil
	}
	if part, ok := replicaset.Trim(work); ok {
		return part, nil
	}
	return ttl.Trim(work)
}

// Watched are kinds that a replica that leads has to have in its cache to be
// ready: none without a controller.
func Watched(gates features.Set) []client.Object {
	var kinds []client.Object
	if gates.Enabled(features.CleanUpCompletedManifestWork) || gates.Enabled(features.ManifestWorkReplicaSet) {
		kinds = append(kinds, &workv1.ManifestWork{})
	}
	if gates.Enabled(features.ManifestWorkReplicaSet) {
		kinds = append(kinds, &workv1alpha1.ManifestWorkReplicaSet{}, &clusterv1beta1.Placement{}, &clusterv1beta1.PlacementDecision{}, &corev1.Namespace{})
	}
	return kinds
}

// Setup adds the controllers whose gates are on to the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Gates.Enabled(features.CleanUpCompletedManifestWork) {
		if err := ttl.New(mgr.GetClient(), o.Clock).SetupWithManager(mgr); err != nil {
			return err
		}
	}
	if o.Gates.Enabled(features.ManifestWorkReplicaSet) {
		return replicaset.New(mgr.GetClient(), mgr.GetAPIReader(), o.Clock).SetupWithManager(mgr)
	}
	return nil
}
