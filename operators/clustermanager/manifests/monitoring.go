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
	return render.ClusterRole(h.meta(h.role("metrics-reader")).In(""), podmonitor.ReaderRules())
}

// PodMonitors returns how Prometheus finds the metrics of the components and of the
// operator. Several ClusterManagers share the latter, so it has the marks of none.
func PodMonitors(h Hub) []render.Object {
	var pods []podmonitor.Pods
	for _, c := range Components(h) {
		pods = append(pods, podmonitor.Pods{
			Component: strings.TrimPrefix(c.Workload.Name, h.Name+"-"), App: c.Workload.App, Port: c.MetricsPort,
		})
	}
	return []render.Object{
		podmonitor.New(h.meta(hubMonitor), pods...),
		podmonitor.New(render.Meta{Name: operatorMonitor, Namespace: h.OperatorNamespace},
			podmonitor.Pods{Component: "cluster-manager", App: operatorApp, Port: metricsPort}),
	}
}
