// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func TestReflect(t *testing.T) {
	t.Parallel()
	const meta = `metadata: {generation: 4, annotations: {resourcetemplate.karmada.io/generation: "2"}}, `
	for name, c := range map[string]change{
		"a Deployment": {
			`{apiVersion: apps/v1, kind: Deployment, ` + meta + `status: {observedGeneration: 3, replicas: 2, conditions: [{type: Available}]}}`,
			`{observedGeneration: 3, replicas: 2, conditions: [{type: Available}], generation: 4, resourceTemplateGeneration: 2}`,
		},
		"one that its controller has not seen": {`{apiVersion: apps/v1, kind: Deployment, ` + meta + `spec: {}}`, ``},
		"one that is made from no template": {
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 1}, status: {observedGeneration: 1}}`, `{observedGeneration: 1, generation: 1}`,
		},
		"an annotation that is no number": {
			`{apiVersion: apps/v1, kind: DaemonSet, metadata: {annotations: {resourcetemplate.karmada.io/generation: new}}, status: {observedGeneration: 1}}`, `{observedGeneration: 1}`,
		},
		"a custom kind": {
			`{apiVersion: example.com/v1, kind: Thing, ` + meta + `status: {observedGeneration: 3, a: [b]}}`,
			`{observedGeneration: 3, a: [b], generation: 4, resourceTemplateGeneration: 2}`,
		},
		"a custom kind that has the field itself": {
			`{apiVersion: example.com/v1, kind: Thing, ` + meta + `status: {observedGeneration: 3, generation: 3}}`,
			`{observedGeneration: 3, generation: 3, resourceTemplateGeneration: 2}`,
		},
		"a custom kind that counts no generations": {`{apiVersion: example.com/v1, kind: Thing, ` + meta + `status: {a: 1}}`, `{a: 1}`},
		"a Job": {
			`{apiVersion: batch/v1, kind: Job, status: {active: 1, succeeded: 2, failed: 3, ready: 1, terminating: 0, uncountedTerminatedPods: {}, conditions: [{type: Complete}], startTime: a, completionTime: b}}`,
			`{active: 1, succeeded: 2, failed: 3, conditions: [{type: Complete}], startTime: a, completionTime: b}`,
		},
		"a load balancer": {
			`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}, conditions: [{type: a}]}}`,
			`{loadBalancer: {ingress: [{ip: 10.0.0.1}]}}`,
		},
		"another Service": {`{apiVersion: v1, kind: Service, spec: {type: ClusterIP}, status: {loadBalancer: {}}}`, ``},
		"a Secret":        {`{apiVersion: v1, kind: Secret}`, ``},
		"an odd status":   {`{apiVersion: apps/v1, kind: Deployment, status: text}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := build.ParseObject(t, c.from)
			var want map[string]any
			if c.want != "" {
				want, _ = build.ParseObject(t, "{kind: x, status: "+c.want+"}").Object["status"].(map[string]any)
			}
			if diff := cmp.Diff(want, reported(t, from)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(build.ParseObject(t, c.from).Object, from.Object); diff != "" {
				t.Errorf("the object itself was changed: %s", diff)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	type example struct{ object, want string }
	const seen = `metadata: {generation: 2}, status: {observedGeneration: 2, `
	cases := map[string]example{
		"a Pod that is ready":                       {`{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, interpret.Healthy},
		"a Pod that is not ready":                   {`{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "False"}]}}`, interpret.Unhealthy},
		"a Pod that succeeded":                      {`{apiVersion: v1, kind: Pod, status: {phase: Succeeded}}`, interpret.Healthy},
		"a Pod without a phase":                     {`{apiVersion: v1, kind: Pod}`, interpret.Unhealthy},
		"a full ReplicaSet":                         {`{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 2}, status: {availableReplicas: 2}}`, interpret.Healthy},
		"a ReplicaSet with too many":                {`{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 2}, status: {availableReplicas: 3}}`, interpret.Unhealthy},
		"a DaemonSet":                               {`{apiVersion: apps/v1, kind: DaemonSet, ` + seen + `desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}`, interpret.Healthy},
		"a DaemonSet that rolls out":                {`{apiVersion: apps/v1, kind: DaemonSet, ` + seen + `desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2}}`, interpret.Unhealthy},
		"a DaemonSet that is not up":                {`{apiVersion: apps/v1, kind: DaemonSet, ` + seen + `desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}`, interpret.Unhealthy},
		"a Service":                                 {`{apiVersion: v1, kind: Service}`, interpret.Healthy},
		"a load balancer":                           {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: a}]}}}`, interpret.Healthy},
		"no load balancer yet":                      {`{apiVersion: v1, kind: Service, spec: {type: LoadBalancer}}`, interpret.Unhealthy},
		"an Ingress":                                {`{apiVersion: networking.k8s.io/v1, kind: Ingress, status: {loadBalancer: {ingress: [odd, {}, {hostname: a}]}}}`, interpret.Healthy},
		"an Ingress without address":                {`{apiVersion: networking.k8s.io/v1, kind: Ingress, status: {loadBalancer: {ingress: [{ports: []}]}}}`, interpret.Unhealthy},
		"a claim":                                   {`{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Bound, conditions: [{type: Resizing, status: "True"}]}}`, interpret.Healthy},
		"a claim that waits":                        {`{apiVersion: v1, kind: PersistentVolumeClaim, status: {phase: Pending}}`, interpret.Unhealthy},
		"a budget":                                  {`{apiVersion: policy/v1, kind: PodDisruptionBudget, status: {desiredHealthy: 2, currentHealthy: 2}}`, interpret.Healthy},
		"a budget that is not met":                  {`{apiVersion: policy/v1, kind: PodDisruptionBudget, status: {desiredHealthy: 2, currentHealthy: 1}}`, interpret.Unhealthy},
		"a Job that runs":                           {`{apiVersion: batch/v1, kind: Job, status: {startTime: a, active: 1}}`, interpret.Healthy},
		"a Job that failed":                         {`{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: "True"}]}}`, interpret.Unhealthy},
		"a CronJob":                                 {`{apiVersion: batch/v1, kind: CronJob}`, interpret.Healthy},
		"a volume":                                  {`{apiVersion: v1, kind: PersistentVolume, status: {phase: Pending}}`, interpret.Healthy},
		"a thing":                                   {`{apiVersion: example.com/v1, kind: Thing}`, interpret.Healthy},
		"a thing that is not ready":                 {`{apiVersion: example.com/v1, kind: Thing, status: {conditions: [{type: Ready, status: "False"}]}}`, interpret.Unhealthy},
		"a thing that is stalled":                   {`{apiVersion: example.com/v1, kind: Thing, status: {conditions: [{type: Stalled, status: "True"}]}}`, interpret.Unhealthy},
		"a thing that goes away":                    {`{apiVersion: example.com/v1, kind: Thing, metadata: {deletionTimestamp: a}}`, interpret.Healthy},
		"a thing with an odd status":                {`{apiVersion: example.com/v1, kind: Thing, status: text}`, interpret.Unknown},
		"a Deployment with a status that is a text": {`{apiVersion: apps/v1, kind: Deployment, status: text}`, interpret.Unknown},
	}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		head := `{apiVersion: apps/v1, kind: ` + kind + `, spec: {replicas: 2}, `
		for name, e := range map[string]example{
			"a full ":               {head + seen + `updatedReplicas: 2, availableReplicas: 2}}`, interpret.Healthy},
			"old replicas of a ":    {head + seen + `replicas: 3, updatedReplicas: 2, availableReplicas: 3}}`, interpret.Healthy},
			"one not available in ": {head + seen + `updatedReplicas: 2, availableReplicas: 1}}`, interpret.Unhealthy},
			"one not updated in ":   {head + seen + `updatedReplicas: 1, availableReplicas: 2}}`, interpret.Unhealthy},
			"an unseen ":            {head + `metadata: {generation: 3}, status: {observedGeneration: 2, updatedReplicas: 2, availableReplicas: 2}}`, interpret.Unhealthy},
			"an empty ":             {`{apiVersion: apps/v1, kind: ` + kind + `, spec: {replicas: 0}, ` + seen + `}}`, interpret.Healthy},
			"texts in a ":           {head + seen + `updatedReplicas: "2", availableReplicas: "2"}}`, interpret.Unhealthy},
		} {
			cases[name+kind] = e
		}
	}
	for name, c := range cases {
		if got, err := chain().InterpretHealth(build.ParseObject(t, c.object)); got != c.want || err != nil {
			t.Errorf("%s: want %s, got %s, %v", name, c.want, got, err)
		}
	}
	if got, err := chain().InterpretHealth(nil); got != interpret.Unknown || err != nil {
		t.Errorf("nothing: want Unknown, got %s, %v", got, err)
	}
}
