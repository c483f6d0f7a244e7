// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exposed sets all components up, without starting them, to find out which
// metrics they register.
package exposed

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/hub/propagation"
	"github.com/capstan-io/capstan/internal/hub/registration"
	hubwork "github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/operators/clustermanager"
	"github.com/capstan-io/capstan/operators/controlplane"
	"github.com/capstan-io/capstan/operators/klusterlet"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

// everyComponent is the component of what all register.
const everyComponent = "all"

// collection is where components are set up.
type collection struct {
	// hub is an API server with all definitions.
	hub *rest.Config
	all map[string]Metric
}

// CollectMetrics returns what the components register, by name. The hub is an API server that
// has the definitions of all kinds; nothing is written there.
func CollectMetrics(ctx context.Context, hub *rest.Config) (map[string]Metric, error) {
	c := collection{hub: hub, all: map[string]Metric{}}
	for _, setUp := range []func(context.Context) error{
		c.setUpWhatIsCommon, c.setUpRegistration, c.setUpPlacement, c.setUpPropagation, c.setUpWorks,
		c.setUpClusterManager, c.setUpKlusterlet, c.setUpControlPlane, c.setUpAgents,
	} {
		if err := setUp(ctx); err != nil {
			return nil, err
		}
	}
	return c.all, nil
}

// of returns the registry of a component.
func (c collection) of(component string) *recorder {
	return &recorder{Registry: prometheus.NewRegistry(), component: component, into: c.all}
}

// newManager returns a manager that serves nothing.
func (c collection) newManager(scheme *runtime.Scheme, cached cache.Options) (ctrl.Manager, error) {
	anyName := true
	mgr, err := ctrl.NewManager(c.hub, ctrl.Options{
		Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: controllerconfig.Controller{SkipNameValidation: &anyName},
	})
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	return mgr, nil
}

func (c collection) setUpWhatIsCommon(context.Context) error {
	if err := metrics.RegisterBuildInfo(c.of(everyComponent), everyComponent); err != nil {
		return err
	}
	for _, component := range []string{
		registration.ComponentName, placement.ComponentName, propagation.ComponentName, "work-controller", "cluster-manager", "klusterlet", "control-plane",
	} {
		if err := selfconflict.NewDamper(selfconflict.Limits{}, clock.RealClock{}).SetupReporter(nil, c.of(component)); err != nil {
			return err
		}
	}
	return nil
}

func (c collection) setUpRegistration(ctx context.Context) error {
	scheme, err := registration.NewRegistrationScheme()
	if err != nil {
		return err
	}
	cached, err := registration.NewRegistrationCacheOptions()
	if err != nil {
		return err
	}
	mgr, err := c.newManager(scheme, cached)
	if err != nil {
		return err
	}
	return registration.SetupRegistrationControllers(ctx, mgr, registration.SetupOptions{Mirror: true, Metrics: c.of(registration.ComponentName)})
}

func (c collection) setUpPlacement(ctx context.Context) error {
	scheme, err := placement.NewPlacementScheme()
	if err != nil {
		return err
	}
	mgr, err := c.newManager(scheme, placement.NewPlacementCacheOptions())
	if err != nil {
		return err
	}
	return placement.SetupPlacementController(ctx, mgr, placement.SetupOptions{Metrics: c.of(placement.ComponentName)})
}

func (c collection) setUpPropagation(ctx context.Context) error {
	gates, err := features.ParseFlags(features.HubPlacement, []string{"Propagation=true", "KarmadaEvents=true"})
	if err != nil {
		return err
	}
	scheme, err := propagation.NewPropagationScheme()
	if err != nil {
		return err
	}
	mgr, err := c.newManager(scheme, propagation.NewPropagationCacheOptions())
	if err != nil {
		return err
	}
	return propagation.SetupPropagationControllers(ctx, mgr, propagation.SetupOptions{Metrics: c.of(propagation.ComponentName), Gates: gates})
}

func (c collection) setUpWorks(ctx context.Context) error {
	gates, err := features.ParseFlags(features.HubWork, []string{"ManifestWorkReplicaSet=true"})
	if err != nil {
		return err
	}
	scheme, err := hubwork.NewWorkScheme()
	if err != nil {
		return err
	}
	mgr, err := c.newManager(scheme, hubwork.NewWorkCacheOptions())
	if err != nil {
		return err
	}
	return hubwork.SetupWorkControllers(ctx, mgr, hubwork.SetupOptions{Metrics: c.of(hubwork.ComponentName), Gates: gates})
}

func (c collection) setUpClusterManager(context.Context) error {
	options := clustermanager.OperatorOptions{Namespace: "default", ControlPlane: labels.Everything()}
	scheme, err := clustermanager.NewClusterManagerScheme()
	if err != nil {
		return err
	}
	cached, err := clustermanager.OperatorCacheOptions(options)
	if err != nil {
		return err
	}
	mgr, err := c.newManager(scheme, cached)
	if err != nil {
		return err
	}
	return clustermanager.NewClusterManagerController(clustermanager.ControllerDeps{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Events: events.NewRecorder(mgr.GetEventRecorder("gen")),
		Rules: config.Rules, Options: options, Metrics: c.of("cluster-manager"),
	}).SetupWithManager(mgr)
}

func (c collection) setUpKlusterlet(ctx context.Context) error {
	direct, err := client.New(c.hub, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	allowed, err := permissions.ReviewOperatorRole(ctx, direct)
	if err != nil {
		return err
	}
	scheme, err := klusterlet.NewKlusterletScheme()
	if err != nil {
		return err
	}
	cached, err := klusterlet.OperatorCacheOptions()
	if err != nil {
		return err
	}
	mgr, err := c.newManager(scheme, cached)
	if err != nil {
		return err
	}
	return klusterlet.SetupKlusterletOperator(mgr, klusterlet.OperatorSettings{Namespace: "default", Metrics: c.of("klusterlet")}, allowed, nil)
}

func (c collection) setUpControlPlane(context.Context) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	mgr, err := c.newManager(scheme, controlplane.OperatorCacheOptions())
	if err != nil {
		return err
	}
	return controlplane.SetupControlPlaneOperator(mgr, "default", c.of("control-plane"))
}

func (c collection) setUpAgents(context.Context) error {
	works, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	if err != nil {
		return err
	}
	pull, err := agent.NewPullAgent(agent.PullAgentOptions{Home: c.hub, Member: c.hub, Namespace: "default", Log: logr.Discard()})
	if err != nil {
		return err
	}
	pushed, err := push.NewAgent(push.AgentOptions{Hub: c.hub, Log: logr.Discard()})
	if err != nil {
		return err
	}
	for component, collectors := range map[string][]prometheus.Collector{
		"agent":              slices.Concat(pull.MetricCollectors(), works.MetricCollectors()),
		"registration-agent": pull.MetricCollectors(),
		"work-agent":         works.MetricCollectors(),
		"push-agent":         slices.Concat(pushed.MetricCollectors(), works.MetricCollectors()),
	} {
		if err := metrics.RegisterCollectors(c.of(component), collectors...); err != nil {
			return err
		}
	}
	return nil
}
