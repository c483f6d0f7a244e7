// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package native interprets the built-in kinds of Kubernetes, one file for
// each. The comment of a kind's rule names what it follows, and
// docs/spec/work/interpretation.md has all of them for users.
//
// It knows no kinds of others: those are shipped as data, or customized.
package native

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// Kinds is a layer of the kinds of Kubernetes, in all their versions.
type Kinds struct {
	kinds map[schema.GroupKind]interpret.Operations
}

// New returns the layer.
func New() *Kinds {
	return &Kinds{kinds: map[schema.GroupKind]interpret.Operations{
		{Group: "apps", Kind: "Deployment"}:                               {Health: deploymentHealth, Values: replicaValues},
		{Group: "apps", Kind: "StatefulSet"}:                              {Health: statefulSetHealth, Values: statefulSetValues},
		{Group: "apps", Kind: "DaemonSet"}:                                {Health: daemonSetHealth, Values: daemonSetValues},
		{Group: "apps", Kind: "ReplicaSet"}:                               {Health: replicaSetHealth, Values: replicaValues},
		{Kind: "ReplicationController"}:                                   {Health: replicaSetHealth},
		{Group: "batch", Kind: "Job"}:                                     {Health: jobHealth, Values: jobValues, Complete: jobComplete},
		{Group: "batch", Kind: "CronJob"}:                                 {Health: cronJobHealth, Values: cronJobValues},
		{Kind: "Pod"}:                                                     {Health: podHealth, Values: podValues, Complete: podComplete},
		{Kind: "Service"}:                                                 {Health: serviceHealth, Values: serviceValues},
		{Kind: "PersistentVolumeClaim"}:                                   {Health: persistentVolumeClaimHealth, Values: persistentVolumeClaimValues},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:           {Health: horizontalPodAutoscalerHealth, Values: horizontalPodAutoscalerValues},
		{Group: "policy", Kind: "PodDisruptionBudget"}:                    {Health: podDisruptionBudgetHealth},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {Health: customResourceDefinitionHealth},
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:             {Health: apiServiceHealth},
		{Kind: "Namespace"}:                                               {Health: namespaceHealth, Deletion: namespaceDeletion},
	}}
}

// Operations is part of interpret.Layer.
func (k *Kinds) Operations(kind schema.GroupVersionKind) interpret.Operations {
	return k.kinds[kind.GroupKind()]
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
