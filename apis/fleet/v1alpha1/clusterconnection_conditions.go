// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of ClusterConnection. A Pull cluster has neither of the first
// two: its agent connects to the hub, not the hub to it.
const (
	// ClusterConnectionConditionConnected reports whether the push agent is
	// connected to the cluster and serves it.
	ClusterConnectionConditionConnected = "Connected"
	// ClusterConnectionConditionCredentialsValid reports whether the cluster
	// accepts the credential in the Secret.
	ClusterConnectionConditionCredentialsValid = "CredentialsValid"
	// ClusterConnectionConditionCompleteAPIEnablements reports whether
	// status.apiEnablements is complete.
	ClusterConnectionConditionCompleteAPIEnablements = "CompleteAPIEnablements"
	// ClusterConnectionConditionCompleteResourceSummary reports whether
	// status.resourceSummary has what pods request. It is there while that is
	// asked for: by the Cluster API or spec.resourceModels.
	ClusterConnectionConditionCompleteResourceSummary = "CompleteResourceSummary"
)

// Reasons of Connected.
const (
	// ClusterConnectionReasonConnected (True): the API server responds, and the
	// agent serves the cluster.
	ClusterConnectionReasonConnected = "Connected"
	// ClusterConnectionReasonManagedClusterMissing (False): there is no
	// ManagedCluster of this name.
	ClusterConnectionReasonManagedClusterMissing = "ManagedClusterMissing"
	// ClusterConnectionReasonNotAccepted (False): the hub does not accept the
	// cluster.
	ClusterConnectionReasonNotAccepted = "NotAccepted"
	// ClusterConnectionReasonCredentialsInvalid (False): CredentialsValid is not
	// True; its message says why.
	ClusterConnectionReasonCredentialsInvalid = "CredentialsInvalid"
	// ClusterConnectionReasonInvalidEndpoint (False): the spec or caBundle is
	// invalid; the message says why.
	ClusterConnectionReasonInvalidEndpoint = "InvalidEndpoint"
	// ClusterConnectionReasonForbiddenAddress (False): apiEndpoint or proxyURL
	// resolves to an address of the hub itself, which is not allowed.
	ClusterConnectionReasonForbiddenAddress = "ForbiddenAddress"
	// ClusterConnectionReasonUnreachable (False): the API server does not respond,
	// or reports that it is unhealthy.
	ClusterConnectionReasonUnreachable = "Unreachable"
	// ClusterConnectionReasonAnswerTooLarge (False): the API server responds with
	// more than the push agent accepts, so not all of the cluster is known.
	ClusterConnectionReasonAnswerTooLarge = "AnswerTooLarge"
	// ClusterConnectionReasonAgentFailed (False): the push agent met a bug of its own
	// at something in the cluster, and serves the cluster again later.
	ClusterConnectionReasonAgentFailed = "AgentFailed"
	// ClusterConnectionReasonUntrusted (False): caBundle does not verify the
	// certificate of the API server.
	ClusterConnectionReasonUntrusted = "Untrusted"
	// ClusterConnectionReasonAlreadyJoined (False): the cluster has joined under
	// another name, which the message contains.
	ClusterConnectionReasonAlreadyJoined = "AlreadyJoined"
	// ClusterConnectionReasonIdentityChanged (False): a different cluster than
	// before responds at the endpoint.
	ClusterConnectionReasonIdentityChanged = "IdentityChanged"
	// ClusterConnectionReasonDefinitionsMissing (False): the cluster does not serve
	// the kinds by which the push agent delivers, and it could not install them; the
	// message says what to do.
	ClusterConnectionReasonDefinitionsMissing = "DefinitionsMissing"
)

// Reasons of CredentialsValid.
const (
	// ClusterConnectionReasonAuthenticated (True): the cluster accepts the token.
	ClusterConnectionReasonAuthenticated = "Authenticated"
	// ClusterConnectionReasonRenewalFailing (True): the cluster accepts the token,
	// but it expires soon and cannot be renewed; the message says why and when.
	ClusterConnectionReasonRenewalFailing = "RenewalFailing"
	// ClusterConnectionReasonNotChecked (Unknown): the credential has not been
	// checked against the cluster yet.
	ClusterConnectionReasonNotChecked = "NotChecked"
	// ClusterConnectionReasonSecretMissing (False): the Secret is missing or has
	// no token.
	ClusterConnectionReasonSecretMissing = "SecretMissing"
	// ClusterConnectionReasonSecretForbidden (False): the push agent may not read
	// the Secret.
	ClusterConnectionReasonSecretForbidden = "SecretForbidden"
	// ClusterConnectionReasonTokenExpired (False): the token has expired.
	ClusterConnectionReasonTokenExpired = "TokenExpired"
	// ClusterConnectionReasonUnauthorized (False): the cluster rejects the token
	// (401).
	ClusterConnectionReasonUnauthorized = "Unauthorized"
)

// Reasons of CompleteAPIEnablements and CompleteResourceSummary.
const (
	// ClusterConnectionReasonComplete (True): all groups and versions are listed,
	// or all pods counted.
	ClusterConnectionReasonComplete = "Complete"
	// ClusterConnectionReasonPartial (False): some could not be discovered; their
	// previous entries are kept.
	ClusterConnectionReasonPartial = "Partial"
	// ClusterConnectionReasonEmpty (False): nothing could be discovered; the
	// previous list is kept.
	ClusterConnectionReasonEmpty = "Empty"
	// ClusterConnectionReasonPodsForbidden (False): the agent may not list and
	// watch pods.
	ClusterConnectionReasonPodsForbidden = "PodsForbidden"
	// ClusterConnectionReasonPodsUnknown (False): the pods have not been listed yet.
	ClusterConnectionReasonPodsUnknown = "PodsUnknown"
)
