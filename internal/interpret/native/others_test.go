// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func TestService(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: v1\nkind: Service", map[string]example{
		"inside the cluster":         {`spec: {clusterIP: 10.0.0.1}`, is(health.Healthy, "ServiceExists", "The service exists.")},
		"a load balancer is made":    {`spec: {type: LoadBalancer}`, is(health.Progressing, "LoadBalancerPending", "The load balancer has no address yet.")},
		"a load balancer is there":   {"spec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}", is(health.Healthy, "LoadBalancerReady", "The load balancer has an address.")},
		"a name outside the cluster": {`spec: {type: ExternalName}`, is(health.Healthy, "ServiceExists", "The service exists.")},
	})
}

func TestPersistentVolumeClaim(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: v1\nkind: PersistentVolumeClaim", map[string]example{
		"pending": {`status: {phase: Pending}`, is(health.Progressing, "ClaimPending", "The claim is not bound to a volume yet.")},
		"bound":   {`status: {phase: Bound}`, is(health.Healthy, "ClaimBound", "The claim is bound to a volume.")},
		"lost":    {`status: {phase: Lost}`, is(health.Degraded, "ClaimLost", "The claim lost its volume.")},
		"resizing": {
			`status: {phase: Bound, conditions: [{type: FileSystemResizePending, status: "True", message: waiting for a pod}]}`,
			is(health.Progressing, "FileSystemResizePending", "The volume is being changed: waiting for a pod."),
		},
		"it cannot be resized": {
			`status: {phase: Bound, conditions: [{type: Resizing, status: "True"}, {type: ControllerResizeError, status: "True", message: no space}]}`,
			is(health.Degraded, "ControllerResizeError", "The volume cannot be changed: no space."),
		},
	})
}

func TestPodDisruptionBudget(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: policy/v1\nkind: PodDisruptionBudget", map[string]example{
		"not seen": {`spec: {}`, unseen},
		"too few": {
			`status: {observedGeneration: 1, currentHealthy: 1, desiredHealthy: 2, conditions: [{type: DisruptionAllowed, status: "False", reason: InsufficientPods}]}`,
			is(health.Progressing, "InsufficientPods", "1 of the 2 required pods are healthy."),
		},
		"it cannot be computed": {
			`status: {observedGeneration: 1, conditions: [{type: DisruptionAllowed, status: "False", reason: SyncFailed, message: no controller}]}`,
			is(health.Degraded, "SyncFailed", "The budget cannot be computed: no controller."),
		},
		"met": {
			`status: {observedGeneration: 1, currentHealthy: 3, desiredHealthy: 2}`, is(health.Healthy, "BudgetMet", "3 pods are healthy, 2 required."),
		},
	})
}

func TestCustomResourceDefinition(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition", map[string]example{
		"new": {`spec: {}`, is(health.Progressing, "NotObserved", "The API server has not observed the definition yet.")},
		"names are taken": {
			`status: {conditions: [{type: NamesAccepted, status: "False", reason: PluralConflict, message: '"things" is already in use'}, {type: Established, status: "False", reason: NotAccepted}]}`,
			is(health.Degraded, "PluralConflict", `The names are not accepted: "things" is already in use.`),
		},
		"being installed": {
			`status: {conditions: [{type: NamesAccepted, status: "True"}, {type: Established, status: "False", reason: Installing}]}`,
			is(health.Progressing, "Installing", "The API server is installing the resource."),
		},
		"not established": {
			`status: {conditions: [{type: Established, status: "False", reason: NotAccepted, message: not all names are accepted}]}`,
			is(health.Degraded, "NotAccepted", "The resource is not served: not all names are accepted."),
		},
		"served": {`status: {conditions: [{type: Established, status: "True"}]}`, is(health.Healthy, "Established", "The API server serves the resource.")},
	})
}

func TestAPIService(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: apiregistration.k8s.io/v1\nkind: APIService", map[string]example{
		"new":       {`spec: {}`, is(health.Progressing, "NotObserved", "The API server has not tried this API yet.")},
		"available": {`status: {conditions: [{type: Available, status: "True"}]}`, is(health.Healthy, "Available", "The API is available.")},
		"no pods": {
			`status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints, message: no pods}]}`,
			is(health.Progressing, "MissingEndpoints", "The API's server is not available yet: no pods."),
		},
		"no answer": {
			`status: {conditions: [{type: Available, status: "False", reason: FailedDiscoveryCheck, message: 503}]}`,
			is(health.Degraded, "FailedDiscoveryCheck", "The API is not available."),
		},
	})
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: v1\nkind: Namespace", map[string]example{
		"active": {`status: {phase: Active}`, is(health.Healthy, "NamespaceActive", "The namespace is active.")},
		"new":    {`spec: {}`, is(health.Progressing, "NotObserved", "The namespace has no phase yet.")},
		"going": {
			"metadata: {deletionTimestamp: '2024-01-01T00:00:00Z'}\nstatus: {phase: Terminating, conditions: [{type: NamespaceFinalizersRemaining, status: 'True', message: has finalizer x}, {type: NamespaceContentRemaining, status: 'True', message: pods. has 1 resource instances}]}",
			is(health.Terminating, "Deleting", "The namespace and its content are being deleted: pods. has 1 resource instances; has finalizer x."),
		},
	})
}

// FuzzObjects looks for objects that have no health at all.
func FuzzObjects(f *testing.F) {
	kinds := []string{
		"apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "apps/v1 ReplicaSet", "batch/v1 Job", "batch/v1 CronJob", "v1 Pod", "v1 Service",
		"v1 PersistentVolumeClaim", "v1 Namespace", "v1 ReplicationController", "autoscaling/v2 HorizontalPodAutoscaler", "policy/v1 PodDisruptionBudget",
		"apiextensions.k8s.io/v1 CustomResourceDefinition", "apiregistration.k8s.io/v1 APIService", "example.com/v1 Thing",
		"networking.k8s.io/v1 Ingress", "v1 Secret", "v1 ServiceAccount", "v1 PersistentVolume", "multicluster.x-k8s.io/v1alpha1 ServiceImport",
	}
	for _, content := range []string{
		`{"metadata": {"generation": "1", "finalizers": [1], "deletionTimestamp": 0}, "status": {"conditions": [1, null, {"type": 1}, {"type": "Ready"}]}}`,
		`{"spec": {"replicas": -1.5, "type": ["LoadBalancer"], "updateStrategy": 1}, "status": {"observedGeneration": 1, "replicas": {}, "phase": 5}}`,
		`{"status": {"phase": "Pending", "observedGeneration": 9007199254740993, "containerStatuses": {"a": 1}, "initContainerStatuses": [[], {"state": {"waiting": "x"}}]}}`,
		`{"spec": null, "status": {"active": [1], "lastScheduleTime": "2024-01-01T00:00:00Z", "lastSuccessfulTime": 7, "loadBalancer": {"ingress": "x"}}}`,
	} {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		var m map[string]any
		if json.Unmarshal([]byte(content), &m) != nil || m == nil {
			return
		}
		for _, kind := range kinds {
			maps.Copy(m, ofKind(kind).Object)
			u := &unstructured.Unstructured{Object: m}
			before := u.DeepCopy()
			if h := chain().AssessHealth(u); h.Status == "" || h.Reason == "" || h.Message == "" || len(h.Message) > 1024 || h != chain().AssessHealth(u) {
				t.Errorf("%s: %+v", kind, h)
			}
			operate(t, u)
			if diff := cmp.Diff(before.Object, u.Object); diff != "" {
				t.Errorf("%s: the object itself was changed: %s", kind, diff)
			}
		}
	})
}

// operate asks all that can be asked about an object.
func operate(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if replicas, _, _, err := chain().GetReplicas(u); replicas < 0 || err != nil {
		t.Errorf("%s: %d replicas", u.GetKind(), replicas)
	}
	if replicas, _, has, _ := chain().GetReplicas(revised(t, chain(), u, 0)); has && replicas != 0 && u.GetKind() != "Pod" {
		t.Errorf("%s: %d replicas were to be none", u.GetKind(), replicas)
	}
	chain().ReviseCompletions(u, 1)
	if _, has := chain().PruneObject(u).Object["status"]; has {
		t.Errorf("%s: there is still a status", u.GetKind())
	}
	dependencies, err := chain().GetDependencies(u)
	if err != nil {
		t.Error(err)
	}
	for _, d := range dependencies {
		if (d.Name == "") == (d.Selector == nil) || d.Kind == "" || d.APIVersion == "" {
			t.Errorf("%s: dependency %+v", u.GetKind(), d)
		}
	}
	chain().RetainedFieldPaths(u)
	items := []interpret.ClusterItem{{Cluster: "a", Status: reported(t, u)}, {Cluster: "b", Applied: true, Status: fields.Map(u.Object, "spec")}, {Cluster: "c"}}
	if status, changed := aggregated(t, u, items); changed {
		again := u.DeepCopy()
		again.Object["status"] = status
		if more, changed := aggregated(t, again, items); changed {
			t.Errorf("%s: the same reports change the status again: %s", u.GetKind(), cmp.Diff(status, more))
		}
	}
	if verdict := judged(t, u); !slices.Contains([]string{interpret.Healthy, interpret.Unhealthy, interpret.Unknown}, verdict) {
		t.Errorf("%s: no verdict: %q", u.GetKind(), verdict)
	}
}

// reported returns what is reported of the status of an object.
func reported(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	status, err := chain().ReflectStatus(u)
	if err != nil {
		t.Error(err)
	}
	return status
}

// judged returns the verdict on an object.
func judged(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	verdict, err := chain().InterpretHealth(u)
	if err != nil {
		t.Error(err)
	}
	return verdict
}

func TestNothingHasNoHealth(t *testing.T) {
	t.Parallel()
	for _, u := range []*unstructured.Unstructured{nil, {}} {
		if got := chain().AssessHealth(u); got.Status != health.Unknown {
			t.Errorf("want Unknown, got %+v", got)
		}
	}
}

func BenchmarkDeploymentHealth(b *testing.B) {
	u := build.ParseObject(b, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, generation: 3}
spec: {replicas: 3}
status:
  observedGeneration: 3
  replicas: 3
  updatedReplicas: 3
  readyReplicas: 3
  availableReplicas: 3
  conditions: [{type: Available, status: "True"}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]
`)
	kinds := chain()
	b.ReportAllocs()
	for b.Loop() {
		if kinds.AssessHealth(u).Status != health.Healthy {
			b.Fatal(kinds.AssessHealth(u))
		}
	}
}
