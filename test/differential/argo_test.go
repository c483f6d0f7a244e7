// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// argo returns how Argo CD judges a kind, as its manual on the health of resources
// says, in our words; nil for a kind that it does not judge. It is no dependency of
// ours, and is not asked: the rules are written down here.
func argo(kind string) func(*unstructured.Unstructured) health.Status {
	return map[string]func(*unstructured.Unstructured) health.Status{
		"Deployment": argoDeployment, "StatefulSet": argoStatefulSet, "DaemonSet": argoDaemonSet, "ReplicaSet": argoReplicaSet,
		"Job": argoJob, "Pod": argoPod, "PersistentVolumeClaim": argoClaim, "Service": argoService, "Ingress": argoIngress,
	}[kind]
}

func numberOf(u *unstructured.Unstructured, name string) int64 {
	return fields.IntOr(0, u.Object, "status", name)
}

// seenBy tells whether the status is about the present generation.
func seenBy(u *unstructured.Unstructured) bool {
	return numberOf(u, "observedGeneration") >= u.GetGeneration()
}

// argoDeployment: the present generation was seen, all replicas are up to date, no
// old one is left, and all are available.
func argoDeployment(u *unstructured.Unstructured) health.Status {
	if !seenBy(u) {
		return health.Progressing
	}
	if fields.ConditionOf(u.Object, "Progressing").Reason == "ProgressDeadlineExceeded" {
		return health.Degraded
	}
	updated := numberOf(u, "updatedReplicas")
	return healthyIf(updated >= fields.IntOr(0, u.Object, "spec", "replicas") && numberOf(u, "replicas") <= updated && numberOf(u, "availableReplicas") >= updated)
}

// argoStatefulSet: the present generation was seen, all replicas are ready, and all
// are of the same revision.
func argoStatefulSet(u *unstructured.Unstructured) health.Status {
	return healthyIf(numberOf(u, "observedGeneration") > 0 && seenBy(u) && numberOf(u, "readyReplicas") >= fields.IntOr(0, u.Object, "spec", "replicas") &&
		fields.String(u.Object, "status", "updateRevision") == fields.String(u.Object, "status", "currentRevision"))
}

// argoDaemonSet: the present generation was seen, and on all nodes a pod is up to
// date and available.
func argoDaemonSet(u *unstructured.Unstructured) health.Status {
	desired := numberOf(u, "desiredNumberScheduled")
	return healthyIf(seenBy(u) && numberOf(u, "updatedNumberScheduled") >= desired && numberOf(u, "numberAvailable") >= desired)
}

// argoReplicaSet: the present generation was seen, all replicas are available, and
// none could not be created.
func argoReplicaSet(u *unstructured.Unstructured) health.Status {
	if seenBy(u) && fields.ConditionOf(u.Object, "ReplicaFailure").True() {
		return health.Degraded
	}
	return healthyIf(seenBy(u) && numberOf(u, "availableReplicas") >= fields.IntOr(0, u.Object, "spec", "replicas"))
}

// argoJob: it has ended, and not failed.
func argoJob(u *unstructured.Unstructured) health.Status {
	if fields.ConditionOf(u.Object, "Failed").True() {
		return health.Degraded
	}
	return healthyIf(fields.ConditionOf(u.Object, "Complete").True())
}

// argoPod: it has succeeded, or runs and is ready.
func argoPod(u *unstructured.Unstructured) health.Status {
	switch phase := fields.String(u.Object, "status", "phase"); phase {
	case "Failed":
		return health.Degraded
	case "Succeeded":
		return health.Healthy
	default:
		return healthyIf(phase == "Running" && fields.ConditionOf(u.Object, "Ready").True())
	}
}

// argoClaim: it is bound.
func argoClaim(u *unstructured.Unstructured) health.Status {
	phase := fields.String(u.Object, "status", "phase")
	if phase == "Lost" {
		return health.Degraded
	}
	return healthyIf(phase == "Bound")
}

// argoService: a load balancer has an address; all others are well.
func argoService(u *unstructured.Unstructured) health.Status {
	return healthyIf(fields.String(u.Object, "spec", "type") != "LoadBalancer" || addressed(u))
}

// argoIngress: it has an address.
func argoIngress(u *unstructured.Unstructured) health.Status { return healthyIf(addressed(u)) }

func addressed(u *unstructured.Unstructured) bool {
	addresses, _, err := unstructured.NestedSlice(u.Object, "status", "loadBalancer", "ingress")
	return err == nil && len(addresses) > 0
}
