// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// template is a kind whose templates are checked. Two clusters have half of it
// each: of the first all is well, and of the second it is as its state says.
type template struct {
	object string
	// waits is the condition that users wait for, if there is one.
	waits                      string
	ready, progressing, failed string
	// enough says that it is enough if all is well in one cluster.
	enough bool
	// want has, for each state and check, another verdict than that of the state.
	want map[string]health.Status
}

// checks are the verdicts on a template of those who look at it: kstatus is also what
// Flux asks.
func checks(t template, u *unstructured.Unstructured) map[string]func(*unstructured.Unstructured) health.Status {
	all := map[string]func(*unstructured.Unstructured) health.Status{"kstatus": theirs, "ours": ours}
	if t.waits != "" {
		all["wait"] = func(u *unstructured.Unstructured) health.Status { return waited(u, t.waits) }
	}
	switch u.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet":
		all["rollout"] = rolledOut
	}
	if judges := argo(u.GetKind()); judges != nil {
		all["argo"] = judges
	}
	return all
}

// waited is what kubectl wait --for=condition does: the condition is True, and
// not about an older generation.
func waited(u *unstructured.Unstructured, name string) health.Status {
	c := fields.ConditionOf(u.Object, name)
	observed, has := fields.Int(u.Object, "status", "observedGeneration")
	if c.ObservedGeneration != 0 {
		observed, has = c.ObservedGeneration, true
	}
	return healthyIf(c.True() && (!has || observed >= u.GetGeneration()))
}

func healthyIf(well bool) health.Status {
	if well {
		return health.Healthy
	}
	return health.Progressing
}

// rolledOut is what kubectl rollout status does.
func rolledOut(u *unstructured.Unstructured) health.Status {
	number := func(name string) int64 { return fields.IntOr(0, u.Object, "status", name) }
	want := fields.IntOr(1, u.Object, "spec", "replicas")
	if number("observedGeneration") < u.GetGeneration() {
		return health.Progressing
	}
	switch u.GetKind() {
	case "Deployment":
		if fields.ConditionOf(u.Object, "Progressing").Reason == "ProgressDeadlineExceeded" {
			return health.Degraded
		}
		return healthyIf(number("updatedReplicas") >= want && number("replicas") <= number("updatedReplicas") &&
			number("availableReplicas") >= number("updatedReplicas"))
	case "StatefulSet":
		return healthyIf(number("readyReplicas") >= want &&
			fields.String(u.Object, "status", "currentRevision") == fields.String(u.Object, "status", "updateRevision"))
	default:
		return healthyIf(number("updatedNumberScheduled") >= number("desiredNumberScheduled") &&
			number("numberAvailable") >= number("desiredNumberScheduled"))
	}
}

const (
	seen    = `generation: 5, observedGeneration: 5, resourceTemplateGeneration: 3, `
	notSeen = `generation: 4, observedGeneration: 4, resourceTemplateGeneration: 2, `
)

func templates() map[string]template {
	const (
		available    = `{type: Available, status: "True", reason: MinimumReplicasAvailable}`
		notAvailable = `{type: Available, status: "False", reason: MinimumReplicasUnavailable}`
	)
	return map[string]template{
		"Deployment": {
			object: `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4, progressDeadlineSeconds: 600}}`, waits: "Available",
			ready:       `replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2, conditions: [` + available + `, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`,
			progressing: `replicas: 3, readyReplicas: 2, updatedReplicas: 1, availableReplicas: 2, unavailableReplicas: 1, conditions: [` + available + `, {type: Progressing, status: "True", reason: ReplicaSetUpdated}]`,
			failed:      `replicas: 2, updatedReplicas: 2, unavailableReplicas: 2, conditions: [` + notAvailable + `, {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]`,
			want: map[string]health.Status{
				"progressing wait": health.Healthy, // as on one cluster: enough replicas are available
				"failed wait":      health.Progressing,
				"silent rollout":   health.Healthy, "silent argo": health.Healthy, "silent ours": health.Healthy, // all that they count was there when the cluster was
			},
		},
		"StatefulSet": {
			object:      `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 4}}`,
			ready:       `replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2, currentRevision: b, updateRevision: b`,
			progressing: `replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b`,
			failed:      `replicas: 2, readyReplicas: 1, availableReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b`,
		},
		"DaemonSet": {
			object:      `{apiVersion: apps/v1, kind: DaemonSet, spec: {}}`,
			ready:       `desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2, numberAvailable: 2`,
			progressing: `desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberReady: 1, numberAvailable: 1, numberUnavailable: 1`,
			failed:      `desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberUnavailable: 2`,
		},
		"ReplicaSet": {
			object:      `{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 4}}`,
			ready:       `replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 2, availableReplicas: 2`,
			progressing: `replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 1, availableReplicas: 1`,
			failed:      `replicas: 0, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate}]`,
			want:        map[string]health.Status{"failed argo": health.Degraded, "failed ours": health.Degraded},
		},
		"Thing": {
			object: `{apiVersion: example.com/v1, kind: Thing, spec: {}}`, waits: "Ready",
			ready:       `conditions: [{type: Ready, status: "True"}]`,
			progressing: `conditions: [{type: Ready, status: "False"}, {type: Reconciling, status: "True"}]`,
			failed:      `conditions: [{type: Ready, status: "False"}, {type: Stalled, status: "True"}]`,
			want:        map[string]health.Status{"failed kstatus": health.Degraded, "failed ours": health.Degraded},
		},
		"PodDisruptionBudget": {
			object:      `{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {}}`,
			ready:       `currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, disruptionsAllowed: 1`,
			progressing: `currentHealthy: 0, desiredHealthy: 3, expectedPods: 3`,
			want:        map[string]health.Status{"progressing kstatus": health.Healthy}, // it does not look at the numbers
		},
	}
}

// jobs and their like report no generations.
func plain() map[string]template {
	return map[string]template{
		"Job": {
			object: `{apiVersion: batch/v1, kind: Job, spec: {completions: 2}}`, waits: "Complete",
			ready:       `succeeded: 1, startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:00:09Z", conditions: [{type: Complete, status: "True"}]`,
			progressing: `active: 1, startTime: "2026-01-01T00:00:00Z"`,
			failed:      `failed: 1, startTime: "2026-01-01T00:00:00Z", conditions: [{type: Failed, status: "True"}]`,
			want: map[string]health.Status{
				"progressing kstatus": health.Healthy, "unreported kstatus": health.Healthy, // a Job that has started is Current to it
				"failed kstatus": health.Degraded, "failed argo": health.Degraded, "failed ours": health.Degraded,
				"silent kstatus": health.Healthy, "silent wait": health.Healthy, "silent argo": health.Healthy, "silent ours": health.Healthy, // what has ended does not change
			},
		},
		"Pod": {
			object: `{apiVersion: v1, kind: Pod, spec: {}}`, waits: "Ready",
			ready:       `phase: Running, conditions: [{type: Ready, status: "True"}]`,
			progressing: `phase: Pending, conditions: [{type: Ready, status: "False"}]`,
			failed:      `phase: Failed, conditions: [{type: Ready, status: "False"}]`,
			want: map[string]health.Status{
				"failed kstatus": health.Healthy, // a Pod that has ended is Current to it
				"failed argo":    health.Degraded, "failed ours": health.Degraded,
			},
		},
		"PersistentVolumeClaim": {
			object: `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {}}`,
			ready:  `phase: Bound`, progressing: `phase: Pending`, failed: `phase: Lost`,
			want: map[string]health.Status{"failed argo": health.Degraded, "failed ours": health.Degraded},
		},
		"Service": {
			object: `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}}`, enough: true,
			ready: `loadBalancer: {ingress: [{ip: 192.0.2.1}]}`, progressing: `loadBalancer: {}`,
			want: map[string]health.Status{"nowhere kstatus": health.Healthy}, // it does not look for an address
		},
		"Ingress": {
			object: `{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {}}`, enough: true,
			ready: `loadBalancer: {ingress: [{hostname: a.example.com}]}`, progressing: `loadBalancer: {}`,
			want: map[string]health.Status{"nowhere kstatus": health.Healthy, "nowhere ours": health.Healthy}, // many controllers give none
		},
		"CronJob": {
			object: `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *"}}`, enough: true,
			ready: `lastScheduleTime: "2026-01-01T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:09Z"`, progressing: `active: [{name: a}]`,
			want: map[string]health.Status{"nowhere kstatus": health.Healthy, "nowhere ours": health.Healthy}, // it has nothing to end
		},
	}
}

// TestTemplatesAreJudgedLikeWhatTheyMake aggregates what two clusters report,
// and has all who judge objects look at the template.
func TestTemplatesAreJudgedLikeWhatTheyMake(t *testing.T) {
	for name, kind := range templates() {
		states := map[string]interpret.Item{
			"ready": item(t, seen+kind.ready, "Healthy"), "progressing": item(t, seen+kind.progressing, "Unhealthy"),
			"not seen": item(t, notSeen+kind.ready, "Healthy"), "silent": item(t, seen+kind.ready, "Unknown"),
			"silent for long": item(t, notSeen+kind.ready, "Unknown"), "unreported": {Applied: true},
		}
		if kind.failed != "" {
			states["failed"] = item(t, seen+kind.failed, "Unhealthy")
		}
		judge(t, name, kind, item(t, seen+kind.ready, "Healthy"), states)
	}
	for name, kind := range plain() {
		states := map[string]interpret.Item{
			"ready": item(t, kind.ready, "Healthy"), "progressing": item(t, kind.progressing, "Unhealthy"),
			"silent": item(t, kind.ready, "Unknown"), "unreported": {Applied: true},
		}
		if kind.failed != "" {
			states["failed"] = item(t, kind.failed, "Unhealthy")
		}
		judge(t, name, kind, item(t, kind.ready, "Healthy"), states)
		if kind.enough {
			judge(t, name, kind, item(t, kind.progressing, "Unhealthy"), map[string]interpret.Item{"nowhere": item(t, kind.progressing, "Unhealthy")})
		}
	}
}

func item(t *testing.T, status, health string) interpret.Item {
	t.Helper()
	return interpret.Item{Status: fields.Map(read(t, "{kind: x, status: {"+status+"}}").Object, "status"), Applied: true, Health: health}
}

func judge(t *testing.T, name string, kind template, first interpret.Item, states map[string]interpret.Item) {
	t.Helper()
	first.Cluster = "a"
	for state, second := range states {
		second.Cluster = "b"
		u := read(t, kind.object)
		u.SetGeneration(3)
		status, _, err := interpret.Chain{native.New()}.Aggregate(u, []interpret.Item{first, second})
		if err != nil {
			t.Fatal(err)
		}
		u.Object["status"] = status
		for check, verdict := range checks(kind, u) {
			want, special := kind.want[state+" "+check]
			switch {
			case special:
			case state == "ready", state == "silent" && kind.waits == "", kind.enough && state != "nowhere":
				want = health.Healthy
			case state == "failed" && name == "Deployment":
				want = health.Degraded
			default:
				want = health.Progressing
			}
			if got := verdict(u); got != want {
				t.Errorf("%s, %s, %s: want %s, got %s\n%v", name, state, check, want, got, status)
			}
		}
	}
}
