// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
)

func outcome(verdict probe.Verdict) probe.Outcome {
	return probe.Outcome{Verdict: verdict, Message: "seen " + string(verdict)}
}

func TestJoinedNamesTheStepThatWaits(t *testing.T) {
	waiting := joinReport{operatorv1.JoinReasonWaitingForCSRApproval, "kubectl certificate approve c1-abc"}
	accept := joinReport{operatorv1.JoinReasonWaitingForAcceptance, "kubectl patch managedcluster c1"}
	for name, test := range map[string]struct {
		reason  string
		in      handshake
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
			in:     handshake{namespace: "ns", bootstrap: outcome(probe.SecretMissing), hub: outcome(probe.SecretMissing), podProblem: "no pod"},
			want:   operatorv1.JoinReasonBootstrapSecretMissing, message: "kubectl -n ns create secret",
		},
		"Malformed": {
			reason: "a kubeconfig that cannot be read is not a network problem",
			in:     handshake{bootstrap: outcome(probe.KubeconfigMalformed), hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonBootstrapSecretMalformed,
		},
		"Unreachable": {
			reason: "the network comes before the agent, which could not do anything either",
			in:     handshake{bootstrap: outcome(probe.Unreachable), hub: outcome(probe.SecretMissing), podProblem: "no pod"},
			want:   operatorv1.JoinReasonHubUnreachable,
		},
		"WrongCA": {
			reason: "the certificate authority is what to mend",
			in:     handshake{bootstrap: outcome(probe.Untrusted), hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonHubCertificateUntrusted,
		},
		"ExpiredToken": {
			reason: "the token is what to mend, though the agent waits for an approval",
			in:     handshake{bootstrap: outcome(probe.Unauthorized), hub: outcome(probe.SecretMissing), report: waiting},
			want:   operatorv1.JoinReasonBootstrapUnauthorized, message: "new token",
		},
		"Forbidden": {
			reason: "the missing permission is named",
			in:     handshake{bootstrap: outcome(probe.Forbidden), hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonBootstrapForbidden,
		},
		"NoPod": {
			reason: "the agent cannot report what it waits for if it does not run",
			in:     handshake{bootstrap: outcome(probe.Functional), hub: outcome(probe.SecretMissing), podProblem: "ImagePullBackOff", report: waiting},
			want:   operatorv1.JoinReasonAgentNotRunning, message: "ImagePullBackOff",
		},
		"NoReport": {
			reason: "the log is where to look next",
			in:     handshake{klusterlet: "k", namespace: "ns", bootstrap: outcome(probe.Functional), hub: outcome(probe.SecretMissing)},
			want:   operatorv1.JoinReasonAgentStarting, message: "kubectl -n ns logs",
		},
		"Report": {
			reason: "what the agent reports has the command that helps",
			in:     handshake{bootstrap: outcome(probe.Functional), hub: outcome(probe.SecretMissing), report: waiting},
			want:   waiting.reason, message: waiting.message,
		},
		"NotAccepted": {
			reason: "with a certificate the hub does not let in who is not accepted",
			in:     handshake{bootstrap: outcome(probe.Functional), hub: outcome(probe.Forbidden), report: accept},
			want:   accept.reason, message: accept.message,
		},
		"PermissionsMissing": {
			reason: "an agent that believes to have joined does not know what is missing",
			in:     handshake{clusterName: "c1", hub: outcome(probe.Forbidden), report: joinReport{reason: operatorv1.JoinReasonJoined}},
			want:   operatorv1.JoinReasonHubPermissionsMissing, message: "seen Forbidden",
		},
		"CertificateRejected": {
			reason: "a report of the time before is not believed",
			in:     handshake{bootstrap: outcome(probe.Functional), hub: outcome(probe.Unauthorized), report: joinReport{reason: operatorv1.JoinReasonJoined}},
			want:   operatorv1.JoinReasonHubCredentialInvalid,
		},
		"Joined": {
			reason: "an expired token does not matter after joining, nor does a pod that restarts",
			in:     handshake{clusterName: "c1", bootstrap: outcome(probe.Unauthorized), hub: outcome(probe.Functional), podProblem: "no pod"},
			want:   operatorv1.JoinReasonJoined, status: metav1.ConditionTrue, message: "c1",
		},
		"BadName": {
			reason: "the name is seen before anything is asked",
			in:     handshake{nameProblem: "bad name"},
			want:   operatorv1.JoinReasonClusterNameInvalid, message: "bad name",
		},
		"Unsupported": {
			reason: "what this release cannot install is told as such",
			in:     handshake{unsupported: "driver grpc"},
			want:   operatorv1.JoinReasonUnsupportedMode, message: "driver grpc",
		},
		"NoManagedCluster": {
			reason: "hosted agents need a way to their member before anything else",
			in:     handshake{member: outcome(probe.Unreachable), bootstrap: outcome(probe.SecretMissing), podProblem: "no pod"},
			want:   operatorv1.JoinReasonManagedClusterUnreachable, message: "seen Unreachable",
		},
		"JoinedWithoutManagedCluster": {
			reason: "agents that have joined go on with their own tokens when the administrator's has expired",
			in:     handshake{clusterName: "c1", member: outcome(probe.Unauthorized), hub: outcome(probe.Functional)},
			want:   operatorv1.JoinReasonJoined, status: metav1.ConditionTrue, message: "c1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := joined(test.in)
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
			got := hubConnection(outcome(test.bootstrap), outcome(test.hub))
			if got.Reason != test.want || got.Status != test.status {
				t.Errorf("%s: got %s/%s, want %s/%s", test.reason, got.Status, got.Reason, test.status, test.want)
			}
		})
	}
}
