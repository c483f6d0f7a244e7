// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/podmonitor"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// Names of the PodMonitors: RBAC lets the operator write these only.
const (
	agentMonitor    = "capstan-agents"
	operatorMonitor = "capstan-klusterlet"
)

// MetricsReader returns the role of those who may read the metrics of the agents, for
// the cluster that their pods run on.
func MetricsReader(klusterlet *operatorv1.Klusterlet) render.Object {
	return render.ClusterRole(agentMeta(klusterlet, rolePrefix+klusterlet.Name+"-metrics-reader").InNamespace(""), podmonitor.ReaderRules())
}

// PodMonitors returns how Prometheus finds the metrics of the agents, and of the
// operator in its namespace. Several Klusterlets share the latter, and the former if
// their agents share a namespace, so neither has the marks of one.
func PodMonitors(klusterlet *operatorv1.Klusterlet, operatorNamespace string) []render.Object {
	return []render.Object{
		podmonitor.NewPodMonitor(render.ResourceMeta{Name: agentMonitor, Namespace: AgentNamespace(klusterlet)},
			podmonitor.ComponentPods{Component: "registration-agent", App: RegistrationApp, Port: metricsPort},
			podmonitor.ComponentPods{Component: "work-agent", App: WorkApp, Port: metricsPort},
			podmonitor.ComponentPods{Component: "agent", App: SingletonApp, Port: metricsPort}),
		podmonitor.NewPodMonitor(render.ResourceMeta{Name: operatorMonitor, Namespace: operatorNamespace},
			podmonitor.ComponentPods{Component: "klusterlet", App: operatorApp, Port: metricsPort}),
	}
}
