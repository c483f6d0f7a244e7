// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/testing/build"
)

// example is an object, and what is known about its health.
type example struct {
	object string
	want   health.Health
}

// chain knows the kinds of Kubernetes.
func chain() interpret.Chain { return interpret.Chain{native.NewKubernetesKinds()} }

// check judges examples; head is put before each object.
func check(t *testing.T, head string, examples map[string]example) {
	t.Helper()
	for name, e := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(e.want, chain().AssessHealth(build.ParseObject(t, head+"\n"+e.object))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// ofKind returns an object of a kind such as "apps/v1 Deployment".
func ofKind(kind string) *unstructured.Unstructured {
	version, name, _ := strings.Cut(kind, " ")
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": name}}
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

func TestConventionsOfAllKinds(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: example.com/v1\nkind: Thing", map[string]example{
		"nothing is said": {``, health.Health{Status: health.Healthy, Reason: "Exists", Message: "The object exists and reports no problem."}},
		"it is being deleted": {
			`metadata: {deletionTimestamp: "2024-01-01T00:00:00Z", finalizers: [b/c, a]}`,
			health.Health{Status: health.Terminating, Reason: "Deleting", Message: "The object is being deleted and waits for its finalizers: a, b/c."},
		},
		"the status is old": {
			"metadata: {generation: 2}\nstatus: {observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}",
			health.Health{Status: health.Progressing, Reason: "NotObserved", Message: "The controller has observed generation 1, but the object has generation 2."},
		},
		"Stalled": {
			`status: {conditions: [{type: Stalled, status: "True", reason: NoQuota, message: "no room."}]}`,
			health.Health{Status: health.Degraded, Reason: "NoQuota", Message: "The controller is stalled: no room."},
		},
		"Reconciling": {
			`status: {conditions: [{type: Reconciling, status: "True", reason: "not a reason"}]}`,
			health.Health{Status: health.Progressing, Reason: "Reconciling", Message: "The controller is reconciling."},
		},
		"Ready": {
			`status: {conditions: [{type: Ready, status: "True"}]}`,
			health.Health{Status: health.Healthy, Reason: "Ready", Message: "Condition Ready is True."},
		},
		"Ready of an older generation": {
			"metadata: {generation: 2}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}",
			health.Health{Status: health.Progressing, Reason: "NotObserved", Message: "Condition Ready is for generation 1, but the object has generation 2."},
		},
		"not Ready": {
			`status: {conditions: [{type: Ready, status: "False", reason: Waiting, message: for a friend}]}`,
			health.Health{Status: health.Progressing, Reason: "Waiting", Message: "Condition Ready is False: for a friend."},
		},
		"perhaps Ready": {
			`status: {conditions: [{type: Ready, status: "Unknown"}]}`,
			health.Health{Status: health.Progressing, Reason: "NotReady", Message: "Condition Ready is Unknown."},
		},
		"a status that is a text": {
			`status: fine`, health.Health{Status: health.Unknown, Reason: "StatusNotReadable", Message: "The object's status is not an object."},
		},
	})
}
