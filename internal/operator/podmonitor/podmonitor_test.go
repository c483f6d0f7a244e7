// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package podmonitor

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestEachComponentIsFoundOnceAtItsPort(t *testing.T) {
	encoded, err := render.ToUnstructured(NewPodMonitor(render.ResourceMeta{Name: "m", Namespace: "n"},
		ComponentPods{Component: "agent", App: "klusterlet-agent", Port: 8080}))
	expect.NoError(t, err)
	endpoints, _, err := unstructured.NestedSlice(encoded.Object, "spec", "podMetricsEndpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("got the endpoints %v, %v", endpoints, err)
	}
	if _, honours := endpoints[0].(map[string]any)["honorLabels"]; honours {
		t.Error("a label of a metric that is empty, such as cluster of capstan_push_connections, would remove that of the target")
	}
	relabelings, _, err := unstructured.NestedSlice(endpoints[0].(map[string]any), "relabelings")
	expect.NoError(t, err)
	for ip, want := range map[string]string{"10.1.2.3": "10.1.2.3:8080", "fd00::1": "[fd00::1]:8080"} {
		got := ""
		for _, relabeling := range relabelings {
			rule, _ := relabeling.(map[string]any)
			if rule["targetLabel"] != "__address__" {
				continue
			}
			pattern := regexp.MustCompile("^(?:" + rule["regex"].(string) + ")$") // as Prometheus anchors it
			if match := pattern.FindStringSubmatchIndex(ip); match != nil {
				got = string(pattern.ExpandString(nil, rule["replacement"].(string), ip, match))
			}
		}
		if got != want {
			t.Errorf("a pod at %s is read at %q, want %q", ip, got, want)
		}
	}
}
