// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestPodMonitorsAreThoseThatTheOperatorMayWrite(t *testing.T) {
	rules, _, err := config.Rules(config.Klusterlet)
	expect.NoError(t, err)
	var allowed []string
	for _, rule := range rules {
		if slices.Contains(rule.Resources, "podmonitors") {
			allowed = append(allowed, rule.ResourceNames...)
		}
	}
	klusterlet := &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: "klusterlet"}}
	where := map[string]string{}
	for _, object := range PodMonitors(klusterlet, "operators") {
		monitor, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		if !slices.Contains(allowed, monitor.GetName()) {
			t.Errorf("the role of the operator does not name PodMonitor %q: %q", monitor.GetName(), allowed)
		}
		where[monitor.GetName()] = monitor.GetNamespace()
	}
	if where["capstan-agents"] != operatorv1.DefaultAgentNamespace || where["capstan-klusterlet"] != "operators" {
		t.Errorf("the PodMonitors are in %v", where)
	}
}
