// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestMetricsNameClustersOnlyIfAsked(t *testing.T) {
	for _, asked := range []bool{false, true} {
		args := pushAgent(Hub{Name: "cluster-manager", MetricsPerCluster: asked}).Workload.Args
		if slices.Contains(args, "--metrics-per-cluster") != asked {
			t.Errorf("asked: %t, the push agent has the arguments %q", asked, args)
		}
	}
}

func TestPodMonitorsHaveAllComponentsAndAreThoseThatTheOperatorMayWrite(t *testing.T) {
	h := Hub{Name: "cluster-manager", OperatorNamespace: "open-cluster-management", PushClusters: true}
	var err error
	if h.Placement, err = features.ParseFlags(features.HubPlacement, []string{"Propagation=true"}); err != nil {
		t.Fatal(err)
	}
	rules, _, err := config.Rules(config.ClusterManager)
	expect.NoError(t, err)
	var allowed, components []string
	for _, rule := range rules {
		if slices.Contains(rule.Resources, "podmonitors") {
			allowed = append(allowed, rule.ResourceNames...)
		}
	}
	for _, object := range PodMonitors(h) {
		monitor, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		if !slices.Contains(allowed, monitor.GetName()) {
			t.Errorf("the role of the operator does not name PodMonitor %q: %q", monitor.GetName(), allowed)
		}
		endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
		expect.NoError(t, err)
		for _, endpoint := range endpoints {
			relabelings, _, _ := unstructured.NestedSlice(endpoint.(map[string]any), "relabelings")
			last, _ := relabelings[len(relabelings)-1].(map[string]any)
			components = append(components, last["replacement"].(string))
		}
	}
	slices.Sort(components)
	want := []string{
		"cluster-manager", "placement-controller", "propagation-controller", "push-agent", "registration-controller",
		"registration-webhook", "work-webhook",
	}
	if !slices.Equal(components, want) {
		t.Errorf("got the components %q, want %q", components, want)
	}
}
