// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// found is a well-known value; nil if the object does not have it.
type found struct {
	name  string
	value any
}

// wellKnownOf returns what reads the well-known values of a kind, nil if it has
// none. docs/spec/work/interpretation.md has the names.
func wellKnownOf(kind schema.GroupVersionKind) func(object map[string]any) []found {
	switch kind.GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return deployment
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return daemonSet
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return statefulSet
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return replicaSet
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return job
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return cronJob
	case schema.GroupKind{Kind: "Pod"}:
		return pod
	case schema.GroupKind{Kind: "Service"}:
		return service
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return persistentVolumeClaim
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		return horizontalPodAutoscaler
	}
	return nil
}

func describe(kind schema.GroupVersionKind) string {
	if kind.Kind == "" {
		return "an object without a kind"
	}
	if kind.Group == "" {
		return "kind " + kind.Kind
	}
	return "kind " + kind.Kind + " of group " + kind.Group
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
