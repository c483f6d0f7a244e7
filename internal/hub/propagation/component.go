// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/events"
	"github.com/capstan-io/capstan/internal/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/rights"
	accountrights "github.com/capstan-io/capstan/internal/rights"
)

// The election of a leader among the replicas.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,resourceNames=propagation-controller-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hub,resources=pods,verbs=get

// What decides which objects are sent where.
//
// +kubebuilder:rbac:groups=policy.karmada.io,resources=propagationpolicies;clusterpropagationpolicies,verbs=get;list;watch

// What became of it.
//
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// ComponentName is the name of the component in events and metrics.
	ComponentName = "propagation-controller"
	// LockName is the Lease by which the replicas agree on which one works.
	LockName = "propagation-controller-lock"
)

// NewScheme returns the kinds that the controllers work with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		authorizationv1.AddToScheme(scheme), corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme), workv1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme))
}

// CacheOptions keeps no object's managed fields, and of clusters what the scheduler
// reads; of ClusterRoles, the one that it may see.
func CacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&clusterv1.ManagedCluster{}: {Transform: fleet.SlimCluster},
			&rbacv1.ClusterRole{}:       {Field: fields.OneTermEqualSelector("metadata.name", fleetv1alpha1.PropagationTemplatesRole)},
		},
	}
}

// Watched are kinds that a replica that leads has to have in its cache to be
// ready.
func Watched() []client.Object {
	return []client.Object{&policyv1alpha1.PropagationPolicy{}, &policyv1alpha1.ClusterPropagationPolicy{}}
}

// Options are what the controllers are set up with.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// Setup adds the controllers to the manager.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	held, err := accountrights.Review(ctx, mgr.GetClient())
	if err != nil {
		return err
	}
	recorder := events.Allowed(mgr.GetEventRecorder(ComponentName), held)
	return rights.New(mgr.GetClient(), mgr.GetRESTMapper(), recorder).SetupWithManager(mgr)
}
