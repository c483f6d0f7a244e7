// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"strings"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// waitingForCSR tells what our certificate signing request waits for.
func (f joinFacts) waitingForCSR() (reason, message string) {
	name := f.CSR.Name
	also := ""
	if f.Cluster.State == clusterWaiting || f.Cluster.State == clusterUnknown {
		also = " The hub has to accept the cluster as well: " + acceptCommand(f.Application.Cluster)
	}
	switch f.CSR.State {
	case csrDenied:
		return operatorv1.JoinReasonCSRDenied, fmt.Sprintf(
			"The hub denied the certificate signing request %s%s. To let the cluster retry, delete the request on the hub: kubectl delete csr %s",
			name, formatDetail(f.CSR.Detail), name)
	case csrFailed:
		return operatorv1.JoinReasonCSRDenied, fmt.Sprintf(
			"The hub could not sign the certificate signing request %s%s. To let the cluster retry, delete the request on the hub: kubectl delete csr %s",
			name, formatDetail(f.CSR.Detail), name)
	case csrApproved:
		return operatorv1.JoinReasonWaitingForCSRApproval, fmt.Sprintf(
			"The certificate signing request %s is approved but not signed yet: the hub's controller manager has to sign for kubernetes.io/kube-apiserver-client.%s",
			name, also)
	default:
		return operatorv1.JoinReasonWaitingForCSRApproval, fmt.Sprintf(
			"The certificate signing request %s with the key %s is waiting for approval by a hub administrator: kubectl certificate approve %s.%s",
			name, f.Application.keyFingerprint(), name, also)
	}
}

func acceptCommand(cluster string) string {
	return fmt.Sprintf(`kubectl patch managedcluster %s --type=merge -p '{"spec":{"hubAcceptsClient":true}}'`, cluster)
}

func acceptMessage(cluster string) string {
	return fmt.Sprintf("The ManagedCluster %s is waiting for a hub administrator to accept it: %s", cluster, acceptCommand(cluster))
}

func deniedMessage(cluster string) string {
	return fmt.Sprintf("A hub administrator revoked the acceptance of ManagedCluster %s. To accept it again: %s",
		cluster, acceptCommand(cluster))
}

func twinMessage(cluster, hubSays string) string {
	return fmt.Sprintf("The hub does not admit ManagedCluster %s%s.", cluster, formatDetail(hubSays))
}

func deletedMessage(cluster string) string {
	return fmt.Sprintf("The ManagedCluster %s was deleted on the hub after the cluster had joined. To join again, create it again on the hub, "+
		"give the agent another bootstrap kubeconfig, or delete the secret %s in the agent's namespace.", cluster, HubSecret)
}

func permissionsMessage(cluster, hubSays string) string {
	return fmt.Sprintf("The hub accepted ManagedCluster %s, but its agent does not have its permissions yet%s.", cluster, formatDetail(hubSays))
}

// formatDetail appends what the hub says, if it says something.
func formatDetail(says string) string {
	if says = strings.TrimSuffix(strings.TrimSpace(says), "."); says == "" {
		return ""
	}
	return " (" + says + ")"
}

// toSentence makes an error a message for users.
func toSentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}
