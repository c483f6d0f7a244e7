// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/requests"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

const (
	// soon is how long what happens by itself may take before it is a problem.
	soon = time.Minute
	// heartbeatsLate and heartbeatsMissed are after how many durations of its lease
	// a cluster is late, and after how many the hub takes it for gone.
	heartbeatsLate, heartbeatsMissed = 2, 5
)

// clusterChecks are in the order of the story of a cluster.
func clusterChecks() []stepCheck {
	return []stepCheck{
		{OnMember, "api", "the member answers", memberGiven, memberAnswers},
		{OnCluster, "identity", "it has only one name", nil, clusterIdentity},
		{OnMember, "klusterlet", "a Klusterlet and its operator exist", memberSeen, memberKlusterlet},
		{OnMember, "bootstrap", "the hub lets it ask to join", agentSeen, memberBootstrap},
		{OnMember, "agents", "its agents are running", agentSeen, memberAgents},
		{OnMember, "rights", "its agents have their permissions in the member", rightsSeen, memberRights},
		{OnCluster, "known", "the hub knows it", nil, clusterKnown},
		{OnCluster, "requests", "its certificate was approved", mayHaveRequests, clusterRequests},
		{OnCluster, "accepted", "the hub accepts it", isClusterKnown, clusterAccepted},
		{OnCluster, "grants", "the hub has a namespace and rights for it", isClusterAccepted, clusterGrants},
		{OnMember, "credential", "its agents have a certificate that the hub accepts", agentSeen, memberCredential},
		{OnCluster, "pushagent", "the hub's push agent runs", usesPushMode, pushAgent},
		{OnMember, "account", "the push agent has its account and rights in the member", pushedAndSeen, pushAccount},
		{OnCluster, "credential", "the push agent has a credential for it", usesPushMode, pushCredential},
		{OnCluster, "connection", "the push agent reaches it", usesPushMode, pushConnection},
		{OnCluster, "joined", "its agent has joined", isClusterAccepted, clusterJoined},
		{OnCluster, "heartbeat", "its agent has a heartbeat", hasClusterJoined, clusterHeartbeat},
		{OnCluster, "clock", "its clock is in sync", hasClusterJoined, clusterClock},
		{OnCluster, "available", "its API server is healthy", hasClusterJoined, clusterAvailable},
		{OnCluster, "works", "its works are applied", isClusterKnown, clusterWorks},
		{OnMember, "records", "the member has a record of each work", recordsSeen, memberRecords},
		{OnCluster, "deletion", "nothing waits to be deleted", isClusterKnown, clusterDeletion},
	}
}

// listBasedChecks are the names of the checks that lists of all clusters are enough for.
func listBasedChecks() []string {
	return []string{"requests", "accepted", "connection", "joined", "heartbeat", "clock", "available", "works", "deletion"}
}

func isClusterKnown(e *evidence.Evidence) bool { return e.Cluster.Managed.Found }

func pushedAndSeen(e *evidence.Evidence) bool { return usesPushMode(e) && memberSeen(e) }

// mayHaveRequests is for a cluster that has an agent of its own, and whose agent may have
// asked for something.
func mayHaveRequests(e *evidence.Evidence) bool {
	requested := e.Hub.Requests.Found && slices.ContainsFunc(e.Hub.Requests.Value.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return r.Labels[clusterv1.LabelClusterName] == e.Cluster.Name
	})
	return !e.Cluster.UsesPushMode() && (isClusterKnown(e) || requested)
}

func usesPushMode(e *evidence.Evidence) bool { return e.Cluster.UsesPushMode() }

func isClusterAccepted(e *evidence.Evidence) bool {
	return isClusterKnown(e) && e.Cluster.Managed.Value.Spec.HubAcceptsClient
}

func hasClusterJoined(e *evidence.Evidence) bool {
	return isClusterKnown(e) && meta.IsStatusConditionTrue(e.Cluster.Managed.Value.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
}

func managedClusterName(c *evidence.ClusterEvidence) string { return "ManagedCluster " + c.Name }

func findClusterCondition(e *evidence.Evidence, kind string) *metav1.Condition {
	return meta.FindStatusCondition(e.Cluster.Managed.Value.Status.Conditions, kind)
}

func clusterKnown(e *evidence.Evidence) []Finding {
	switch c := e.Cluster; {
	case c.Managed.Err != nil:
		return []Finding{unseenFinding(managedClusterName(c), c.Managed.Err)}
	case c.Managed.IsAbsent() && e.Member != nil:
		return []Finding{brokenFinding("ClusterUnknown", managedClusterName(c), "there is none: nobody has asked to join under this name",
			"Fix the previous steps. A Push cluster joins by \"capstan join "+c.Name+"\".")}
	case c.Managed.IsAbsent():
		return []Finding{brokenFinding("ClusterUnknown", managedClusterName(c), "there is none: nobody has asked to join under this name",
			"\"capstan get clusters\" lists those that exist. Give --cluster-kubeconfig to see why the member does not ask.")}
	}
	return nil
}

// clusterIdentity finds out whether the same cluster has another name already.
func clusterIdentity(e *evidence.Evidence) []Finding {
	c := e.Cluster
	if c.Others.Err != nil {
		return []Finding{unseenFinding("the other clusters", c.Others.Err)}
	}
	this, _ := c.Others.Value.ClusterNamed(c.Name)
	reported := this.KnownIdentity()
	uid := reported
	here := e.Member != nil && e.Member.UID.Found && !e.Member.Hosted()
	if here {
		uid = e.Member.UID.Value
	}
	if here && reported != "" && reported != uid {
		return []Finding{brokenFinding("OtherCluster", managedClusterName(c),
			fmt.Sprintf("the cluster that has joined under this name is %s, and the member that was given is %s", reported, uid),
			"Give the kubeconfig of the right member, or let this one join under another name.")}
	}
	var others []string
	shared := this.Admission == view.Admitted
	for _, other := range c.Others.Value.SameIdentity(uid, c.Name) {
		others = append(others, other.Name)
		shared = shared && other.Admission == view.Admitted && view.MayShare(this, other)
	}
	cause := fmt.Sprintf("the same cluster (%s) has already joined under the name %s", uid, strings.Join(others, " and "))
	switch {
	case len(others) == 0:
		return nil
	case shared:
		return []Finding{oddFinding("AlreadyJoined", managedClusterName(c), cause+"; each name has an agent of its own, and both are in the fleet",
			"If that is not intended, remove one of them, or turn on the feature gate UniqueClusterIdentity of the hub.")}
	}
	return []Finding{brokenFinding("AlreadyJoined", managedClusterName(c), cause,
		fmt.Sprintf("Use that name, or remove it first: \"capstan doctor %s\" shows its state.", others[0]))}
}

// clusterRequests looks at the certificate requests as an administrator would.
func clusterRequests(e *evidence.Evidence) []Finding {
	c := e.Cluster
	if e.Hub.Requests.Err != nil {
		return []Finding{unseenFinding("the certificate requests", e.Hub.Requests.Err)}
	}
	var all []certificatesv1.CertificateSigningRequest
	if e.Hub.Requests.Found {
		all = e.Hub.Requests.Value.Items
	}
	sorted := requests.Sort(c.Name, all)
	var found []Finding
	for _, renewal := range sorted.Renewals {
		if e.Hub.Now.Sub(renewal.CreationTimestamp.Time) > soon {
			found = append(found, brokenFinding("RenewalPending", "CertificateSigningRequest "+requests.PrintableName(renewal),
				"the hub should approve this renewal automatically and has not", "Check that the hub's registration controller is running."))
		}
	}
	satisfied := hasClusterJoined(e) && !certificateLost(e)
	for _, ready := range sorted.Ready {
		found = append(found, pendingRequest(e, ready, satisfied))
	}
	for _, refused := range sorted.Refused {
		found = append(found, refusedRequest(refused, satisfied))
	}
	if satisfied || len(found) > 0 || len(sorted.Approved) > 0 {
		return found
	}
	if name := turnedDown(c.Name, all); name != "" {
		return []Finding{brokenFinding("RequestDenied", "CertificateSigningRequest "+name, "an administrator of the hub denied it, or it could not be signed",
			fmt.Sprintf("To let the cluster retry: kubectl delete csr %s", name))}
	}
	if !c.Managed.Found || hasClusterJoined(e) || !c.Managed.Value.DeletionTimestamp.IsZero() {
		return nil // it has asked for nothing, has a certificate to look at, or is to go
	}
	return []Finding{brokenFinding("NoRequest", managedClusterName(c), "its agent has not requested a certificate",
		"Its agent is not running, or does not get this far: --cluster-kubeconfig shows the steps in the member.")}
}

// refusedRequest tells of a request that must not be approved.
func refusedRequest(refused requests.RefusedRequest, satisfied bool) Finding {
	f := brokenFinding("RequestRefused", "CertificateSigningRequest "+requests.PrintableName(refused.Request), refused.Why,
		fmt.Sprintf("Find out who created it: %s. It must not be approved; %s.", refused.Request.Spec.Username, denyOnly(refused.Request)))
	if satisfied {
		f.State = Odd
	}
	return f
}

// pendingRequest tells of a request that an administrator may approve. It is
// odd where the cluster has all that it needs.
func pendingRequest(e *evidence.Evidence, ready requests.ReadyRequest, satisfied bool) Finding {
	object := "CertificateSigningRequest " + requests.PrintableName(ready.Request)
	cluster := e.Cluster.Name
	if satisfied {
		return oddFinding("AnotherAgent", object, fmt.Sprintf("agent %q with the key %s asks to be this cluster, which has an agent already", ready.Agent, ready.Key),
			fmt.Sprintf("Find out who created it: %s. If it is not wanted, %s.", ready.Request.Spec.Username, denyOnly(ready.Request)))
	}
	command := fmt.Sprintf("capstan accept %s", cluster)
	if hasClusterJoined(e) {
		command += " --request " + requests.PrintableName(ready.Request) // the hub still hears of the agent that it knows
	}
	// Whoever has a bootstrap token can ask in the name of the cluster.
	return brokenFinding("RequestPending", object, "it is waiting for approval by a hub administrator",
		fmt.Sprintf("If \"kubectl describe klusterlet\" on the cluster shows the key %s: %s. If it shows another one, %s.", ready.Key, command, denyOnly(ready.Request)))
}

// denyOnly says how to deny a request, and not the cluster in whose name somebody has
// made it.
func denyOnly(request *certificatesv1.CertificateSigningRequest) string {
	return fmt.Sprintf("\"kubectl certificate deny %s\" denies it", requests.PrintableName(request))
}

// turnedDown returns the name of a request of the cluster that was denied or
// failed.
func turnedDown(cluster string, all []certificatesv1.CertificateSigningRequest) string {
	for i := range all {
		ours := all[i].Labels[clusterv1.LabelClusterName] == cluster && requests.IsAgentRequest(&all[i])
		if ours && slices.ContainsFunc(all[i].Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed
		}) {
			return requests.PrintableName(&all[i])
		}
	}
	return ""
}

func clusterAccepted(e *evidence.Evidence) []Finding {
	mc := e.Cluster.Managed.Value
	if !mc.DeletionTimestamp.IsZero() {
		return nil // that is another story, told at its end
	}
	is := findClusterCondition(e, clusterv1.ManagedClusterConditionHubAccepted)
	if mc.Spec.HubAcceptsClient && is != nil && is.Status == metav1.ConditionTrue {
		return nil
	}
	state := health.ClusterReadiness(mc)
	switch {
	case state.Reason == health.Denied:
		return []Finding{brokenFinding(state.Reason, managedClusterName(e.Cluster), "a hub administrator revoked its acceptance", "capstan accept "+mc.Name)}
	case !mc.Spec.HubAcceptsClient:
		return []Finding{brokenFinding(state.Reason, managedClusterName(e.Cluster), "it is waiting for a hub administrator to accept it", "capstan accept "+mc.Name)}
	case is == nil:
		return []Finding{brokenFinding(state.Reason, managedClusterName(e.Cluster), state.Message, "Check that the hub's registration controller is running, and see its log.")}
	}
	return []Finding{brokenFinding(state.Reason, managedClusterName(e.Cluster), state.Message, "Do what the message says; the hub retries automatically.")}
}

func clusterGrants(e *evidence.Evidence) []Finding {
	c := e.Cluster
	if !c.Managed.Value.DeletionTimestamp.IsZero() {
		return nil
	}
	const next = "The hub's registration controller recreates it: check that it is running, and see its log."
	var found []Finding
	switch {
	case c.Namespace.Err != nil:
		found = append(found, unseenFinding("Namespace "+c.Name, c.Namespace.Err))
	case c.Namespace.IsAbsent():
		found = append(found, brokenFinding("NamespaceMissing", "Namespace "+c.Name, "it is not there", next))
	case !c.Namespace.Value.DeletionTimestamp.IsZero():
		found = append(found, brokenFinding("NamespaceDeleting", "Namespace "+c.Name, "somebody deleted it: "+namespaceWaits(c.Namespace.Value),
			"What is left in it has to be deleted first; then the hub recreates it."))
	}
	return append(found, missingObjectFindings(c.Grants, "GrantMissing", "it is missing, so the cluster's agents may not work on the hub", next)...)
}

// namespaceWaits says what the deletion of a namespace waits for.
func namespaceWaits(namespace *corev1.Namespace) string {
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Message != "" && c.Type != corev1.NamespaceDeletionDiscoveryFailure {
			return c.Message
		}
	}
	return "it is in progress"
}
