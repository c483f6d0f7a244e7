// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workloads interprets the kinds of Kubernetes that run pods, and those
// that scale them and limit their disruption, one file for each.
package workloads

import (
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// Kinds returns what is known of each kind.
func Kinds() map[schema.GroupKind]interpret.Operations {
	return map[schema.GroupKind]interpret.Operations{
		{Group: "apps", Kind: "Deployment"}: {
			Health: deploymentHealth, Values: replicaValues,
			Replicas: replicasOf, Revise: revise, Prune: deploymentPrune, Verdict: deploymentVerdict,
		},
		{Group: "apps", Kind: "StatefulSet"}: {
			Health: statefulSetHealth, Values: statefulSetValues,
			Replicas: replicasOf, Revise: revise, Verdict: statefulSetVerdict,
		},
		{Group: "apps", Kind: "DaemonSet"}: {Health: daemonSetHealth, Values: daemonSetValues, Verdict: daemonSetVerdict},
		{Group: "apps", Kind: "ReplicaSet"}: {
			Health: replicaSetHealth, Values: replicaValues,
			Replicas: replicasOf, Revise: revise, Verdict: replicaSetVerdict,
		},
		{Kind: "ReplicationController"}: {
			Health:   replicaSetHealth,
			Replicas: replicasOf, Revise: revise, Verdict: replicaSetVerdict,
		},
		{Group: "batch", Kind: "Job"}: {
			Health: jobHealth, Values: jobValues, Complete: jobComplete,
			Replicas: jobReplicas, Revise: jobRevise, Completions: jobCompletions, ReviseCompletions: jobReviseCompletions,
			Prune: jobPrune, Reflect: jobReflect,
		},
		{Group: "batch", Kind: "CronJob"}: {Health: cronJobHealth, Values: cronJobValues},
		{Kind: "Pod"}: {
			Health: podHealth, Values: podValues, Complete: podComplete,
			Replicas: podReplicas, Verdict: podVerdict,
		},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {Health: horizontalPodAutoscalerHealth, Values: horizontalPodAutoscalerValues},
		{Group: "policy", Kind: "PodDisruptionBudget"}:          {Health: podDisruptionBudgetHealth, Verdict: podDisruptionBudgetVerdict},
	}
}

// status is the field of that name of the object's status.
func status(object map[string]any, name string) any {
	return fields.Get(object, "status", name)
}

// conditionStatus is the status of a condition, nil if there is none.
func conditionStatus(object map[string]any, conditionType string) any {
	if c := fields.ConditionOf(object, conditionType); c.Status != "" {
		return c.Status
	}
	return nil
}

// seen tells whether the controller of a kind that reports an
// observedGeneration has seen the object at all.
func seen(object map[string]any) (health.Health, bool) {
	if _, ok := fields.Int(object, "status", "observedGeneration"); ok {
		return health.Health{}, true
	}
	return health.Progressing.With("NotObserved", "The controller has not observed the object yet."), false
}

// current tells whether the controller has observed this very generation.
func current(object map[string]any) bool {
	return fields.IntOr(0, object, "status", "observedGeneration") == fields.IntOr(0, object, "metadata", "generation")
}

// replicasOf returns spec.replicas, which is 1 by default, and what the pods of
// spec.template need.
func replicasOf(object map[string]any) (int32, *interpret.Requirements) {
	return count(1, object, "spec", "replicas"), requirements(fields.Map(object, "spec", "template", "spec"))
}

// revise sets spec.replicas.
func revise(object map[string]any, replicas int32) map[string]any {
	return fields.With(object, int64(replicas), "spec", "replicas")
}

// count returns a number of pods.
func count(otherwise int64, object map[string]any, path ...string) int32 {
	return int32(min(max(0, fields.IntOr(otherwise, object, path...)), math.MaxInt32))
}
