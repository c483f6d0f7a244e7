// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"strings"
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
	// fails says that the status of a cluster in which it failed tells every judge so.
	fails bool
	// unknown says that it is a kind that Argo CD has no check for.
	unknown bool
	// differences are by state and judge, as "failed wait".
	differences map[string]otherwise
}

// otherwise is a verdict that differs from what the state of a template means, and why one judge has it.
type otherwise struct {
	verdict health.Status
	why     string
}

// verdicts are those of all who look at a template: kstatus is also what Flux asks.
func verdicts(t *testing.T, kind template, u *unstructured.Unstructured, argo argo) map[string]health.Status {
	t.Helper()
	all := map[string]health.Status{"kstatus": theirs(u), "ours": ours(u)}
	if kind.waits != "" {
		all["wait"] = waited(t, u, kind.waits)
	}
	switch u.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet":
		all["rollout"] = rolledOut(t, u)
	}
	if !kind.unknown {
		all["argo"] = argo.health(t, u)
	}
	return all
}

// nowhere is the state in which neither cluster is ready.
const nowhere = "nowhere"

// seen is the status that a cluster reports of the template as it is, in generation 3, and notSeen that of the template
// before. GENERATION is that of the object in the cluster.
func seen(status string) string {
	return `resourceTemplateGeneration: 3, generation: 5, observedGeneration: 5, ` + strings.ReplaceAll(status, "GENERATION", "5")
}

func notSeen(status string) string {
	return `resourceTemplateGeneration: 2, generation: 4, observedGeneration: 4, ` + strings.ReplaceAll(status, "GENERATION", "4")
}

// TestTemplatesAreJudgedLikeWhatTheyMake aggregates what two clusters report,
// and has all who judge objects look at the template.
func TestTemplatesAreJudgedLikeWhatTheyMake(t *testing.T) {
	const (
		available    = `{type: Available, status: "True", reason: MinimumReplicasAvailable}`
		notAvailable = `{type: Available, status: "False", reason: MinimumReplicasUnavailable}`

		counted      = "all that it counts was there when the cluster was"
		notCreated   = "pods that cannot be created do not come by waiting"
		noGeneration = "it asks the condition only, whatever generation that is about, and to it Unknown is fine"
		stalled      = "a controller that has given up does not get on by waiting"
	)
	argo := startArgo(t)
	for name, kind := range map[string]template{
		"Deployment": {
			object: `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4, progressDeadlineSeconds: 600}}`, waits: "Available", fails: true,
			ready:       `replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2, conditions: [` + available + `, {type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`,
			progressing: `replicas: 3, readyReplicas: 2, updatedReplicas: 1, availableReplicas: 2, unavailableReplicas: 1, conditions: [` + available + `, {type: Progressing, status: "True", reason: ReplicaSetUpdated}]`,
			failed:      `replicas: 2, updatedReplicas: 2, unavailableReplicas: 2, conditions: [` + notAvailable + `, {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]`,
			differences: map[string]otherwise{
				"progressing wait": {health.Healthy, "enough replicas are available, as on one cluster"},
				"failed wait":      {health.Progressing, "it waits for the condition and for nothing else"},
				"silent rollout":   {health.Healthy, counted}, "silent argo": {health.Healthy, counted}, "silent ours": {health.Healthy, counted},
			},
		},
		"StatefulSet": {
			object:      `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 4, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}}`,
			ready:       `replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2, currentRevision: b, updateRevision: b`,
			progressing: `replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b`,
			failed:      `replicas: 2, readyReplicas: 1, availableReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b`,
		},
		"StatefulSet without a partition": {
			object:      `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 4, updateStrategy: {type: RollingUpdate}}}`,
			ready:       `replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 2, updatedReplicas: 2, currentRevision: b, updateRevision: b`,
			progressing: `replicas: 2, readyReplicas: 2, availableReplicas: 2, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b`,
			failed:      `replicas: 2, readyReplicas: 1, availableReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: a, updateRevision: b`,
		},
		"DaemonSet": {
			object:      `{apiVersion: apps/v1, kind: DaemonSet, spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}}`,
			ready:       `desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2, numberAvailable: 2`,
			progressing: `desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberReady: 1, numberAvailable: 1, numberUnavailable: 1`,
			failed:      `desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberUnavailable: 2`,
		},
		"ReplicaSet": {
			object:      `{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 4}}`,
			ready:       `replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 2, availableReplicas: 2`,
			progressing: `replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 1, availableReplicas: 1`,
			failed:      `replicas: 0, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate}]`,
			differences: map[string]otherwise{"failed argo": {health.Degraded, notCreated}, "failed ours": {health.Degraded, notCreated}},
		},
		"Thing": {
			object: `{apiVersion: example.com/v1, kind: Thing, spec: {}}`, waits: "Ready", unknown: true,
			ready:       `conditions: [{type: Ready, status: "True"}]`,
			progressing: `conditions: [{type: Ready, status: "False"}, {type: Reconciling, status: "True"}]`,
			failed:      `conditions: [{type: Ready, status: "False"}, {type: Stalled, status: "True"}]`,
			differences: map[string]otherwise{
				"failed kstatus": {health.Degraded, stalled}, "failed ours": {health.Degraded, stalled},
			},
		},
		"Thing whose conditions have generations": {
			object: `{apiVersion: example.com/v1, kind: Thing, spec: {}}`, waits: "Ready", unknown: true,
			ready:       `conditions: [{type: Ready, status: "True", observedGeneration: GENERATION}]`,
			progressing: `conditions: [{type: Ready, status: "False", observedGeneration: GENERATION}]`,
		},
		"PodDisruptionBudget": {
			object:      `{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {}}`,
			ready:       `currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, disruptionsAllowed: 1, conditions: [{type: DisruptionAllowed, status: "True", reason: SufficientPods}]`,
			progressing: `currentHealthy: 0, desiredHealthy: 3, expectedPods: 3, conditions: [{type: DisruptionAllowed, status: "False", reason: InsufficientPods}]`,
			differences: map[string]otherwise{
				"progressing kstatus": {health.Healthy, "it does not look at the numbers"},
				"progressing argo":    {health.Healthy, "to it too few pods are no trouble of the budget"},
				"not seen argo":       {health.Healthy, noGeneration}, "unreported argo": {health.Healthy, noGeneration}, "silent for long argo": {health.Healthy, noGeneration},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ready := item(t, seen(kind.ready), "Healthy")
			states := map[string]interpret.ClusterItem{
				"ready": ready, "progressing": item(t, seen(kind.progressing), "Unhealthy"),
				"not seen": item(t, notSeen(kind.ready), "Healthy"), "silent": item(t, seen(kind.ready), "Unknown"),
				"silent for long": item(t, notSeen(kind.ready), "Unknown"), "unreported": {Applied: true},
			}
			if kind.failed != "" {
				states["failed"] = item(t, seen(kind.failed), "Unhealthy")
			}
			judge(t, kind, argo, states, ready)
		})
	}
}

// TestTemplatesWithoutGenerationsAreJudgedLikeWhatTheyMake does so with Jobs and their like, which report none.
func TestTemplatesWithoutGenerationsAreJudgedLikeWhatTheyMake(t *testing.T) {
	const (
		started   = "a Job that has started is Current to it"
		ended     = "what has ended does not change"
		failed    = "what has failed does not succeed by waiting"
		lost      = "a volume that is gone does not come back"
		schedules = "a CronJob has nothing to end"
	)
	argo := startArgo(t)
	for name, kind := range map[string]template{
		"Job": {
			object: `{apiVersion: batch/v1, kind: Job, spec: {completions: 2}}`, waits: "Complete",
			ready:       `succeeded: 1, startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:00:09Z", conditions: [{type: Complete, status: "True"}]`,
			progressing: `active: 1, startTime: "2026-01-01T00:00:00Z"`,
			failed:      `failed: 1, startTime: "2026-01-01T00:00:00Z", conditions: [{type: Failed, status: "True"}]`,
			differences: map[string]otherwise{
				"progressing kstatus": {health.Healthy, started}, "unreported kstatus": {health.Healthy, started},
				"failed kstatus": {health.Degraded, failed}, "failed argo": {health.Degraded, failed}, "failed ours": {health.Degraded, failed},
				"silent kstatus": {health.Healthy, ended}, "silent wait": {health.Healthy, ended}, "silent argo": {health.Healthy, ended}, "silent ours": {health.Healthy, ended},
			},
		},
		"Pod": {
			object: `{apiVersion: v1, kind: Pod, spec: {restartPolicy: Always}}`, waits: "Ready",
			ready:       `phase: Running, conditions: [{type: Ready, status: "True"}]`,
			progressing: `phase: Pending, conditions: [{type: Ready, status: "False"}]`,
			failed:      `phase: Failed, conditions: [{type: Ready, status: "False"}]`,
			differences: map[string]otherwise{
				"failed kstatus": {health.Healthy, "a Pod that has ended is Current to it, however it ended"},
				"failed argo":    {health.Degraded, failed}, "failed ours": {health.Degraded, failed},
			},
		},
		"PersistentVolumeClaim": {
			object: `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {}}`,
			ready:  `phase: Bound`, progressing: `phase: Pending`, failed: `phase: Lost`,
			differences: map[string]otherwise{"failed argo": {health.Degraded, lost}, "failed ours": {health.Degraded, lost}},
		},
		"Service": {
			object: `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}}`, enough: true,
			ready: `loadBalancer: {ingress: [{ip: 192.0.2.1}]}`, progressing: `loadBalancer: {}`,
			differences: map[string]otherwise{"nowhere kstatus": {health.Healthy, "it does not look for an address"}},
		},
		"Ingress": {
			object: `{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {}}`, enough: true,
			ready: `loadBalancer: {ingress: [{hostname: a.example.com}]}`, progressing: `loadBalancer: {}`,
			differences: map[string]otherwise{"nowhere kstatus": {health.Healthy, "it does not look for an address"}, "nowhere ours": {health.Healthy, "many controllers of Ingresses report none"}},
		},
		"CronJob": {
			object: `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *"}}`, enough: true,
			ready: `lastScheduleTime: "2026-01-01T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:09Z"`, progressing: `active: [{name: a}]`,
			differences: map[string]otherwise{"nowhere kstatus": {health.Healthy, schedules}, "nowhere argo": {health.Healthy, schedules}, "nowhere ours": {health.Healthy, schedules}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ready := item(t, kind.ready, "Healthy")
			states := map[string]interpret.ClusterItem{
				"ready": ready, "progressing": item(t, kind.progressing, "Unhealthy"),
				"silent": item(t, kind.ready, "Unknown"), "unreported": {Applied: true},
			}
			if kind.failed != "" {
				states["failed"] = item(t, kind.failed, "Unhealthy")
			}
			if kind.enough {
				states[nowhere] = item(t, kind.progressing, "Unhealthy")
			}
			judge(t, kind, argo, states, ready)
		})
	}
}

func item(t *testing.T, status, health string) interpret.ClusterItem {
	t.Helper()
	return interpret.ClusterItem{Status: fields.Map(read(t, "{kind: x, status: {"+status+"}}").Object, "status"), Applied: true, Health: health}
}

// judge compares the verdicts on a template in all states of its second cluster with what each state means. Nowhere the
// first is not ready either.
func judge(t *testing.T, kind template, argo argo, states map[string]interpret.ClusterItem, ready interpret.ClusterItem) {
	t.Helper()
	differ := map[string]bool{}
	for state, second := range states {
		first := ready
		if state == nowhere {
			first = second
		}
		first.Cluster, second.Cluster = "a", "b"
		u := read(t, kind.object)
		u.SetName("a")
		u.SetGeneration(3)
		status, _, err := interpret.Chain{native.NewKubernetesKinds()}.AggregateStatus(u, []interpret.ClusterItem{first, second})
		if err != nil {
			t.Fatal(err)
		}
		u.Object["status"] = status
		for judge, got := range verdicts(t, kind, u, argo) {
			want, why := kind.meaning(state), "as the state is"
			if known, has := kind.differences[state+" "+judge]; has {
				differ[state+" "+judge] = known.verdict != want
				want, why = known.verdict, known.why
			}
			if got != want {
				t.Errorf("%s, %s: want %s (%s), got %s\n%v", state, judge, want, why, got, status)
			}
		}
	}
	for name := range kind.differences {
		if !differ[name] {
			t.Errorf("the difference %q does not occur: take it out", name)
		}
	}
}

// meaning is the verdict on a template whose second cluster is in a state.
func (k template) meaning(state string) health.Status {
	switch {
	case state == "ready", k.enough && state != nowhere:
		return health.Healthy
	case state == "silent" && k.waits == "": // no condition says that the cluster is silent
		return health.Healthy
	case state == "failed" && k.fails:
		return health.Degraded
	default:
		return health.Progressing
	}
}
