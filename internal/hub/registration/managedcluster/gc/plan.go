// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// priorityMax is the highest cleanup priority, which is deleted last.
const priorityMax = 100

// ownDomain ends the domain of the finalizers that may be taken off. Those of
// others are for others to remove.
const ownDomain = "open-cluster-management.io"

// patience says how long to wait for the agent of a cluster.
type patience struct {
	// over says that there is nothing to wait for any more.
	over bool
	// left is the time until it will be over; zero if it never will.
	left time.Duration
	// why explains it, or is "" for a cluster that is available.
	why string
}

// patienceWith decides how long to wait for the agent.
func patienceWith(mc *clusterv1.ManagedCluster, now time.Time) patience {
	if mc.Annotations[fleetv1alpha1.AnnotationForceDetach] == "true" {
		return patience{over: true, why: "its deletion is forced, so its agent is not waited for"}
	}
	joined := meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
	available := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	var why string
	switch {
	case !joined && available == nil, !joined && available.Status == metav1.ConditionUnknown:
		return patience{over: true, why: "no agent has ever joined, so there is nothing to clean up"}
	case !mc.Spec.HubAcceptsClient:
		why = "the hub does not accept the cluster, so its agent cannot clean up"
	case available == nil || available.Status == metav1.ConditionUnknown:
		why = "the agent of the cluster does not respond"
	case available.Status == metav1.ConditionFalse:
		why = "the cluster is not available"
	default:
		return patience{}
	}
	value, ok := mc.Annotations[clusterv1.AnnotationDetachDeadline]
	if !ok {
		return patience{why: why + fmt.Sprintf("; to proceed without it, annotate the ManagedCluster with %s=0s",
			clusterv1.AnnotationDetachDeadline)}
	}
	deadline, err := time.ParseDuration(value)
	if err != nil || deadline < 0 {
		return patience{why: why + fmt.Sprintf("; annotation %s is %q, which is not a duration such as 5m",
			clusterv1.AnnotationDetachDeadline, value)}
	}
	left := mc.DeletionTimestamp.Add(deadline).Sub(now)
	if left <= 0 {
		return patience{over: true, why: why + fmt.Sprintf(" and its deadline (%s) has passed", deadline)}
	}
	return patience{left: left, why: why + fmt.Sprintf("; it is given up %s after the deletion", deadline)}
}

// lowestPriority returns those of the lowest cleanup priority.
func lowestPriority(objects []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	var batch []metav1.PartialObjectMetadata
	least := priorityMax + 1
	for i := range objects {
		p := cleanupPriority(&objects[i])
		if p < least {
			least = p
			batch = nil
		}
		if p == least {
			batch = append(batch, objects[i])
		}
	}
	return batch
}

// cleanupPriority is 0 where the annotation is absent or not a number from 0 to 100.
func cleanupPriority(obj *metav1.PartialObjectMetadata) int {
	p, err := strconv.Atoi(obj.Annotations[clusterv1.AnnotationCleanupPriority])
	if err != nil || p < 0 || p > priorityMax {
		return 0
	}
	return p
}

// foreignFinalizers returns the finalizers that are not of our domain.
func foreignFinalizers(finalizers []string) []string {
	kept := []string{}
	for _, f := range finalizers {
		domain, _, _ := strings.Cut(f, "/")
		if domain != ownDomain && !strings.HasSuffix(domain, "."+ownDomain) {
			kept = append(kept, f)
		}
	}
	return kept
}
