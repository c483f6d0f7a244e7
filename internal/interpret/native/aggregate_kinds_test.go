// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

func TestAggregatedReplicas(t *testing.T) {
	t.Parallel()
	const at3 = `generation: 7, observedGeneration: 7, resourceTemplateGeneration: 3, `
	checkSums(t, "apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 3}", map[string]sum{
		"all have the new revision": {`spec: {}`, []report{
			{`{` + at3 + `replicas: 1, readyReplicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: x, updateRevision: x}`, "Healthy"},
			{`{` + at3 + `replicas: 2, readyReplicas: 2, currentReplicas: 2, updatedReplicas: 2, currentRevision: y, updateRevision: y}`, "Healthy"},
		}, `{observedGeneration: 3, replicas: 3, readyReplicas: 3, currentReplicas: 3, updatedReplicas: 3, currentRevision: x, updateRevision: x}`},
		"one rolls out": {`spec: {}`, []report{
			{`{` + at3 + `replicas: 1, currentReplicas: 1, updatedReplicas: 1, currentRevision: x, updateRevision: x}`, "Healthy"},
			{`{` + at3 + `replicas: 2, currentReplicas: 1, updatedReplicas: 1, currentRevision: w, updateRevision: x}`, "Unhealthy"},
		}, `{observedGeneration: 3, replicas: 3, currentReplicas: 2, updatedReplicas: 2, currentRevision: w, updateRevision: x}`},
		"none has reported": {`status: {observedGeneration: 3, replicas: 1, currentRevision: x}`, []report{{}}, `{observedGeneration: 2}`},
	})
	for _, head := range []string{"apiVersion: apps/v1, kind: ReplicaSet", "apiVersion: v1, kind: ReplicationController"} {
		checkSums(t, head+", metadata: {generation: 3}", map[string]sum{
			"two clusters": {`spec: {}`, []report{
				{`{` + at3 + `replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1}`, "Healthy"}, {`{` + at3 + `replicas: 2}`, "Unhealthy"},
			}, `{observedGeneration: 3, replicas: 3, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1}`},
		})
	}
	checkSums(t, "apiVersion: apps/v1, kind: DaemonSet, metadata: {generation: 3}", map[string]sum{
		"two clusters": {`spec: {}`, []report{
			{`{` + at3 + `currentNumberScheduled: 1, desiredNumberScheduled: 2, numberAvailable: 3, numberMisscheduled: 4, numberReady: 5, updatedNumberScheduled: 6, numberUnavailable: 7}`, ""},
			{`{` + at3 + `currentNumberScheduled: 1, desiredNumberScheduled: 1, numberAvailable: 1, numberMisscheduled: 1, numberReady: 1, updatedNumberScheduled: 1, numberUnavailable: 1}`, ""},
		}, `{observedGeneration: 3, currentNumberScheduled: 2, desiredNumberScheduled: 3, numberAvailable: 4, numberMisscheduled: 5, numberReady: 6, updatedNumberScheduled: 7, numberUnavailable: 8}`},
	})
	checkSums(t, "apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {generation: 3}", map[string]sum{
		"two clusters": {`spec: {}`, []report{
			{`{currentReplicas: 1, desiredReplicas: 2, lastScaleTime: "2026-01-01T00:00:00Z", conditions: [{type: ScalingActive, status: "True", reason: ValidMetricFound}]}`, ""},
			{`{currentReplicas: 2, desiredReplicas: 2, lastScaleTime: "2026-01-01T00:00:09Z", conditions: [{type: ScalingActive, status: "False", reason: FailedGetResourceMetric, message: no metrics}]}`, ""},
		}, `{currentReplicas: 3, desiredReplicas: 4, lastScaleTime: "2026-01-01T00:00:09Z", conditions: [{type: ScalingActive, status: "False", reason: FailedGetResourceMetric, message: "b=no metrics"}]}`},
	})
	checkSums(t, "apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {generation: 1}", map[string]sum{
		"two clusters": {`spec: {}`, []report{
			{`{observedGeneration: 1, currentHealthy: 1, desiredHealthy: 2, expectedPods: 3, disruptionsAllowed: 0, disruptedPods: {p: "2026-01-01T00:00:00Z"}}`, ""},
			{`{observedGeneration: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3, disruptionsAllowed: 1, disruptedPods: {p: "2026-01-01T00:00:01Z"}}`, ""},
		}, `{observedGeneration: 1, currentHealthy: 4, desiredHealthy: 4, expectedPods: 6, disruptionsAllowed: 1, disruptedPods: {a/p: "2026-01-01T00:00:00Z", b/p: "2026-01-01T00:00:01Z"}}`},
	})
}

func TestAggregatedJob(t *testing.T) {
	t.Parallel()
	const (
		complete = `startTime: "2026-01-01T00:00:01Z", completionTime: "2026-01-01T00:00:09Z", conditions: [{type: SuccessCriteriaMet, status: "True", reason: CompletionsReached}, {type: Complete, status: "True", reason: CompletionsReached, lastTransitionTime: "2026-01-01T00:00:09Z"}]`
		failed   = `startTime: "2026-01-01T00:00:02Z", conditions: [{type: FailureTarget, status: "True", reason: BackoffLimitExceeded, message: too often, lastTransitionTime: "2026-01-01T00:00:07Z"}, {type: Failed, status: "True", reason: BackoffLimitExceeded, message: too often, lastTransitionTime: "2026-01-01T00:00:08Z"}]`
	)
	checkSums(t, "apiVersion: batch/v1, kind: Job, spec: {completions: 4}", map[string]sum{
		"running": {
			`metadata: {}`,
			[]report{{`{active: 1, succeeded: 1, startTime: "2026-01-01T00:00:02Z"}`, "Healthy"}, {`{active: 2, failed: 1, startTime: "2026-01-01T00:00:01Z"}`, "Healthy"}},
			`{active: 3, succeeded: 1, failed: 1, startTime: "2026-01-01T00:00:01Z"}`,
		},
		"a start and counts that are known already": {
			`status: {startTime: "2026-01-01T00:00:03Z", succeeded: 2, failed: 1}`,
			[]report{{`{active: 1, succeeded: 1, startTime: "2026-01-01T00:00:02Z"}`, "Healthy"}},
			`{active: 1, succeeded: 2, failed: 1, startTime: "2026-01-01T00:00:03Z"}`,
		},
		"complete in one of two": {
			`metadata: {}`,
			[]report{{`{succeeded: 2, ` + complete + `}`, "Healthy"}, {`{active: 1, startTime: "2026-01-01T00:00:05Z"}`, "Healthy"}},
			`{active: 1, succeeded: 2, startTime: "2026-01-01T00:00:01Z"}`,
		},
		"complete in one, and nothing is known of the other": {`metadata: {}`, []report{{`{succeeded: 2, ` + complete + `}`, "Healthy"}, {}}, `{succeeded: 2, startTime: "2026-01-01T00:00:01Z"}`},
		"complete in both, of which one is silent": {
			`metadata: {}`,
			[]report{{`{succeeded: 2, ` + complete + `}`, "Healthy"}, {`{succeeded: 2, ` + complete + `}`, "Unknown"}},
			`{succeeded: 4, startTime: "2026-01-01T00:00:01Z", completionTime: "2026-01-01T00:00:09Z", conditions: [
			{type: Complete, status: "True", reason: CompletionsReached, lastTransitionTime: "2026-01-01T00:00:09Z"}, {type: SuccessCriteriaMet, status: "True", reason: CompletionsReached, lastTransitionTime: "2026-01-01T00:00:09Z"}]}`,
		},
		"failed in one, and running in the other": {
			`metadata: {}`,
			[]report{{`{failed: 2, ` + failed + `}`, "Unhealthy"}, {`{active: 1, startTime: "2026-01-01T00:00:05Z"}`, "Healthy"}},
			`{active: 1, failed: 2, startTime: "2026-01-01T00:00:02Z", conditions: [{type: FailureTarget, status: "True", reason: BackoffLimitExceeded, message: "a=too often", lastTransitionTime: "2026-01-01T00:00:08Z"}]}`,
		},
		"failed in one, and complete in the other": {
			`metadata: {}`,
			[]report{{`{failed: 2, ` + failed + `}`, "Unhealthy"}, {`{succeeded: 2, ` + complete + `}`, "Healthy"}},
			`{succeeded: 2, failed: 2, startTime: "2026-01-01T00:00:01Z", conditions: [
			{type: FailureTarget, status: "True", reason: BackoffLimitExceeded, message: "a=too often", lastTransitionTime: "2026-01-01T00:00:08Z"},
			{type: Failed, status: "True", reason: BackoffLimitExceeded, message: "a=too often", lastTransitionTime: "2026-01-01T00:00:08Z"}]}`,
		},
		"it failed in a cluster that has gone": {
			`status: {conditions: [{type: FailureTarget, status: "True", reason: r, lastTransitionTime: "2026-01-01T00:00:08Z"}]}`,
			[]report{{`{active: 1, startTime: "2026-01-01T00:00:05Z"}`, "Healthy"}},
			`{active: 1, startTime: "2026-01-01T00:00:05Z", conditions: [{type: FailureTarget, status: "True", reason: r, lastTransitionTime: "2026-01-01T00:00:08Z"}]}`,
		},
		"it has ended before": {`status: {conditions: [{type: Complete, status: "True"}]}`, []report{{`{active: 1}`, "Healthy"}}, ``},
		"suspended": {
			`metadata: {}`,
			[]report{{`{conditions: [{type: Suspended, status: "True", reason: JobSuspended, message: Job suspended}]}`, "Healthy"}, {`{conditions: [{type: Suspended, status: "True", reason: JobSuspended, message: Job suspended}]}`, "Healthy"}},
			`{conditions: [{type: Suspended, status: "True", reason: JobSuspended, message: "a=Job suspended, b=Job suspended"}]}`,
		},
		"no cluster": {`status: {active: 1}`, nil, ``},
		"odd":        {`status: text`, []report{{`{active: x, startTime: 1, completionTime: [], conditions: [5, {type: Complete, status: true}]}`, ""}}, ``},
	})
}

func TestAggregatedCronJobAndPod(t *testing.T) {
	t.Parallel()
	checkSums(t, "apiVersion: batch/v1, kind: CronJob", map[string]sum{
		"two clusters": {`spec: {}`, []report{
			{`{active: [{name: x}], lastScheduleTime: "2026-01-01T00:00:00Z", lastSuccessfulTime: "2026-01-01T00:00:01Z"}`, ""},
			{`{active: [{name: y}], lastScheduleTime: "2026-01-01T01:00:00+01:00"}`, ""},
			{`{active: x, lastScheduleTime: "2026-01-01T00:01:00Z", lastSuccessfulTime: never}`, ""},
		}, `{active: [{name: x}, {name: y}], lastScheduleTime: "2026-01-01T00:01:00Z", lastSuccessfulTime: "2026-01-01T00:00:01Z"}`},
		"none has run": {`spec: {}`, []report{{}}, ``}, "no cluster": {`spec: {}`, nil, ``},
	})
	const ready = `conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:01Z"}]`
	checkSums(t, "apiVersion: v1, kind: Pod", map[string]sum{
		"ready": {
			`status: {qosClass: BestEffort, phase: Pending}`,
			[]report{{`{phase: Running, podIP: 10.0.0.1, ` + ready + `, containerStatuses: [{name: x, ready: true}]}`, ""}},
			`{phase: Running, qosClass: BestEffort, ` + ready + `, containerStatuses: [{name: x, ready: true}]}`,
		},
		"ready in both": {`spec: {}`, []report{
			{`{phase: Running, startTime: "2026-01-01T00:00:02Z", ` + ready + `, initContainerStatuses: [{name: i}], containerStatuses: [{name: x, ready: true}, odd]}`, ""},
			{`{phase: Running, startTime: "2026-01-01T00:00:01Z", ` + ready + `, containerStatuses: [{name: x, ready: true}]}`, ""},
		}, `{phase: Running, startTime: "2026-01-01T00:00:01Z", ` + ready + `, initContainerStatuses: [{name: a/i}], containerStatuses: [{name: a/x, ready: true}, {name: b/x, ready: true}]}`},
		"not reported by one": {
			`spec: {}`,
			[]report{{`{phase: Running, ` + ready + `}`, ""}, {}},
			`{phase: Pending, conditions: [{type: Ready, status: Unknown, reason: NotReported, message: "b: has not reported yet", lastTransitionTime: "2026-01-01T00:00:01Z"}]}`,
		},
		"failed in one":    {`spec: {}`, []report{{`{phase: Running}`, ""}, {`{phase: Failed}`, ""}, {}}, `{phase: Failed}`},
		"succeeded in one": {`spec: {}`, []report{{`{phase: Succeeded}`, ""}, {`{phase: Running}`, ""}}, `{phase: Running}`},
		"succeeded":        {`spec: {}`, []report{{`{phase: Succeeded}`, ""}, {`{phase: Succeeded}`, ""}}, `{phase: Succeeded}`},
		"odd":              {`spec: {}`, []report{{`{phase: 5}`, ""}, {`{phase: New}`, ""}}, `{phase: Pending}`},
		"no cluster":       {`status: {phase: Running}`, nil, ``},
	})
}

func TestAggregatedAddressesAndVolumes(t *testing.T) {
	t.Parallel()
	const addresses = `{loadBalancer: {ingress: [{ip: 10.0.0.1}, {ip: 10.0.0.2}, {hostname: lb.example.com}]}}`
	reports := []report{
		{`{loadBalancer: {ingress: [{ip: 10.0.0.2}, {hostname: lb.example.com}, odd]}}`, ""}, {`{loadBalancer: {ingress: [{ip: 10.0.0.1}, {hostname: lb.example.com}]}}`, ""}, {},
	}
	checkSums(t, "apiVersion: networking.k8s.io/v1, kind: Ingress", map[string]sum{
		"two clusters": {`spec: {}`, reports, addresses}, "none yet": {`spec: {}`, []report{{}}, ``},
		"the same address in two clusters": {
			`spec: {}`,
			[]report{{`{loadBalancer: {ingress: [{ip: 10.0.0.1}, {ip: 10.0.0.1, hostname: lb}]}}`, ""}, {`{loadBalancer: {ingress: [{ip: 10.0.0.1}]}}`, ""}},
			`{loadBalancer: {ingress: [{ip: 10.0.0.1}, {ip: 10.0.0.1, hostname: lb}]}}`,
		}, "no cluster": {`status: ` + addresses, nil, ``},
		"the last address has gone": {`status: ` + addresses, []report{{}}, `{loadBalancer: {}}`},
	})
	checkSums(t, "apiVersion: v1, kind: Service", map[string]sum{
		"load balancers": {
			`spec: {type: LoadBalancer}`, reports,
			`{loadBalancer: {ingress: [{ip: 10.0.0.1, ipMode: VIP}, {ip: 10.0.0.2, ipMode: VIP}, {hostname: lb.example.com}]}}`,
		},
		"another type": {`spec: {type: ClusterIP}`, reports, ``}, "no cluster": {`spec: {type: LoadBalancer}`, nil, ``},
	})
	checkSums(t, "apiVersion: v1, kind: PersistentVolumeClaim", map[string]sum{
		"bound": {
			`spec: {}`,
			[]report{{`{phase: Bound, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}`, ""}, {`{phase: Bound, accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}}`, ""}},
			`{phase: Bound, accessModes: [ReadWriteOnce]}`,
		},
		"not everywhere":     {`spec: {}`, []report{{`{phase: Bound}`, ""}, {}}, `{phase: Pending}`},
		"lost in one":        {`spec: {}`, []report{{`{phase: Lost}`, ""}, {`{phase: Pending}`, ""}}, `{phase: Lost}`},
		"lost in the second": {`spec: {}`, []report{{`{phase: Pending}`, ""}, {`{phase: Lost}`, ""}}, `{phase: Lost}`},
		"no cluster":         {`spec: {}`, nil, ``},
	})
	checkSums(t, "apiVersion: v1, kind: PersistentVolume", map[string]sum{
		"bound in one":                   {`spec: {}`, []report{{`{phase: Bound}`, ""}, {`{phase: Available}`, ""}}, `{phase: Available}`},
		"released":                       {`spec: {}`, []report{{`{phase: Released}`, ""}, {`{phase: Bound}`, ""}}, `{phase: Bound}`},
		"failed in one":                  {`spec: {}`, []report{{`{phase: Failed}`, ""}, {}}, `{phase: Failed}`},
		"not reported":                   {`spec: {}`, []report{{`{phase: Bound}`, ""}, {}}, `{phase: Pending}`},
		"a time that the API server set": {`status: {phase: Pending, lastPhaseTransitionTime: t}`, []report{{`{phase: Bound, lastPhaseTransitionTime: u}`, ""}}, `{phase: Bound, lastPhaseTransitionTime: t}`},
		"no cluster":                     {`spec: {}`, nil, ``},
	})
}

// TestAddressesThatTheHubRefuses has of each what it would refuse, with the addresses of
// all other clusters.
func TestAddressesThatTheHubRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		`{ip: 5}`, `{ip: nowhere}`, `{ip: fe80::1%eth0}`, `{hostname: [lb]}`, `{hostname: "a b"}`, `{hostname: 10.0.0.1}`,
		`{ip: 10.0.0.2, ipMode: Direct}`, `{hostname: lb.example.com, ipMode: VIP}`, `{ip: 10.0.0.2, ports: [{port: "80"}]}`, `{ip: 10.0.0.2, ports: 80}`,
	} {
		checkSums(t, "apiVersion: networking.k8s.io/v1, kind: Ingress", map[string]sum{
			address: {
				`spec: {}`,
				[]report{{`{loadBalancer: {ingress: [` + address + `, {ip: 10.0.0.1}]}}`, ""}},
				`{loadBalancer: {ingress: [{ip: 10.0.0.1}]}}`,
			},
		})
	}
}

// TestManyAddresses would not end if each was compared with all others.
func TestManyAddresses(t *testing.T) {
	t.Parallel()
	var addresses []any
	for i := range 100_000 {
		addresses = append(addresses, map[string]any{"hostname": fmt.Sprintf("lb%d.example.com", i)})
	}
	status := map[string]any{"loadBalancer": map[string]any{"ingress": addresses}}
	ingress := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"}}
	got, _ := aggregated(t, ingress, []interpret.ClusterItem{{Cluster: "a", Status: status}})
	if n := len(fields.List(got, "loadBalancer", "ingress")); n != len(addresses) {
		t.Errorf("there are %d addresses, want %d", n, len(addresses))
	}
}

func TestAggregatedThing(t *testing.T) {
	t.Parallel()
	const (
		at3   = `generation: 7, observedGeneration: 7, resourceTemplateGeneration: 3, `
		ready = `{type: Ready, status: "True", reason: Fine, message: it is, observedGeneration: 7, lastTransitionTime: "2026-01-01T00:00:01Z"}`
	)
	checkSums(t, "apiVersion: example.com/v1, kind: Thing, metadata: {generation: 3}", map[string]sum{
		"ready": {`spec: {}`, []report{
			{`{` + at3 + `phase: Up, url: x, replicas: 1, readyReplicas: 1, conditions: [` + ready + `]}`, ""}, {`{` + at3 + `phase: Up, url: y, replicas: 1, conditions: [` + ready + `]}`, ""},
		}, `{observedGeneration: 3, phase: Up, replicas: 2, readyReplicas: 1, conditions: [{type: Ready, status: "True", reason: Fine, message: "a=it is, b=it is", observedGeneration: 3, lastTransitionTime: "2026-01-01T00:00:01Z"}]}`},
		"not ready in one, stalled in another": {`spec: {}`, []report{
			{`{` + at3 + `conditions: [` + ready + `]}`, ""},
			{`{` + at3 + `conditions: [{type: Ready, status: "False", reason: Waiting, message: for b}]}`, ""},
			{`{` + at3 + `conditions: [{type: Ready, status: "False", reason: Stuck, message: for ever}, {type: Stalled, status: "True", reason: Stuck, message: for ever}]}`, ""},
		}, `{observedGeneration: 3, conditions: [{type: Ready, status: "False", reason: Waiting, message: "b=for b, c=for ever", observedGeneration: 0, lastTransitionTime: "2026-01-01T00:00:01Z"},
			{type: Stalled, status: "True", reason: Stuck, message: "c=for ever"}]}`},
		"a condition is for an older generation": {`status: {conditions: [{type: Ready, status: "True", observedGeneration: 2}]}`, []report{
			{`{generation: 7, resourceTemplateGeneration: 3, conditions: [{type: Ready, status: "True", observedGeneration: 6}]}`, ""},
		}, ``},
		"not reported by all":  {`status: {phase: Up}`, []report{{`{` + at3 + `phase: Up}`, ""}, {}}, `{observedGeneration: 0}`},
		"an old agent":         {`spec: {}`, []report{{`{observedGeneration: 1}`, ""}}, `{observedGeneration: 3}`},
		"another shape":        {`spec: {}`, []report{{`{phase: Up}`, ""}, {`{phase: Up}`, ""}}, ``},
		"nothing is reported":  {`spec: {}`, []report{{}, {}}, ``},
		"odd":                  {`status: text`, []report{{`{replicas: many}`, ""}, {`{conditions: {}}`, ""}}, ``},
		"all clusters are new": {`status: {conditions: [{type: Ready, status: "True", reason: Fine}]}`, []report{{}}, `{conditions: [{type: Ready, status: Unknown, reason: NotReported, message: "a: has not reported yet"}]}`},
	})
	for _, head := range []string{
		"apiVersion: v1, kind: Namespace", "apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition", "apiVersion: apiregistration.k8s.io/v1, kind: APIService",
	} {
		checkSums(t, head, map[string]sum{"the hub's own": {`spec: {}`, []report{{`{conditions: [` + ready + `]}`, ""}}, ``}})
	}
}
