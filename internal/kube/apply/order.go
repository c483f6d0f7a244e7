// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import "k8s.io/apimachinery/pkg/runtime/schema"

// Class says when an object goes to the cluster relative to the others of
// the same work: all of one class before any of the next.
type Class uint8

// The classes, in order.
const (
	ClassFoundation Class = iota // what others live in, or are kinds of
	ClassAccess                  // who may do what
	ClassPolicy                  // what limits or identifies workloads
	ClassConfig                  // what workloads read and mount
	ClassService                 // names that workloads look up
	ClassWorkload
	ClassExtension // what intercepts or extends the API server, and needs workloads to answer
	ClassOther     // above all, objects of kinds that a definition in the same work makes
)

// ClassOf returns the class of a kind.
func ClassOf(kind schema.GroupKind) Class {
	switch kind.Group {
	case "":
		return coreClass(kind.Kind)
	case "apps", "batch":
		return ClassWorkload
	case "apiextensions.k8s.io", "scheduling.k8s.io", "storage.k8s.io":
		switch kind.Kind {
		case "CustomResourceDefinition", "PriorityClass", "StorageClass":
			return ClassFoundation
		}
	case "rbac.authorization.k8s.io":
		return ClassAccess
	case "networking.k8s.io", "policy":
		switch kind.Kind {
		case "NetworkPolicy", "PodDisruptionBudget":
			return ClassPolicy
		}
	case "apiregistration.k8s.io", "admissionregistration.k8s.io":
		return ClassExtension
	}
	return ClassOther
}

func coreClass(kind string) Class {
	switch kind {
	case "Namespace", "PersistentVolume":
		return ClassFoundation
	case "ServiceAccount", "ResourceQuota", "LimitRange":
		return ClassPolicy
	case "Secret", "ConfigMap", "PersistentVolumeClaim":
		return ClassConfig
	case "Service":
		return ClassService
	case "Pod", "ReplicationController":
		return ClassWorkload
	default:
		return ClassOther
	}
}
