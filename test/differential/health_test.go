// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// ours is the health of an object by package interpret.
func ours(object *unstructured.Unstructured) health.Status {
	return interpret.Chain{native.NewKubernetesKinds()}.AssessHealth(object).Status
}

// theirs is the health of an object by kstatus, in our words.
func theirs(object *unstructured.Unstructured) health.Status {
	result, err := status.Compute(object)
	if err != nil {
		return health.Unknown
	}
	switch result.Status {
	case status.CurrentStatus:
		return health.Healthy
	case status.InProgressStatus:
		return health.Progressing
	case status.FailedStatus:
		return health.Degraded
	case status.TerminatingStatus:
		return health.Terminating
	default:
		return health.Unknown
	}
}

// read returns the object that a text is.
func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestWellKnownStatesAreJudgedAlike has objects as clusters have them.
func TestWellKnownStatesAreJudgedAlike(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		want   health.Status
	}{
		"a Deployment that has rolled out": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, generation: 2}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status:
  observedGeneration: 2
  replicas: 2
  updatedReplicas: 2
  readyReplicas: 2
  availableReplicas: 2
  conditions:
  - {type: Progressing, status: "True", reason: NewReplicaSetAvailable}
  - {type: Available, status: "True", reason: MinimumReplicasAvailable}
`, health.Healthy},
		"a Deployment that rolls out": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, generation: 2}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status:
  observedGeneration: 2
  replicas: 3
  updatedReplicas: 1
  readyReplicas: 2
  availableReplicas: 2
  conditions:
  - {type: Progressing, status: "True", reason: ReplicaSetUpdated}
  - {type: Available, status: "True", reason: MinimumReplicasAvailable}
`, health.Progressing},
		"a Deployment whose deadline has passed": {`
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, generation: 2}
spec: {replicas: 2, progressDeadlineSeconds: 600}
status:
  observedGeneration: 2
  replicas: 2
  updatedReplicas: 2
  conditions:
  - {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}
  - {type: Available, status: "False", reason: MinimumReplicasUnavailable}
`, health.Degraded},
		"a StatefulSet that is updated": {`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a, generation: 1}
spec: {replicas: 3}
status:
  observedGeneration: 1
  replicas: 3
  readyReplicas: 3
  availableReplicas: 3
  currentReplicas: 3
  updatedReplicas: 3
  currentRevision: a-1
  updateRevision: a-1
`, health.Healthy},
		"a Job that is complete": {`
apiVersion: batch/v1
kind: Job
metadata: {name: a, generation: 1}
spec: {completions: 1}
status: {startTime: "2026-01-01T00:00:00Z", succeeded: 1, conditions: [{type: Complete, status: "True"}]}
`, health.Healthy},
		"a Pod whose container crashes": {`
apiVersion: v1
kind: Pod
metadata: {name: a}
status:
  phase: Running
  conditions: [{type: Ready, status: "False"}]
  containerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff}}}]
`, health.Degraded},
		"a definition that is served": {`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "True"}]}
`, health.Healthy},
		"a ConfigMap":            {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", health.Healthy},
		"an object that goes":    {"apiVersion: v1\nkind: Service\nmetadata: {name: a, deletionTimestamp: \"2026-01-01T00:00:00Z\"}", health.Terminating},
		"one with Ready False":   {"apiVersion: example.com/v1\nkind: Thing\nstatus: {conditions: [{type: Ready, status: \"False\"}]}", health.Progressing},
		"one that reports none":  {"apiVersion: example.com/v1\nkind: Thing\nstatus: {phase: Broken}", health.Healthy},
		"one that has given up":  {"apiVersion: example.com/v1\nkind: Thing\nstatus: {conditions: [{type: Stalled, status: \"True\"}]}", health.Degraded},
		"one that is not looked": {"apiVersion: example.com/v1\nkind: Thing\nmetadata: {generation: 2}\nstatus: {observedGeneration: 1}", health.Progressing},
	} {
		t.Run(name, func(t *testing.T) {
			object := read(t, c.object)
			if got := ours(object); got != c.want {
				t.Errorf("interpret: got %s, want %s", got, c.want)
			}
			if got := theirs(object); got != c.want {
				t.Errorf("kstatus: got %s, want %s", got, c.want)
			}
		})
	}
}

// judgeStates goes through the states of a kind that its controller can write, and more: both judge them alike, or
// there is a difference on purpose.
func judgeStates(t *testing.T, kind kind) {
	t.Helper()
	states, used := 0, make([]int, len(kind.differences))
	for object := range kind.states() {
		states++
		our, their := ours(object), theirs(object)
		if our == their {
			continue
		}
		if i := kind.explanation(object, our, their); i >= 0 {
			used[i]++
			continue
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		t.Fatalf("interpret says %s, kstatus %s, and no difference explains that: %s", our, their, text)
	}
	for i, n := range used {
		if n == 0 {
			t.Errorf("the difference %q does not occur: take it out", kind.differences[i].reason)
		}
	}
	t.Logf("%d states, %d differences on purpose", states, len(kind.differences))
}
