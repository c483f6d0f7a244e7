// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work is what the hub does with ManifestWorks besides admission:
// deleting finished ones after their TTL. Each concern has a folder of its own;
// this package puts them into one manager.
package work

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/features"
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
	return scheme, workv1.AddToScheme(scheme)
}

// CacheOptions keeps of works what the controllers decide by, and no manifest.
func CacheOptions() cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{&workv1.ManifestWork{}: {Transform: ttl.Trim}}}
}

// Watched are kinds that a replica that leads has to have in its cache to be
// ready: none without a controller.
func Watched(gates features.Set) []client.Object {
	if !gates.Enabled(features.CleanUpCompletedManifestWork) {
		return nil
	}
	return []client.Object{&workv1.ManifestWork{}}
}

// Setup adds the controllers whose gates are on to the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if !o.Gates.Enabled(features.CleanUpCompletedManifestWork) {
		return nil
	}
	return ttl.New(mgr.GetClient(), o.Clock).SetupWithManager(mgr)
}
