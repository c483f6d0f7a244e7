// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/server/footprint"
	"github.com/capstan-io/capstan/internal/server/health"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/tracing"
)

// none is the address of controller-runtime's own servers when it is not to have them.
const none = "0"

// ManagerOptions say what a manager runs and where.
type ManagerOptions struct {
	// Component is the name in metrics and messages, such as "work-controller".
	Component string
	// Config is for the cluster that the component works on; Home for the one that
	// it runs on, which has its Lease and knows who may read its metrics. Home
	// defaults to Config.
	Config, Home *rest.Config
	Scheme       *runtime.Scheme
	Cache        cache.Options
	// Client are the options of the manager's client, such as which kinds it reads
	// past the cache.
	Client client.Options
	// Watched are kinds that the controllers cannot begin without: a leader is
	// ready when the cache has them. They have to be as the controllers watch
	// them, with the type of the kind or as metadata.
	Watched []client.Object
	// Ready are checks at /readyz besides that of the cache, by name.
	Ready map[string]healthz.Checker
	// Server has the ports of health and metrics and the TLS settings.
	Server options.ServerOptions
	// Lease in Namespace is the one by which the replicas agree on which of them
	// works, within the times of Election. All of them work if it is empty.
	Lease, Namespace string
	Election         options.LeaderElection
	// SelfConflicts returns the kinds whose conditions tell what the component writes
	// without end. That is slowed down in any case. None if nil.
	SelfConflicts func(ctrl.Manager) []selfconflict.ReportedKind
	// Tracer traces the works that the component writes, and watches; nil does not.
	Tracer *tracing.Tracer
}

// memoryReleaser keeps the memory of a process small, whether it leads or not.
type memoryReleaser struct{}

// Start implements manager.Runnable.
func (memoryReleaser) Start(ctx context.Context) error {
	footprint.ReleaseMemory(ctx, clock.RealClock{})
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (memoryReleaser) NeedLeaderElection() bool { return false }

// NewManager returns a manager to which controllers can be added.
func NewManager(o ManagerOptions) (ctrl.Manager, error) {
	home := cmp.Or(o.Home, o.Config)
	settings := ctrl.Options{
		Scheme: o.Scheme,
		Cache:  o.Cache,
		Client: o.Client,
		// Its own servers have no bounds for what clients take: see serve.
		Metrics:                metricsserver.Options{BindAddress: none},
		HealthProbeBindAddress: none,
	}
	if o.Tracer != nil {
		settings.NewClient = o.tracedClient
	}
	if o.Lease != "" {
		if err := setupElection(&settings, home, o); err != nil {
			return nil, err
		}
	}
	damper := selfconflict.NewDamper(selfconflict.Limits{}, clock.RealClock{})
	config, err := damper.DampWrites(o.Config)
	if err != nil {
		return nil, fmt.Errorf("setting up the manager of %s: %w", o.Component, err)
	}
	manager, err := ctrl.NewManager(config, settings)
	if err != nil {
		return nil, fmt.Errorf("setting up the manager of %s: %w", o.Component, err)
	}
	if err := metrics.RegisterBuildInfo(controllermetrics.Registry, o.Component); err != nil {
		return nil, err
	}
	if err := manager.Add(memoryReleaser{}); err != nil {
		return nil, fmt.Errorf("keeping the memory of %s small: %w", o.Component, err)
	}
	var told []selfconflict.ReportedKind
	if o.SelfConflicts != nil {
		told = o.SelfConflicts(manager)
	}
	if err := damper.SetupReporter(manager, controllermetrics.Registry, told...); err != nil {
		return nil, fmt.Errorf("setting up the manager of %s: %w", o.Component, err)
	}
	if err := o.traceArrivals(manager); err != nil {
		return nil, err
	}
	return manager, o.serveHealthAndMetrics(manager, home)
}

// serveHealthAndMetrics makes the manager serve health and metrics.
func (o ManagerOptions) serveHealthAndMetrics(manager ctrl.Manager, home *rest.Config) error {
	setTLS, err := o.Server.TLSConfigurer()
	if err != nil {
		return err
	}
	checks := health.Checks{
		Live:  map[string]healthz.Checker{"ping": healthz.Ping},
		Ready: map[string]healthz.Checker{"informer-sync": (&informerCheck{manager: manager, kinds: o.Watched}).checkSynced},
	}
	maps.Copy(checks.Ready, o.Ready)
	if err := checks.AddTo(manager, o.Server.HealthProbePort); err != nil {
		return err
	}
	if err := checks.ServeTLS(manager, o.Server.SecureHealthProbePort, setTLS); err != nil {
		return err
	}
	server, err := metrics.NewMetricsServer(o.Server.MetricsPort, setTLS, home)
	if err != nil || server == nil {
		return err
	}
	if err := manager.Add(server); err != nil {
		_ = server.Listener.Close() // nobody has been told of it
		return fmt.Errorf("adding the server of the metrics of %s: %w", o.Component, err)
	}
	return nil
}
