// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
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
	"sigs.k8s.io/controller-runtime/pkg/envtest"
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

// metricsPage has a table of all metrics of Capstan's own. CAPSTAN_UPDATE_METRICS=1
// writes it.
const (
	metricsPage  = "../../docs/reference/metrics.md"
	metricsBegin = "<!-- metrics: written by make generate-metrics -->\n"
	metricsEnd   = "<!-- end of metrics -->"
)

// everyComponent is the component of what all register.
const everyComponent = "all"

func TestThePageOfMetricsHasWhatComponentsRegister(t *testing.T) {
	exposed := exposedMetrics(t)
	var table strings.Builder
	table.WriteString("| name | type | labels | component | meaning |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(exposed)) {
		m := exposed[name]
		components := slices.Compact(slices.Sorted(slices.Values(m.components)))
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", name, m.kind, strings.Join(m.labels, ", "), strings.Join(components, ", "), m.help)
		checkMetric(t, name, m)
	}
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), metricsBegin)
	present, after, ended := strings.Cut(rest, metricsEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", metricsPage)
	}
	if os.Getenv("CAPSTAN_UPDATE_METRICS") != "" {
		if err := os.WriteFile(metricsPage, []byte(before+metricsBegin+table.String()+metricsEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(present, table.String()); diff != "" {
		t.Errorf("%s is not as the components are; run make generate-metrics (-page +components):\n%s", metricsPage, diff)
	}
}

// checkMetric compares a metric with the conventions of Prometheus.
func checkMetric(t *testing.T, name string, m exposedMetric) {
	t.Helper()
	if m.help == "" || strings.Contains(m.help, "|") {
		t.Errorf("%s: its help is %q, which is no cell of a table", name, m.help)
	}
	if (m.kind == "counter") != strings.HasSuffix(name, "_total") {
		t.Errorf("%s is a %s: counters, and they alone, end with _total", name, m.kind)
	}
	for _, label := range m.labels {
		if slices.Contains([]string{"namespace", "pod", "container", "job", "instance"}, label) {
			t.Errorf("%s has the label %q, which those who scrape it set", name, label)
		}
	}
}

// exposedMetric is what a reader sees of a metric.
type exposedMetric struct {
	kind       string
	help       string
	labels     []string
	components []string
}

// recorder is a registry that notes what is registered.
type recorder struct {
	*prometheus.Registry
	t         *testing.T
	component string
	into      map[string]exposedMetric
}

func (r *recorder) Register(c prometheus.Collector) error {
	r.t.Helper()
	described := make(chan *prometheus.Desc, 64)
	c.Describe(described)
	close(described)
	for desc := range described {
		name, help, labels := parse(r.t, desc)
		m := r.into[name]
		if kind := kindOf(r.t, c); m.kind != "" && (m.kind != kind || m.help != help) {
			r.t.Errorf("%s of %s is another metric than that of %v", name, r.component, m.components)
		} else {
			m.kind = kind
		}
		m.help, m.labels, m.components = help, labels, append(m.components, r.component)
		r.into[name] = m
	}
	return r.Registry.Register(c) //nolint:wrapcheck // it is that registry
}

// parse reads a description, which tells nothing but by its text.
func parse(t *testing.T, desc *prometheus.Desc) (name, help string, labels []string) {
	t.Helper()
	parts := regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`).FindStringSubmatch(desc.String())
	if parts == nil {
		t.Fatalf("%s is in no form that is known", desc)
	}
	for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(parts[3], -1) {
		labels = append(labels, constant[1])
	}
	if parts[4] != "" {
		labels = append(labels, strings.Split(parts[4], ",")...)
	}
	return parts[1], strings.ReplaceAll(parts[2], `\"`, `"`), labels
}

func kindOf(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	switch c := c.(type) {
	case interface{ Type() string }:
		return c.Type()
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%T has the metrics %v, %v", c, families, err)
	}
	return strings.ToLower(families[0].GetType().String())
}

// exposedMetrics sets all components up, without starting them, and returns what
// they register.
func exposedMetrics(t *testing.T) map[string]exposedMetric {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, hub := servers.Start(t)
	_, err := envtest.InstallCRDs(hub, envtest.CRDInstallOptions{Paths: []string{"../../config/crd"}, ErrorIfPathMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]exposedMetric{}
	to := func(component string) *recorder {
		return &recorder{Registry: prometheus.NewRegistry(), t: t, component: component, into: all}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(metrics.RegisterBuildInfo(to(everyComponent), everyComponent))
	for _, component := range []string{
		registration.ComponentName, placement.ComponentName, propagation.ComponentName, "work-controller", "cluster-manager", "klusterlet", "control-plane",
	} {
		must(selfconflict.NewDamper(selfconflict.Limits{}, clock.RealClock{}).SetupReporter(nil, to(component)))
	}
	hubMetrics(t, hub, to)
	operatorMetrics(t, hub, to)

	works, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	must(err)
	pull, err := agent.NewPullAgent(agent.PullAgentOptions{Home: hub, Member: hub, Namespace: "default", Log: logr.Discard()})
	must(err)
	pushed, err := push.NewAgent(push.AgentOptions{Hub: hub, Log: logr.Discard()})
	must(err)
	for component, collectors := range map[string][]prometheus.Collector{
		"agent":              slices.Concat(pull.MetricCollectors(), works.MetricCollectors()),
		"registration-agent": pull.MetricCollectors(),
		"work-agent":         works.MetricCollectors(),
		"push-agent":         slices.Concat(pushed.MetricCollectors(), works.MetricCollectors()),
	} {
		must(metrics.RegisterCollectors(to(component), collectors...))
	}
	return all
}

// unstarted returns a manager that serves nothing.
func unstarted(t *testing.T, at *rest.Config, scheme *runtime.Scheme, cached cache.Options, schemeErr error) ctrl.Manager {
	t.Helper()
	if schemeErr != nil {
		t.Fatal(schemeErr)
	}
	anyName := true
	mgr, err := ctrl.NewManager(at, ctrl.Options{
		Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: controllerconfig.Controller{SkipNameValidation: &anyName},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func hubMetrics(t *testing.T, hub *rest.Config, to func(string) *recorder) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	scheme, err := registration.NewRegistrationScheme()
	must(err)
	cached, err := registration.NewRegistrationCacheOptions()
	must(registration.SetupRegistrationControllers(t.Context(), unstarted(t, hub, scheme, cached, err), registration.SetupOptions{
		Mirror: true, Metrics: to(registration.ComponentName),
	}))
	scheme, err = placement.NewPlacementScheme()
	must(placement.SetupPlacementController(t.Context(), unstarted(t, hub, scheme, placement.NewPlacementCacheOptions(), err), placement.SetupOptions{Metrics: to(placement.ComponentName)}))
	gates, err := features.ParseFlags(features.HubPlacement, []string{"Propagation=true", "KarmadaEvents=true"})
	must(err)
	scheme, err = propagation.NewPropagationScheme()
	must(propagation.SetupPropagationControllers(t.Context(), unstarted(t, hub, scheme, propagation.NewPropagationCacheOptions(), err), propagation.SetupOptions{
		Metrics: to(propagation.ComponentName), Gates: gates,
	}))
	gates, err = features.ParseFlags(features.HubWork, []string{"ManifestWorkReplicaSet=true"})
	must(err)
	scheme, err = hubwork.NewWorkScheme()
	must(err)
	must(hubwork.SetupWorkControllers(t.Context(), unstarted(t, hub, scheme, hubwork.NewWorkCacheOptions(), err), hubwork.SetupOptions{Metrics: to(hubwork.ComponentName), Gates: gates}))
}

func operatorMetrics(t *testing.T, hub *rest.Config, to func(string) *recorder) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	options := clustermanager.OperatorOptions{Namespace: "default", ControlPlane: labels.Everything()}
	scheme, err := clustermanager.NewClusterManagerScheme()
	must(err)
	cached, err := clustermanager.OperatorCacheOptions(options)
	mgr := unstarted(t, hub, scheme, cached, err)
	must(clustermanager.NewClusterManagerController(clustermanager.ControllerDeps{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Events: events.NewRecorder(mgr.GetEventRecorder("test")),
		Rules: config.Rules, Options: options, Metrics: to("cluster-manager"),
	}).SetupWithManager(mgr))

	direct, err := client.New(hub, client.Options{})
	must(err)
	allowed, err := permissions.ReviewOperatorRole(t.Context(), direct)
	must(err)
	scheme, err = klusterletScheme()
	must(err)
	cached, err = klusterlet.OperatorCacheOptions()
	mgr = unstarted(t, hub, scheme, cached, err)
	must(klusterlet.SetupKlusterletOperator(mgr, klusterlet.OperatorSettings{Namespace: "default", Metrics: to("klusterlet")}, allowed, nil))

	scheme = runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(fleetv1alpha1.AddToScheme(scheme))
	must(controlplane.SetupControlPlaneOperator(unstarted(t, hub, scheme, controlplane.OperatorCacheOptions(), nil), "default", to("control-plane")))
}
