// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestRequests: as the scheduler of Kubernetes counts (KEP-753 for sidecars, KEP-688
// for the overhead, KEP-2837 for the pod as a whole).
func TestRequests(t *testing.T) {
	t.Parallel()
	type list = map[string]string
	for name, c := range map[string]struct {
		spec string
		want list
	}{
		"nothing": {`{}`, nil},
		"containers are summed up": {
			`{containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}, {resources: {requests: {cpu: 500m}}}]}`, list{"cpu": "1500m", "memory": "1Gi"},
		},
		"a limit is a request that is missing": {
			`{containers: [{resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]}`, list{"cpu": "1", "memory": "1Gi"},
		},
		"the largest init container, not the sum": {
			`{initContainers: [{resources: {requests: {cpu: 3}}}, {resources: {requests: {cpu: 2}}}], containers: [{resources: {requests: {cpu: 1}}}]}`, list{"cpu": "3"},
		},
		"a sidecar runs beside all": {
			`{initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 2}}}], containers: [{resources: {requests: {cpu: 1}}}]}`, list{"cpu": "3"},
		},
		"a number of a gigabyte":   {`{containers: [{resources: {requests: {cpu: "1e-2000000000", memory: 1Gi}}}]}`, list{"memory": "1Gi"}},
		"overhead":                 {`{overhead: {cpu: 250m}, containers: [{resources: {requests: {cpu: 1}}}]}`, list{"cpu": "1250m"}},
		"the pod as a whole":       {`{resources: {requests: {cpu: 4}}, containers: [{resources: {requests: {cpu: 1}}}]}`, list{"cpu": "4"}},
		"its limit, if alone":      {`{resources: {limits: {cpu: 4}}, containers: [{name: a}]}`, list{"cpu": "4"}},
		"not beside requests":      {`{resources: {limits: {cpu: 4}}, containers: [{resources: {requests: {cpu: 1}}}]}`, list{"cpu": "1"}},
		"zero is nothing":          {`{containers: [{resources: {requests: {cpu: 0, memory: 1}}}]}`, list{"memory": "1"}},
		"what is odd is left away": {`{containers: [{resources: {requests: {cpu: much, memory: -1, gpu: [1], disk: 2}}}, odd]}`, list{"disk": "2"}},
	} {
		got := corev1.ResourceList{}
		if needs := RequirementsFromSpec(parse(t, c.spec)); needs != nil {
			got = needs.Requests
		}
		want := corev1.ResourceList{}
		for name, quantity := range c.want {
			want[corev1.ResourceName(name)] = resource.MustParse(quantity)
		}
		if !equality.Semantic.DeepEqual(want, got) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestWhereAPodMayRun(t *testing.T) {
	t.Parallel()
	const spec = `
nodeSelector: {disk: ssd, odd: 1}
priorityClassName: high
tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}, odd]
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
    preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]
`
	want := &Requirements{
		NodeSelector:      map[string]string{"disk": "ssd"},
		PriorityClassName: "high",
		Tolerations:       []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}},
	}
	if diff := cmp.Diff(want, RequirementsFromSpec(parse(t, spec))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := RequirementsFromSpec(parse(t, `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}, containers: [{name: a}]}`)); got != nil {
		t.Errorf("a pod that only prefers needs %+v", got)
	}
}

// parse reads YAML into what a decoder of Kubernetes makes of it.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	expect.NoError(t, err)
	var object map[string]any
	expect.NoError(t, json.Unmarshal(raw, &object))
	return object
}
