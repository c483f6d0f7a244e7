// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"

	"github.com/capstan-io/capstan/internal/operator/podmonitor"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// Names of the PodMonitors: RBAC lets the operator write these only.
const (
	hubMonitor      = "capstan-hub"
	operatorMonitor = "capstan-cluster-manager"
)

// operatorApp is the label "app" of the operator's own pods.
const operatorApp = "cluster-manager"

// MetricsReader returns the role of those who may read the metrics of the components,
// for the cluster that their pods run on.
func MetricsReader(h Hub) render.Object {
	return render.ClusterRole(h.resourceMeta(h.roleName("metrics-reader")).InNamespace(""), podmonitor.ReaderRules())
}

// PodMonitors returns how Prometheus finds the metrics of the components and of the
// operator. Several ClusterManagers share the latter, so it has the marks of none.
func PodMonitors(h Hub) []render.Object {
	var pods []podmonitor.ComponentPods
	for _, c := range HubComponents(h) {
		pods = append(pods, podmonitor.ComponentPods{
			Component: strings.TrimPrefix(c.Workload.Name, h.Name+"-"), App: c.Workload.App, Port: c.MetricsPort,
		})
	}
	return []render.Object{
		podmonitor.NewPodMonitor(h.resourceMeta(hubMonitor), pods...),
		podmonitor.NewPodMonitor(render.ResourceMeta{Name: operatorMonitor, Namespace: h.OperatorNamespace},
			podmonitor.ComponentPods{Component: "cluster-manager", App: operatorApp, Port: metricsPort}),
	}
}
