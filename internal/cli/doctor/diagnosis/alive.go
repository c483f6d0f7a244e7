// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

// leaseSecondsDefault is the duration of the lease of a cluster that has none.
const leaseSecondsDefault = 60

// lookAtAgent is what to do about an agent that is not heard of.
func lookAtAgent(e *evidence.Evidence) string {
	switch {
	case e.Cluster.UsesPushMode():
		return "Check that the hub's push agent is running and reaches the cluster: see the previous steps."
	case e.Member == nil:
		return "Check that its agent is running: give --cluster-kubeconfig to check the member."
	default:
		return "Check that its agent is running and can reach the hub: see the steps of the member, and kubectl -n open-cluster-management-agent logs -l app=klusterlet-registration-agent --tail=20."
	}
}

func clusterJoined(e *evidence.Evidence) []Finding {
	if hasClusterJoined(e) || !e.Cluster.Managed.Value.DeletionTimestamp.IsZero() {
		return nil
	}
	return []Finding{brokenFinding("WaitingForAgent", managedClusterName(e.Cluster), "no agent has joined as this cluster yet", lookAtAgent(e))}
}

// clusterHeartbeat judges by the clock of the hub.
func clusterHeartbeat(e *evidence.Evidence) []Finding {
	lease := e.Cluster.Lease
	object := fmt.Sprintf("Lease %s/%s", e.Cluster.Name, clusterv1.LeaseName)
	switch {
	case lease.Err != nil:
		return []Finding{unseenFinding(object, lease.Err)}
	case !lease.Found || lease.Value.Spec.RenewTime == nil:
		return []Finding{brokenFinding("HeartbeatMissing", object, "there has been no heartbeat yet", lookAtAgent(e))}
	}
	every := time.Duration(e.Cluster.Managed.Value.Spec.LeaseDurationSeconds) * time.Second
	if every <= 0 {
		every = leaseSecondsDefault * time.Second
	}
	age := e.Hub.Now.Sub(lease.Value.Spec.RenewTime.Time)
	cause := fmt.Sprintf("the last heartbeat came %s ago; one is expected every %s", duration.HumanDuration(age), every)
	switch {
	case age >= heartbeatsMissed*every:
		return []Finding{brokenFinding("HeartbeatStopped", object, cause, lookAtAgent(e))}
	case age >= heartbeatsLate*every:
		return []Finding{oddFinding("HeartbeatLate", object, cause, lookAtAgent(e))}
	}
	return nil
}

func clusterClock(e *evidence.Evidence) []Finding {
	c := findClusterCondition(e, clusterv1.ManagedClusterConditionClockSynced)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return []Finding{brokenFinding(c.Reason, managedClusterName(e.Cluster), c.Message, "Synchronize the clocks of the nodes of the hub and of the member (NTP).")}
}

func clusterAvailable(e *evidence.Evidence) []Finding {
	c := findClusterCondition(e, clusterv1.ManagedClusterConditionAvailable)
	switch {
	case c == nil:
		return []Finding{brokenFinding("NoReport", managedClusterName(e.Cluster), "its agent has not reported the cluster's health yet", lookAtAgent(e))}
	case c.Status == metav1.ConditionTrue:
		return nil
	case c.Reason == clusterv1.ManagedClusterReasonKubeAPIServerUnavailable:
		return []Finding{brokenFinding(c.Reason, managedClusterName(e.Cluster), c.Message, "Look at the API server of the member: kubectl get --raw '/readyz?verbose'.")}
	}
	return []Finding{brokenFinding(c.Reason, managedClusterName(e.Cluster), c.Message, lookAtAgent(e))}
}

// clusterDeletion says what keeps something that was deleted.
func clusterDeletion(e *evidence.Evidence) []Finding {
	mc := e.Cluster.Managed.Value
	if mc.DeletionTimestamp.IsZero() {
		return nil
	}
	waits := "the hub's registration controller has not reported yet what for"
	if c := findClusterCondition(e, clusterv1.ManagedClusterConditionDeleting); c != nil {
		waits = c.Message
	}
	if len(mc.Finalizers) > 0 {
		waits += fmt.Sprintf(" (finalizers: %s)", strings.Join(mc.Finalizers, ", "))
	}
	next := "See the previous steps, and the log of the hub's registration controller."
	available := meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if !available {
		next = fmt.Sprintf("Its agent, which has to clean up the member, has stopped its heartbeat: start it. To give up what was delivered to the member: kubectl annotate managedcluster %s %s=0s",
			mc.Name, clusterv1.AnnotationDetachDeadline)
	}
	f := brokenFinding("Deleting", managedClusterName(e.Cluster), "it was deleted and waits: "+waits, next)
	if available && e.Hub.Now.Sub(mc.DeletionTimestamp.Time) < soon {
		f.State = Odd
	}
	return []Finding{f}
}
