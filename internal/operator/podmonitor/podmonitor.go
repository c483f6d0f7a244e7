// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podmonitor builds that by which Prometheus finds and reads the metrics of
// components: PodMonitors, and the rules of a reader.
//
// It applies nothing, and binds the rules to nobody: who may read is for those to say
// who run Prometheus.
package podmonitor

import (
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// discovered is the name of the port that all components declare. Prometheus finds a
// pod once for each declared port; where the metrics are is told by a rule.
const discovered = "health"

// ReaderRules are what a reader of metrics has to be allowed.
func ReaderRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
}

// MonitorLabels are the labels that all PodMonitors have beside those of their meta. One that
// several objects ask for has no others: they would overwrite each other's.
func MonitorLabels() map[string]string {
	return map[string]string{operatorv1.LabelPartOf: operatorv1.PartOfCapstan}
}

// ComponentPods are those of one component.
type ComponentPods struct {
	// Component is its name in metrics.
	Component string
	// App is the label app of the pods.
	App string
	// Port serves /metrics.
	Port int32
}

// NewPodMonitor returns the PodMonitor of pods in the namespace of the meta.
func NewPodMonitor(m render.ResourceMeta, pods ...ComponentPods) render.Object {
	apps := make([]any, 0, len(pods))
	endpoints := make([]any, 0, len(pods))
	for _, p := range pods {
		apps = append(apps, p.App)
		endpoints = append(endpoints, p.metricsEndpoint())
	}
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("monitoring.coreos.com/v1")
	u.SetKind("PodMonitor")
	u.SetName(m.Name)
	u.SetNamespace(m.Namespace)
	labels := MonitorLabels()
	for key, value := range m.Labels {
		labels[key] = value
	}
	u.SetLabels(labels)
	u.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchExpressions": []any{
			map[string]any{"key": render.AppLabel, "operator": "In", "values": apps},
		}},
		"podMetricsEndpoints": endpoints,
	}
	return client.ApplyConfigurationFromUnstructured(u)
}

// metricsEndpoint is how Prometheus reads the metrics of the pods.
func (p ComponentPods) metricsEndpoint() map[string]any {
	port := strconv.Itoa(int(p.Port))
	address := func(ip, replacement string) map[string]any {
		return map[string]any{
			"sourceLabels": []any{"__meta_kubernetes_pod_ip"}, "regex": ip, "replacement": replacement + ":" + port, "targetLabel": "__address__",
		}
	}
	return map[string]any{
		"port": discovered, "path": "/metrics", "scheme": "https",
		// The certificate is the component's own; the token tells it who reads.
		"tlsConfig": map[string]any{"insecureSkipVerify": true},
		"authorization": map[string]any{"credentials": map[string]any{
			"name": fleetv1alpha1.MonitoringTokenSecret, "key": "token",
		}},
		"relabelings": []any{
			map[string]any{"action": "keep", "sourceLabels": []any{"__meta_kubernetes_pod_label_" + render.AppLabel}, "regex": p.App},
			address(`([0-9.]+)`, "${1}"),
			address(`(.*:.*)`, "[${1}]"),
			map[string]any{"targetLabel": "component", "replacement": p.Component},
		},
	}
}
