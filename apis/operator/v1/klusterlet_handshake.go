// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// KlusterletJoined is the condition that answers "why does it not join?". It is
// True once the hub accepts the agent; until then its reason is the pending
// step of the handshake, and its message says what it is waiting for and which
// command helps.
const KlusterletJoined = "Joined"

// Reasons of the condition Joined. The operator determines those of the first
// group itself, by checking the kubeconfig on behalf of the agent. Those of the
// second group are reported by the agent; see JoinStatusConfigMap. The agent
// may also report reasons of the first group, since it may see what the
// operator cannot, for example behind a network policy.
const (
	// JoinReasonJoined: the hub accepts the agent's own credential.
	JoinReasonJoined = "Joined"
	// JoinReasonChecking: the check is still running.
	JoinReasonChecking = "Checking"
	// JoinReasonBootstrapSecretMissing: there is no Secret
	// bootstrap-hub-kubeconfig.
	JoinReasonBootstrapSecretMissing = "BootstrapSecretMissing"
	// JoinReasonBootstrapSecretMalformed: its kubeconfig cannot be used.
	JoinReasonBootstrapSecretMalformed = "BootstrapSecretMalformed"
	// JoinReasonHubUnreachable: the hub's address does not answer: the name does
	// not resolve, the connection is refused or times out.
	JoinReasonHubUnreachable = "HubUnreachable"
	// JoinReasonHubCertificateUntrusted: the hub's certificate is not signed by
	// the CA in the kubeconfig, is for another name, or has expired.
	JoinReasonHubCertificateUntrusted = "HubCertificateUntrusted"
	// JoinReasonBootstrapUnauthorized: the hub rejects the bootstrap credential;
	// usually its token has expired.
	JoinReasonBootstrapUnauthorized = "BootstrapUnauthorized"
	// JoinReasonBootstrapForbidden: the bootstrap credential is valid, but lacks
	// permissions needed to join.
	JoinReasonBootstrapForbidden = "BootstrapForbidden"
	// JoinReasonClusterNameInvalid: the cluster's name is not a valid namespace
	// name.
	JoinReasonClusterNameInvalid = "ClusterNameInvalid"
	// JoinReasonAgentNotRunning: no pod of the agent runs.
	JoinReasonAgentNotRunning = "AgentNotRunning"
	// JoinReasonAgentStarting: the agent is running but has not reported a step
	// yet.
	JoinReasonAgentStarting = "AgentStarting"
	// JoinReasonHubPermissionsMissing: the hub accepted the cluster, but the agent
	// lacks permissions there.
	JoinReasonHubPermissionsMissing = "HubPermissionsMissing"
	// JoinReasonHubCredentialInvalid: the Secret hub-kubeconfig-secret cannot be
	// used, or the hub no longer accepts its certificate.
	JoinReasonHubCredentialInvalid = "HubCredentialInvalid"
	// JoinReasonManagedKubeconfigMissing: in mode Hosted, the Secret
	// external-managed-kubeconfig is missing or has no kubeconfig.
	JoinReasonManagedKubeconfigMissing = "ManagedKubeconfigMissing"
	// JoinReasonManagedKubeconfigMalformed: its kubeconfig cannot be used.
	JoinReasonManagedKubeconfigMalformed = "ManagedKubeconfigMalformed"
	// JoinReasonManagedClusterUnreachable: the managed cluster's address does not
	// answer.
	JoinReasonManagedClusterUnreachable = "ManagedClusterUnreachable"
	// JoinReasonManagedClusterUntrusted: the managed cluster's certificate is not
	// signed by the CA in the kubeconfig, is for another name, or has expired.
	JoinReasonManagedClusterUntrusted = "ManagedClusterUntrusted"
	// JoinReasonManagedClusterUnauthorized: the managed cluster rejects the
	// credential.
	JoinReasonManagedClusterUnauthorized = "ManagedClusterUnauthorized"
	// JoinReasonManagedClusterForbidden: the credential lacks the permissions to
	// install the agents' accounts and roles on the managed cluster.
	JoinReasonManagedClusterForbidden = "ManagedClusterForbidden"
	// JoinReasonUnsupportedMode: this release does not support the mode.
	JoinReasonUnsupportedMode = "UnsupportedMode"

	// JoinReasonClusterNameTaken: another agent has joined under this name.
	JoinReasonClusterNameTaken = "ClusterNameTaken"
	// JoinReasonWaitingForCSRApproval: a hub administrator has to approve the
	// certificate signing request that the message names.
	JoinReasonWaitingForCSRApproval = "WaitingForCSRApproval"
	// JoinReasonWaitingForAcceptance: a hub administrator has to set
	// spec.hubAcceptsClient of the ManagedCluster.
	JoinReasonWaitingForAcceptance = "WaitingForAcceptance"
	// JoinReasonCSRDenied: a hub administrator denied the certificate signing
	// request, or signing it failed.
	JoinReasonCSRDenied = "CSRDenied"
)

const (
	// JoinStatusConfigMap is the ConfigMap in the agent's namespace in which the
	// agent reports its step of the handshake to the operator. The agent writes it
	// only when the step changes.
	JoinStatusConfigMap = "agent-join-status"
	// JoinStatusReasonKey is its key for one of the reasons of the condition Joined.
	JoinStatusReasonKey = "reason"
	// JoinStatusMessageKey is its key for the message of the condition.
	JoinStatusMessageKey = "message"
)

const (
	// KlusterletConditionPaused (True): AnnotationPaused is set, and the operator
	// does not reconcile the agents. Absent otherwise.
	KlusterletConditionPaused = "Paused"
	// KlusterletReasonPausedByAnnotation is its reason.
	KlusterletReasonPausedByAnnotation = "PausedByAnnotation"
)
