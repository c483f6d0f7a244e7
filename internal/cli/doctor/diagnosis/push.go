// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

func connectionOf(e *evidence.Evidence) string { return "ClusterConnection " + e.Cluster.Name }

func isPushConnected(e *evidence.Evidence) bool {
	return meta.IsStatusConditionTrue(e.Cluster.Connection.Value.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected)
}

func pushAgent(e *evidence.Evidence) []Finding {
	for _, w := range e.Hub.Components {
		if isPushAgent(w) {
			return requiredDeploymentFindings(w, e.Hub.Now, "The operator installs it: fix the steps of the hub.")
		}
	}
	return nil
}

// pushAccount looks at what "capstan join" has made in the member.
func pushAccount(e *evidence.Evidence) []Finding {
	m := e.Member
	next := fmt.Sprintf("Recreate it: capstan join %s --cluster-kubeconfig FILE", e.Cluster.Name)
	switch {
	case m.Accounts.Err != nil:
		return []Finding{unseenFinding("the ServiceAccounts of the member", m.Accounts.Err)}
	case (!m.Accounts.Found || len(m.Accounts.Value.Items) == 0) && isPushConnected(e):
		return nil // it was not made by "capstan join", and works
	case !m.Accounts.Found || len(m.Accounts.Value.Items) == 0:
		return []Finding{brokenFinding("AccountMissing", "ServiceAccount "+fleetv1alpha1.MemberAccountPrefix+e.Cluster.Name,
			"the member has none for the hub's push agent", next)}
	}
	return missingObjectFindings(m.AccountGrants, "AccountRightsMissing", "it is missing, so the push agent lacks its permissions", next)
}

func pushCredential(e *evidence.Evidence) []Finding {
	c := e.Cluster
	name := fleetv1alpha1.DefaultSecretName
	if ref := c.Connection.Value.Spec.SecretRef; ref != nil {
		name = ref.Name
	}
	object := fmt.Sprintf("Secret %s/%s", c.Name, name)
	next := fmt.Sprintf("Get a new token: capstan join %s --cluster-kubeconfig FILE", c.Name)
	var found []Finding
	switch {
	case c.Credential.Err != nil:
		found = append(found, unseenFinding(object, c.Credential.Err))
	case c.Credential.IsAbsent():
		return []Finding{brokenFinding(fleetv1alpha1.ClusterConnectionReasonSecretMissing, object, "it is not there", next)}
	case len(c.Credential.Value.Data[fleetv1alpha1.SecretKeyToken]) == 0:
		return []Finding{brokenFinding(fleetv1alpha1.ClusterConnectionReasonSecretMissing, object, fmt.Sprintf("it has no key %q", fleetv1alpha1.SecretKeyToken), next)}
	}
	valid := meta.FindStatusCondition(c.Connection.Value.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCredentialsValid)
	switch {
	case valid == nil || valid.Status == metav1.ConditionTrue:
		return found
	case valid.Status == metav1.ConditionUnknown:
		return append(found, oddFinding(valid.Reason, connectionOf(e), valid.Message, "See the next step."))
	case valid.Reason == fleetv1alpha1.ClusterConnectionReasonSecretForbidden:
		next = "Do what the message says, or check that the hub's registration controller is running."
	}
	return append(found, brokenFinding(valid.Reason, object, valid.Message, next))
}

func pushConnection(e *evidence.Evidence) []Finding {
	connected := meta.FindStatusCondition(e.Cluster.Connection.Value.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected)
	switch {
	case connected == nil:
		return []Finding{brokenFinding("NotLookedAt", connectionOf(e), "the push agent has not processed it yet", "Check that the push agent is running, and see its log.")}
	case connected.Status == metav1.ConditionTrue:
		return nil
	}
	endpoint := e.Cluster.Connection.Value.Spec.APIEndpoint
	next := map[string]string{
		fleetv1alpha1.ClusterConnectionReasonManagedClusterMissing: "Let it join: capstan join " + e.Cluster.Name + " --cluster-kubeconfig FILE",
		fleetv1alpha1.ClusterConnectionReasonNotAccepted:           "capstan accept " + e.Cluster.Name,
		fleetv1alpha1.ClusterConnectionReasonCredentialsInvalid:    "capstan join " + e.Cluster.Name + " --cluster-kubeconfig FILE makes a new token.",
		fleetv1alpha1.ClusterConnectionReasonForbiddenAddress:      "Use an address of the member outside the hub: kubectl edit clusterconnection " + e.Cluster.Name,
		fleetv1alpha1.ClusterConnectionReasonInvalidEndpoint:       "kubectl edit clusterconnection " + e.Cluster.Name,
		fleetv1alpha1.ClusterConnectionReasonUnreachable:           fmt.Sprintf("Check that the member is running, and that pods on the hub can reach %s (firewalls, proxyURL).", endpoint),
		fleetv1alpha1.ClusterConnectionReasonAnswerTooLarge:        "Check what serves " + endpoint + ": capstan cannot tell an API server that holds too much from one that was tampered with.",
		fleetv1alpha1.ClusterConnectionReasonUntrusted:             "Put the CA of the member into key caBundle of its Secret; capstan join " + e.Cluster.Name + " --cluster-kubeconfig FILE does it.",
		fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing:    "capstan join " + e.Cluster.Name + " --cluster-kubeconfig FILE installs them, with a kubeconfig of an administrator of the member.",
		fleetv1alpha1.ClusterConnectionReasonAlreadyJoined:         "Let it leave under one of its names: capstan unjoin " + e.Cluster.Name,
	}[connected.Reason]
	if next == "" {
		next = "Do what the message says; \"kubectl describe clusterconnection " + e.Cluster.Name + "\" has the rest."
	}
	return []Finding{brokenFinding(connected.Reason, connectionOf(e), connected.Message, next)}
}
