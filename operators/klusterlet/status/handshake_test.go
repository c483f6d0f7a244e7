// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

func outcome(verdict probe.Verdict) probe.CheckOutcome {
	return probe.CheckOutcome{Verdict: verdict, Message: "seen " + string(verdict)}
}

func TestJoinedNamesTheStepThatWaits(t *testing.T) {
	waiting := JoinReport{operatorv1.JoinReasonWaitingForCSRApproval, "kubectl certificate approve c1-abc"}
	accept := JoinReport{operatorv1.JoinReasonWaitingForAcceptance, "kubectl patch managedcluster c1"}
	for name, test := range map[string]struct {
		reason  string
		in      Handshake
		want    string
		status  metav1.ConditionStatus
		message string
	}{
		"NothingKnown": {
			reason: "a check that still runs is neither good nor bad",
			want:   operatorv1.JoinReasonChecking, status: metav1.ConditionUnknown,
		},
		"NoSecret": {
			reason: "the first thing that an administrator has to do comes first",
			in:     Handshake{Namespace: "ns", Bootstrap: outcome(probe.SecretMissing), Hub: outcome(probe.SecretMissing), PodProblem: "no pod"},
			want:   operatorv1.JoinReasonBootstrapSecretMissing, message: "kubectl -n ns create secret",
		},
		"Malformed": {
			reason: "a kubeconfig that cannot be read is not a network problem",
			in:     Handshake{Bootstrap: outcome(probe.KubeconfigMalformed), Hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonBootstrapSecretMalformed,
		},
		"Unreachable": {
			reason: "the network comes before the agent, which could not do anything either",
			in:     Handshake{Bootstrap: outcome(probe.Unreachable), Hub: outcome(probe.SecretMissing), PodProblem: "no pod"},
			want:   operatorv1.JoinReasonHubUnreachable,
		},
		"WrongCA": {
			reason: "the certificate authority is what to mend",
			in:     Handshake{Bootstrap: outcome(probe.Untrusted), Hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonHubCertificateUntrusted,
		},
		"ExpiredToken": {
			reason: "the token is what to mend, though the agent waits for an approval",
			in:     Handshake{Bootstrap: outcome(probe.Unauthorized), Hub: outcome(probe.SecretMissing), Report: waiting},
			want:   operatorv1.JoinReasonBootstrapUnauthorized, message: "new token",
		},
		"Forbidden": {
			reason: "the missing permission is named",
			in:     Handshake{Bootstrap: outcome(probe.Forbidden), Hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonBootstrapForbidden,
		},
		"NoPod": {
			reason: "the agent cannot report what it waits for if it does not run",
			in:     Handshake{Bootstrap: outcome(probe.Functional), Hub: outcome(probe.SecretMissing), PodProblem: "ImagePullBackOff", Report: waiting},
			want:   operatorv1.JoinReasonAgentNotRunning, message: "ImagePullBackOff",
		},
		"NoReport": {
			reason: "the log is where to look next",
			in:     Handshake{Klusterlet: "k", Namespace: "ns", Bootstrap: outcome(probe.Functional), Hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonAgentStarting, message: "kubectl -n ns logs",
		},
		"Report": {
			reason: "what the agent reports has the command that helps",
			in:     Handshake{Bootstrap: outcome(probe.Functional), Hub: outcome(probe.SecretMissing), Report: waiting},
			want:   waiting.Reason, message: waiting.Message,
		},
		"NotAccepted": {
			reason: "with a certificate the hub does not let in who is not accepted",
			in:     Handshake{Bootstrap: outcome(probe.Functional), Hub: outcome(probe.Forbidden), Report: accept},
			want:   accept.Reason, message: accept.Message,
		},
		"PermissionsMissing": {
			reason: "an agent that believes to have joined does not know what is missing",
			in:     Handshake{ClusterName: "c1", Hub: outcome(probe.Forbidden), Report: JoinReport{Reason: operatorv1.JoinReasonJoined}},
			want:   operatorv1.JoinReasonHubPermissionsMissing, message: "seen Forbidden",
		},
		"CertificateRejected": {
			reason: "a report of the time before is not believed",
			in:     Handshake{Bootstrap: outcome(probe.Functional), Hub: outcome(probe.Unauthorized), Report: JoinReport{Reason: operatorv1.JoinReasonJoined}},
			want:   operatorv1.JoinReasonHubCredentialInvalid,
		},
		"Joined": {
			reason: "an expired token does not matter after joining, nor does a pod that restarts",
			in:     Handshake{ClusterName: "c1", Bootstrap: outcome(probe.Unauthorized), Hub: outcome(probe.Functional), PodProblem: "no pod"},
			want:   operatorv1.JoinReasonJoined, status: metav1.ConditionTrue, message: "c1",
		},
		"BadName": {
			reason: "the name is seen before anything is asked",
			in:     Handshake{NameProblem: "bad name"},
			want:   operatorv1.JoinReasonClusterNameInvalid, message: "bad name",
		},
		"Unsupported": {
			reason: "what this release cannot install is told as such",
			in:     Handshake{Unsupported: "driver grpc"},
			want:   operatorv1.JoinReasonUnsupportedMode, message: "driver grpc",
		},
		"NoManagedCluster": {
			reason: "hosted agents need a way to their member before anything else",
			in:     Handshake{Member: outcome(probe.Unreachable), Bootstrap: outcome(probe.SecretMissing), PodProblem: "no pod"},
			want:   operatorv1.JoinReasonManagedClusterUnreachable, message: "seen Unreachable",
		},
		"JoinedWithoutManagedCluster": {
			reason: "agents that have joined go on with their own tokens when the administrator's has expired",
			in:     Handshake{ClusterName: "c1", Member: outcome(probe.Unauthorized), Hub: outcome(probe.Functional)},
			want:   operatorv1.JoinReasonJoined, status: metav1.ConditionTrue, message: "c1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := JoinedCondition(test.in)
			status := test.status
			if status == "" {
				status = metav1.ConditionFalse
			}
			if got.Reason != test.want || got.Status != status || !strings.Contains(got.Message, test.message) {
				t.Errorf("%s: got %s/%s (%s), want %s/%s with %q", test.reason, got.Status, got.Reason, got.Message, status, test.want, test.message)
			}
		})
	}
}

func TestHubConnectionDegradedHasAPairOfReasons(t *testing.T) {
	for name, test := range map[string]struct {
		reason         string
		bootstrap, hub probe.Verdict
		want           string
		status         metav1.ConditionStatus
	}{
		"Joining":      {"before the agent has joined", probe.Functional, probe.SecretMissing, "BootstrapSecretFunctional,HubKubeConfigSecretMissing", metav1.ConditionTrue},
		"Nothing":      {"both secrets are missing", probe.SecretMissing, probe.SecretMissing, "BootstrapSecretMissing,HubKubeConfigSecretMissing", metav1.ConditionTrue},
		"NoKubeconfig": {"only the name is there", probe.Functional, probe.KubeconfigMissing, "BootstrapSecretFunctional,HubKubeConfigMissing", metav1.ConditionTrue},
		"NoName":       {"the name is missing", probe.Functional, probe.ClusterNameMissing, "BootstrapSecretFunctional,ClusterNameMissing", metav1.ConditionTrue},
		"Unreachable":  {"the hub does not answer", probe.Unreachable, probe.Unreachable, "BootstrapSecretError,HubKubeConfigError", metav1.ConditionTrue},
		"Expired":      {"the hub knows neither", probe.Unauthorized, probe.Unauthorized, "BootstrapSecretError,HubKubeConfigError", metav1.ConditionTrue},
		"Forbidden":    {"the hub allows neither", probe.Forbidden, probe.Forbidden, "BootstrapSecretUnauthorized,HubKubeConfigUnauthorized", metav1.ConditionTrue},
		"Good":         {"only the hub's own credential counts once it works", probe.Unauthorized, probe.Functional, "HubConnectionFunctional", metav1.ConditionFalse},
		"Unchecked":    {"nothing is known yet", probe.Functional, probe.Unchecked, "Checking", metav1.ConditionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := HubConnection(outcome(test.bootstrap), outcome(test.hub))
			if got.Reason != test.want || got.Status != test.status {
				t.Errorf("%s: got %s/%s, want %s/%s", test.reason, got.Status, got.Reason, test.status, test.want)
			}
		})
	}
}
