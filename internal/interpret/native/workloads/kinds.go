// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workloads interprets the kinds of Kubernetes that run pods, and those
// that scale them and limit their disruption, one file for each.
package workloads

import (
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/pods"
)

// WorkloadKinds returns what is known of each kind.
func WorkloadKinds() map[schema.GroupKind]interpret.Operations {
	return map[schema.GroupKind]interpret.Operations{
		{Group: "apps", Kind: "Deployment"}: {
			Health: deploymentHealth, Values: replicaValues,
			Replicas: replicasOf, Revise: reviseReplicas, Prune: deploymentPrune, Verdict: deploymentHealthVerdict, Aggregate: deploymentAggregate,
			Dependencies: templateDependencies,
		},
		{Group: "apps", Kind: "StatefulSet"}: {
			Health: statefulSetHealth, Values: statefulSetValues,
			Replicas: replicasOf, Revise: reviseReplicas, Verdict: statefulSetHealthVerdict, Aggregate: statefulSetAggregate,
			Dependencies: statefulSetDependencies,
		},
		{Group: "apps", Kind: "DaemonSet"}: {
			Health: daemonSetHealth, Values: daemonSetValues,
			Verdict: daemonSetHealthVerdict, Aggregate: daemonSetAggregate, Dependencies: templateDependencies,
		},
		{Group: "apps", Kind: "ReplicaSet"}: {
			Health: replicaSetHealth, Values: replicaValues,
			Replicas: replicasOf, Revise: reviseReplicas, Verdict: replicaSetHealthVerdict, Aggregate: replicaSetAggregate,
			Dependencies: templateDependencies,
		},
		{Kind: "ReplicationController"}: {
			Health:   replicaSetHealth,
			Replicas: replicasOf, Revise: reviseReplicas, Verdict: replicaSetHealthVerdict, Aggregate: replicaSetAggregate,
			Dependencies: templateDependencies,
		},
		{Group: "batch", Kind: "Job"}: {
			Health: jobHealth, Values: jobValues, Complete: jobComplete,
			Replicas: jobReplicas, Revise: jobRevise, Completions: jobCompletions, ReviseCompletions: jobReviseCompletions, Indexed: jobIndexed,
			Prune: jobPrune, Reflect: jobReflect, Aggregate: jobAggregate,
			Dependencies: templateDependencies, Retained: jobRetained,
		},
		{Group: "batch", Kind: "CronJob"}: {Health: cronJobHealth, Values: cronJobValues, Aggregate: cronJobAggregate, Dependencies: cronJobDependencies},
		{Kind: "Pod"}: {
			Health: podHealth, Values: podValues, Complete: podComplete,
			Replicas: podReplicas, Verdict: podHealthVerdict, Aggregate: podAggregate,
			Dependencies: podDependencies, Retained: podRetained,
		},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {
			Health: horizontalPodAutoscalerHealth, Values: horizontalPodAutoscalerValues, Aggregate: horizontalPodAutoscalerAggregate,
		},
		{Group: "policy", Kind: "PodDisruptionBudget"}: {
			Health: podDisruptionBudgetHealth, Verdict: podDisruptionBudgetHealthVerdict, Aggregate: podDisruptionBudgetAggregate,
		},
	}
}

// statusField is the field of that name of the object's status.
func statusField(object map[string]any, name string) any {
	return fields.Get(object, "status", name)
}

// conditionStatus is the status of a condition, nil if there is none.
func conditionStatus(object map[string]any, conditionType string) any {
	if c := fields.ConditionOf(object, conditionType); c.Status != "" {
		return c.Status
	}
	return nil
}

// controllerSeen reports whether the controller of a kind that reports an
// observedGeneration has seen the object at all.
func controllerSeen(object map[string]any) (health.Health, bool) {
	if _, ok := fields.Int(object, "status", "observedGeneration"); ok {
		return health.Health{}, true
	}
	return health.Progressing.WithReason("NotObserved", "The controller has not observed the object yet."), false
}

// isCurrentGeneration reports whether the controller has observed this very generation.
func isCurrentGeneration(object map[string]any) bool {
	return fields.IntOr(0, object, "status", "observedGeneration") == fields.IntOr(0, object, "metadata", "generation")
}

// replicasOf returns spec.replicas, which is 1 by default, and what the pods of
// spec.template need.
func replicasOf(object map[string]any) (int32, *interpret.Requirements) {
	return podCount(1, object, "spec", "replicas"), pods.RequirementsFromSpec(fields.Map(object, "spec", "template", "spec"))
}

// reviseReplicas sets spec.replicas.
func reviseReplicas(object map[string]any, replicas int32) map[string]any {
	return fields.With(object, int64(replicas), "spec", "replicas")
}

// podCount returns a number of pods.
func podCount(otherwise int64, object map[string]any, path ...string) int32 {
	return int32(min(max(0, fields.IntOr(otherwise, object, path...)), math.MaxInt32))
}

// setLatest sets the latest of a time of all clusters.
func setLatest(state map[string]any, items []interpret.ClusterItem, name string) {
	if latest := aggregate.LatestTime(valuesOf(items, name)...); latest != nil {
		state[name] = latest
	}
}

// valuesOf returns the values of a field of all clusters.
func valuesOf(items []interpret.ClusterItem, name string) []any {
	found := make([]any, 0, len(items))
	for _, item := range items {
		found = append(found, item.Status[name])
	}
	return found
}

// concatenated returns the entries of a list of all clusters.
func concatenated(items []interpret.ClusterItem, name string) []any {
	var all []any
	for _, item := range items {
		all = append(all, fields.List(item.Status, name)...)
	}
	return all
}
