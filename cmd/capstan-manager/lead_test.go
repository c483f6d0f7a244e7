// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
)

// TestAgentsLeadAgain begins and ends what each agent does while it leads, as a process
// does that loses its Lease and gets it back.
func TestAgentsLeadAgain(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	others := controllermetrics.Registry // has what other tests of the package have begun
	controllermetrics.Registry = prometheus.NewRegistry()
	t.Cleanup(func() { controllermetrics.Registry = others })
	_, hub := servers.Start(t)
	if _, err := envtest.InstallCRDs(hub, envtest.CRDInstallOptions{Paths: []string{"../../config/crd"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	all := &agentFlags{registration: defaultRegistrationAgentFlags(), works: defaultWorkFlags()}
	works, err := all.prepareWorkPart(logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	of := agent.PullAgentOptions{Home: hub, Member: hub, Namespace: "default", Log: logr.Discard()}
	onlyWorks := &workAgentFlags{works: defaultWorkFlags(), hubKubeconfig: t.TempDir() + "/none"}
	for name, c := range map[string]struct {
		lead   func(context.Context) error
		metric string
	}{
		"agent": {func(ctx context.Context) error { return leadAgent(ctx, of, works) }, "capstan_works"},
		"work agent": {func(ctx context.Context) error {
			return onlyWorks.leadWorkAgent(ctx, hub, work.PartOptions{Logger: logr.Discard()}, logr.Discard())
		}, "capstan_works"},
		"push agent": {func(ctx context.Context) error {
			return leadPushAgent(ctx, hub, push.AgentOptions{Hub: hub, Log: logr.Discard()}, work.PartOptions{Logger: logr.Discard()})
		}, "capstan_push_connections"},
	} {
		t.Run(name, func(t *testing.T) {
			for turn := range 3 {
				leadUntilServed(t, turn, c.lead, c.metric)
			}
		})
	}
}

// leadUntilServed leads until there is a metric, and then ends that.
func leadUntilServed(t *testing.T, turn int, lead func(context.Context) error, metric string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- lead(ctx) }()
	limit := time.After(2 * time.Minute)
	for begun := false; !begun; {
		families, err := controllermetrics.Registry.Gather()
		if err != nil {
			t.Logf("some metrics have no values yet: %v", err)
		}
		for _, family := range families {
			begun = begun || family.GetName() == metric
		}
		select {
		case err := <-ended:
			t.Fatalf("turn %d ends by itself: %v", turn, err)
		case <-limit:
			t.Fatalf("turn %d: there is no metric %s", turn, metric)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("turn %d ends with %v", turn, err)
		}
	case <-limit:
		t.Fatalf("turn %d does not end", turn)
	}
}
