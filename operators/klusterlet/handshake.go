// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
)

// handshake is all that is known of how far the member is with joining.
type handshake struct {
	klusterlet  string
	namespace   string
	clusterName string
	// nameProblem is why the name in the spec cannot be used; empty if it can.
	nameProblem string
	// unsupported is why this release cannot install the agents; empty if it can.
	unsupported string
	// member is why nothing can be installed on the managed cluster of hosted
	// agents; its verdict is Unchecked if it can.
	member    probe.Outcome
	bootstrap probe.Outcome
	hub       probe.Outcome
	// report is the step that the agent says it is at; its reason is empty if
	// there is none.
	report joinReport
	// podProblem is why no pod of the agent runs; empty if one does.
	podProblem string
}

// joinReport is what the agent says of the handshake.
type joinReport struct {
	reason, message string
}

// joined answers "why does it not join?" with the first thing that has to
// happen. What an administrator of the member can mend comes before what only
// shows later, and what the operator saw itself before what the agent reports.
func joined(h handshake) metav1.Condition {
	condition := metav1.Condition{Type: operatorv1.KlusterletJoined, Status: metav1.ConditionFalse}
	condition.Reason, condition.Message = step(h)
	switch condition.Reason {
	case operatorv1.JoinReasonJoined:
		condition.Status = metav1.ConditionTrue
	case operatorv1.JoinReasonChecking:
		condition.Status = metav1.ConditionUnknown
	}
	return condition
}

func step(h handshake) (reason, message string) {
	switch {
	case h.unsupported != "":
		return operatorv1.JoinReasonUnsupportedMode, h.unsupported
	case h.hub.Verdict == probe.Functional:
		return operatorv1.JoinReasonJoined, fmt.Sprintf("the cluster has joined as %q: %s", h.clusterName, h.hub.Message)
	case h.member.Verdict != probe.Unchecked:
		return memberReason(h.member.Verdict), h.member.Message
	case h.nameProblem != "":
		return operatorv1.JoinReasonClusterNameInvalid, h.nameProblem
	case h.hub.Verdict == probe.Unchecked:
		return operatorv1.JoinReasonChecking, "the hub is being asked"
	}
	if reason, message, ok := afterCertificate(h); ok {
		return reason, message
	}
	if reason, message, ok := beforeCertificate(h); ok {
		return reason, message
	}
	if h.podProblem != "" {
		return operatorv1.JoinReasonAgentNotRunning, h.podProblem
	}
	if h.report.reason != "" && h.report.reason != operatorv1.JoinReasonJoined {
		return h.report.reason, h.report.message
	}
	if h.hub.Verdict != probe.SecretMissing && h.hub.Verdict != probe.KubeconfigMissing {
		return operatorv1.JoinReasonHubCredentialInvalid, h.hub.Message
	}
	return operatorv1.JoinReasonAgentStarting, "the agent runs and has not reported yet what it waits for; " +
		fmt.Sprintf("see its log: kubectl -n %s logs -l %s=%s --tail=20", h.namespace, operatorv1.LabelCreatedByKlusterlet, h.klusterlet)
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
func afterCertificate(h handshake) (reason, message string, ok bool) {
	switch h.hub.Verdict {
	case probe.Forbidden:
		switch {
		case h.podProblem != "":
			return operatorv1.JoinReasonAgentNotRunning, h.podProblem, true
		case h.report.reason != "" && h.report.reason != operatorv1.JoinReasonJoined:
			return h.report.reason, h.report.message, true
		default:
			return operatorv1.JoinReasonHubPermissionsMissing, h.hub.Message + fmt.Sprintf(
				"; is the cluster accepted? On the hub: kubectl patch managedcluster %s --type=merge -p '{\"spec\":{\"hubAcceptsClient\":true}}'",
				h.clusterName), true
		}
	case probe.Unreachable:
		return operatorv1.JoinReasonHubUnreachable, h.hub.Message, true
	case probe.Untrusted:
		// The agent mends this by joining again, for which the other secret has to be right.
		if h.bootstrap.Verdict == probe.Functional {
			return "", "", false
		}
		return operatorv1.JoinReasonHubCertificateUntrusted, h.hub.Message +
			"; put the new certificate authority into secret " + operatorv1.BootstrapHubKubeConfigSecret, true
	default:
		return "", "", false
	}
}

// beforeCertificate is for a member that has no certificate that it could use,
// so it has to join with the credential of its administrator.
func beforeCertificate(h handshake) (reason, message string, ok bool) {
	switch h.bootstrap.Verdict {
	case probe.Functional:
		return "", "", false
	case probe.Unchecked:
		return operatorv1.JoinReasonChecking, "the hub is being asked", true
	case probe.SecretMissing:
		return operatorv1.JoinReasonBootstrapSecretMissing, h.bootstrap.Message + fmt.Sprintf(
			"; make it from a kubeconfig of the hub: kubectl -n %s create secret generic %s --from-file=kubeconfig=FILE",
			h.namespace, operatorv1.BootstrapHubKubeConfigSecret), true
	case probe.Unreachable:
		return operatorv1.JoinReasonHubUnreachable, h.bootstrap.Message, true
	case probe.Untrusted:
		return operatorv1.JoinReasonHubCertificateUntrusted, h.bootstrap.Message, true
	case probe.Unauthorized:
		return operatorv1.JoinReasonBootstrapUnauthorized, h.bootstrap.Message +
			"; put a kubeconfig with a new token into secret " + operatorv1.BootstrapHubKubeConfigSecret, true
	case probe.Forbidden:
		return operatorv1.JoinReasonBootstrapForbidden, h.bootstrap.Message, true
	default:
		return operatorv1.JoinReasonBootstrapSecretMalformed, h.bootstrap.Message, true
	}
}
