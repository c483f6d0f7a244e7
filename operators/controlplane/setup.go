// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// workers is how many ControlPlanes are worked on at the same time, so that an
// API server that does not respond holds up its own ControlPlane only.
const workers = 4

// SetupControlPlaneOperator adds the operator, which runs in the namespace, to the manager, and its
// metrics to the registry; a nil registry takes none.
func SetupControlPlaneOperator(mgr ctrl.Manager, namespace string, registry prometheus.Registerer) error {
	if err := metrics.RegisterCollectors(registry, newCollectors(mgr.GetClient())...); err != nil {
		return err
	}
	c := NewControlPlaneController(ControllerDeps{
		Serves: probeServedCertificate,
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Events: events.NewRecorder(mgr.GetEventRecorder(FieldOwner)).WithLogger(mgr.GetLogger()), Namespace: namespace,
		Connect: func(config *rest.Config) (client.Client, error) {
			return client.New(config, client.Options{Scheme: mgr.GetScheme()})
		},
	})
	return c.SetupWithManager(mgr)
}

// newCollectors returns the metrics of the ControlPlanes in the cache.
func newCollectors(reader client.Reader) []prometheus.Collector {
	newList := func() *fleetv1alpha1.ControlPlaneList { return &fleetv1alpha1.ControlPlaneList{} }
	conditions := install.ListConditions(reader, newList, func(list *fleetv1alpha1.ControlPlaneList) (all [][]metav1.Condition) {
		for i := range list.Items {
			all = append(all, list.Items[i].Status.Conditions)
		}
		return all
	})
	expiries := metrics.NewExpiriesOf(func(ctx context.Context, see func(string, time.Time)) error {
		list := newList()
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing ControlPlanes: %w", err)
		}
		for i := range list.Items {
			for _, certificate := range list.Items[i].Status.Certificates {
				purpose := "control-plane"
				if certificate.Authority {
					purpose = "control-plane-ca"
				}
				see(purpose, certificate.Expires.Time)
			}
		}
		return nil
	})
	return []prometheus.Collector{install.ConditionMetric("ControlPlane", conditions), expiries}
}

// probeServedCertificate finds out whether the server at the address has a certificate for the
// host, of one of the authorities.
func probeServedCertificate(ctx context.Context, address, host string, authorities []byte) error {
	pool, err := certs.NewPool(authorities)
	if err != nil {
		return fmt.Errorf("what the certificate of %s is verified with %w", host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connecting to %s as %s: %w", address, host, err)
	}
	// Nothing was sent, so there is nothing to lose.
	_ = connection.Close()
	return nil
}

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).Named("controlplane").
		For(&fleetv1alpha1.ControlPlane{}, builder.WithPredicates(changed)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting up the controller of ControlPlanes: %w", err)
	}
	return nil
}

// OperatorWatchedKinds are kinds that a replica that leads has to have in its cache to be ready.
func OperatorWatchedKinds() []client.Object { return []client.Object{&fleetv1alpha1.ControlPlane{}} }

// OperatorCacheOptions are those of the operator's cache.
func OperatorCacheOptions() cache.Options {
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
}

// What the operator may do everywhere: its own kind, and what tells where etcd
// stores and how clients reach a Service of type NodePort. What it may do in the
// namespaces of ControlPlanes stands in package manifests.
//
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=controlplanes,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=controlplanes/status,verbs=update;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// The fence of the operator, which it may make but not move.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=capstan-fence-control-plane-v1,verbs=get

// fencePhase makes sure that the operator is fenced in before it does anything.
type fencePhase struct {
	keeper   *fence.PolicyInstaller
	operator fence.FencedOperator
}

// ensureFence tells if the operator is not fenced in. It works all the same: who has no
// right to fence it in still wants a control plane.
func (f fencePhase) ensureFence(ctx context.Context, p *controlPlanePass) error {
	p.setCondition(f.keeper.EnsureFence(ctx, f.operator).UnfencedCondition())
	return nil
}
