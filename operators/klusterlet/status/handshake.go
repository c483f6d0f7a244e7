// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

// Handshake is all that is known of how far the member is with joining.
type Handshake struct {
	Klusterlet  string
	Namespace   string
	ClusterName string
	// NameProblem is why the name in the spec cannot be used; empty if it can.
	NameProblem string
	// Unsupported is why this release cannot install the agents; empty if it can.
	Unsupported string
	// Member is why nothing can be installed on the managed cluster of hosted
	// agents; its verdict is Unchecked if it can.
	Member    probe.CheckOutcome
	Bootstrap probe.CheckOutcome
	Hub       probe.CheckOutcome
	// Report is the step that the agent says it is at; its reason is empty if
	// there is none.
	Report JoinReport
	// PodProblem is why no pod of the agent runs; empty if one does.
	PodProblem string
}

// JoinReport is what the agent says of the handshake.
type JoinReport struct {
	Reason, Message string
}

// JoinedCondition answers "why does it not join?" with the first thing that has to
// happen. What an administrator of the member can mend comes before what only
// shows later, and what the operator saw itself before what the agent reports.
func JoinedCondition(h Handshake) metav1.Condition {
	condition := metav1.Condition{Type: operatorv1.KlusterletJoined, Status: metav1.ConditionFalse}
	condition.Reason, condition.Message = firstJoinStep(h)
	switch condition.Reason {
	case operatorv1.JoinReasonJoined:
		condition.Status = metav1.ConditionTrue
	case operatorv1.JoinReasonChecking:
		condition.Status = metav1.ConditionUnknown
	}
	return condition
}

func firstJoinStep(h Handshake) (reason, message string) {
	switch {
	case h.Unsupported != "":
		return operatorv1.JoinReasonUnsupportedMode, h.Unsupported
	case h.Hub.Verdict == probe.Functional:
		return operatorv1.JoinReasonJoined, fmt.Sprintf("the cluster has joined as %q: %s", h.ClusterName, h.Hub.Message)
	case h.Member.Verdict != probe.Unchecked:
		return memberReason(h.Member.Verdict), h.Member.Message
	case h.NameProblem != "":
		return operatorv1.JoinReasonClusterNameInvalid, h.NameProblem
	case h.Hub.Verdict == probe.Unchecked:
		return operatorv1.JoinReasonChecking, "checking the connection to the hub"
	}
	if reason, message, ok := afterCertificate(h); ok {
		return reason, message
	}
	if reason, message, ok := beforeCertificate(h); ok {
		return reason, message
	}
	if h.PodProblem != "" {
		return operatorv1.JoinReasonAgentNotRunning, h.PodProblem
	}
	if h.Report.Reason != "" && h.Report.Reason != operatorv1.JoinReasonJoined {
		return h.Report.Reason, h.Report.Message
	}
	if h.Hub.Verdict != probe.SecretMissing && h.Hub.Verdict != probe.KubeconfigMissing {
		return operatorv1.JoinReasonHubCredentialInvalid, h.Hub.Message
	}
	return operatorv1.JoinReasonAgentStarting, "the agent is running but has not reported its progress yet; " +
		fmt.Sprintf("see its log: kubectl -n %s logs -l %s=%s --tail=20", h.Namespace, operatorv1.LabelCreatedByKlusterlet, h.Klusterlet)
}

// memberReason is for hosted agents, which need a way to their member first.
func memberReason(verdict probe.Verdict) string {
	switch verdict {
	case probe.SecretMissing, probe.KubeconfigMissing:
		return operatorv1.JoinReasonManagedKubeconfigMissing
	case probe.Unreachable:
		return operatorv1.JoinReasonManagedClusterUnreachable
	case probe.Untrusted:
		return operatorv1.JoinReasonManagedClusterUntrusted
	case probe.Unauthorized:
		return operatorv1.JoinReasonManagedClusterUnauthorized
	case probe.Forbidden:
		return operatorv1.JoinReasonManagedClusterForbidden
	default:
		return operatorv1.JoinReasonManagedKubeconfigMalformed
	}
}

// afterCertificate is for a member that has a certificate already, which the
// hub does not let in, or not for all that it needs.
func afterCertificate(h Handshake) (reason, message string, ok bool) {
	switch h.Hub.Verdict {
	case probe.Forbidden:
		switch {
		case h.PodProblem != "":
			return operatorv1.JoinReasonAgentNotRunning, h.PodProblem, true
		case h.Report.Reason != "" && h.Report.Reason != operatorv1.JoinReasonJoined:
			return h.Report.Reason, h.Report.Message, true
		default:
			return operatorv1.JoinReasonHubPermissionsMissing, h.Hub.Message + fmt.Sprintf(
				"; is the cluster accepted? On the hub: kubectl patch managedcluster %s --type=merge -p '{\"spec\":{\"hubAcceptsClient\":true}}'",
				h.ClusterName), true
		}
	case probe.Unreachable:
		return operatorv1.JoinReasonHubUnreachable, h.Hub.Message, true
	case probe.Untrusted:
		// The agent mends this by joining again, for which the other secret has to be right.
		if h.Bootstrap.Verdict == probe.Functional {
			return "", "", false
		}
		return operatorv1.JoinReasonHubCertificateUntrusted, h.Hub.Message +
			"; put the new CA certificate into secret " + operatorv1.BootstrapHubKubeConfigSecret, true
	default:
		return "", "", false
	}
}

// beforeCertificate is for a member that has no certificate that it could use,
// so it has to join with the credential of its administrator.
func beforeCertificate(h Handshake) (reason, message string, ok bool) {
	switch h.Bootstrap.Verdict {
	case probe.Functional:
		return "", "", false
	case probe.Unchecked:
		return operatorv1.JoinReasonChecking, "checking the connection to the hub", true
	case probe.SecretMissing:
		return operatorv1.JoinReasonBootstrapSecretMissing, h.Bootstrap.Message + fmt.Sprintf(
			"; create it from a kubeconfig of the hub: kubectl -n %s create secret generic %s --from-file=kubeconfig=FILE",
			h.Namespace, operatorv1.BootstrapHubKubeConfigSecret), true
	case probe.Unreachable:
		return operatorv1.JoinReasonHubUnreachable, h.Bootstrap.Message, true
	case probe.Untrusted:
		return operatorv1.JoinReasonHubCertificateUntrusted, h.Bootstrap.Message, true
	case probe.Unauthorized:
		return operatorv1.JoinReasonBootstrapUnauthorized, h.Bootstrap.Message +
			"; put a kubeconfig with a new token into secret " + operatorv1.BootstrapHubKubeConfigSecret, true
	case probe.Forbidden:
		return operatorv1.JoinReasonBootstrapForbidden, h.Bootstrap.Message, true
	default:
		return operatorv1.JoinReasonBootstrapSecretMalformed, h.Bootstrap.Message, true
	}
}
