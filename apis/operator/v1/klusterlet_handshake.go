// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// KlusterletJoined is the condition that answers "why does it not join?": True
// when the hub lets the agent in; otherwise its reason is the step of the
// handshake that waits, and its message says for what and which command helps.
const KlusterletJoined = "Joined"

// Reasons of the condition Joined. The operator finds those of the first group
// by itself, with the kubeconfig that it checks on behalf of the agent. Those
// of the second group it takes over from the agent; see JoinStatusConfigMap.
// The agent may also report reasons of the first group, as it may see what the
// operator cannot, for example behind a network policy.
const (
	// JoinReasonJoined: the hub accepts the agent's own credential.
	JoinReasonJoined = "Joined"
	// JoinReasonChecking: nothing is known yet; the check runs.
	JoinReasonChecking = "Checking"
	// JoinReasonBootstrapSecretMissing: there is no secret bootstrap-hub-kubeconfig.
	JoinReasonBootstrapSecretMissing = "BootstrapSecretMissing"
	// JoinReasonBootstrapSecretMalformed: its kubeconfig cannot be used.
	JoinReasonBootstrapSecretMalformed = "BootstrapSecretMalformed"
	// JoinReasonHubUnreachable: no answer from the hub's address: the name is
	// unknown, the connection is refused, or it takes too long.
	JoinReasonHubUnreachable = "HubUnreachable"
	// JoinReasonHubCertificateUntrusted: the hub's certificate is not signed by
	// the CA in the kubeconfig, is for another name, or has expired.
	JoinReasonHubCertificateUntrusted = "HubCertificateUntrusted"
	// JoinReasonBootstrapUnauthorized: the hub does not know the bootstrap
	// credential; mostly its token has expired.
	JoinReasonBootstrapUnauthorized = "BootstrapUnauthorized"
	// JoinReasonBootstrapForbidden: the hub knows the bootstrap credential, but
	// does not allow what joining needs.
	JoinReasonBootstrapForbidden = "BootstrapForbidden"
	// JoinReasonClusterNameInvalid: the cluster's name cannot be a namespace.
	JoinReasonClusterNameInvalid = "ClusterNameInvalid"
	// JoinReasonAgentNotRunning: no pod of the agent runs.
	JoinReasonAgentNotRunning = "AgentNotRunning"
	// JoinReasonAgentStarting: the agent runs and has not reported a step yet.
	JoinReasonAgentStarting = "AgentStarting"
	// JoinReasonHubPermissionsMissing: the hub accepted the cluster, but does
	// not allow the agent all that it needs.
	JoinReasonHubPermissionsMissing = "HubPermissionsMissing"
	// JoinReasonHubCredentialInvalid: the secret hub-kubeconfig-secret cannot be
	// used, or the hub does not know its certificate any more.
	JoinReasonHubCredentialInvalid = "HubCredentialInvalid"
	// JoinReasonManagedKubeconfigMissing: in mode Hosted, there is no secret
	// external-managed-kubeconfig, or no kubeconfig in it.
	JoinReasonManagedKubeconfigMissing = "ManagedKubeconfigMissing"
	// JoinReasonManagedKubeconfigMalformed: its kubeconfig cannot be used.
	JoinReasonManagedKubeconfigMalformed = "ManagedKubeconfigMalformed"
	// JoinReasonManagedClusterUnreachable: no answer from the managed cluster's
	// address.
	JoinReasonManagedClusterUnreachable = "ManagedClusterUnreachable"
	// JoinReasonManagedClusterUntrusted: the managed cluster's certificate is not
	// signed by the CA in the kubeconfig, is for another name, or has expired.
	JoinReasonManagedClusterUntrusted = "ManagedClusterUntrusted"
	// JoinReasonManagedClusterUnauthorized: the managed cluster does not know the
	// credential.
	JoinReasonManagedClusterUnauthorized = "ManagedClusterUnauthorized"
	// JoinReasonManagedClusterForbidden: the managed cluster does not allow what
	// installing the agents' accounts and roles needs.
	JoinReasonManagedClusterForbidden = "ManagedClusterForbidden"
	// JoinReasonUnsupportedMode: this release cannot install the mode.
	JoinReasonUnsupportedMode = "UnsupportedMode"

	// JoinReasonClusterNameTaken: another agent has joined under the name.
	JoinReasonClusterNameTaken = "ClusterNameTaken"
	// JoinReasonWaitingForCSRApproval: an administrator of the hub has to
	// approve the certificate signing request that the message names.
	JoinReasonWaitingForCSRApproval = "WaitingForCSRApproval"
	// JoinReasonWaitingForAcceptance: an administrator of the hub has to set
	// spec.hubAcceptsClient of the ManagedCluster.
	JoinReasonWaitingForAcceptance = "WaitingForAcceptance"
	// JoinReasonCSRDenied: an administrator of the hub denied the certificate
	// signing request, or signing it failed.
	JoinReasonCSRDenied = "CSRDenied"
)

const (
	// JoinStatusConfigMap is the ConfigMap in the namespace of the agent in which
	// the agent tells the operator the step of the handshake that it is at. The
	// agent writes it only when the step changes.
	JoinStatusConfigMap = "agent-join-status"
	// JoinStatusReasonKey is its key for one of the reasons of the condition Joined.
	JoinStatusReasonKey = "reason"
	// JoinStatusMessageKey is its key for the message of the condition.
	JoinStatusMessageKey = "message"
)

const (
	// KlusterletConditionPaused (True) tells that the operator leaves the agents
	// alone, as AnnotationPaused says. It is there only while that is so.
	KlusterletConditionPaused = "Paused"
	// KlusterletReasonPausedByAnnotation is its reason.
	KlusterletReasonPausedByAnnotation = "PausedByAnnotation"
)
