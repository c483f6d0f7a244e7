// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of ClusterConnection. A Pull cluster has neither of the first
// two: its agent reaches the hub, not the hub it.
const (
	// ClusterConnectionConditionConnected tells whether the push agent reaches the
	// cluster and works for it.
	ClusterConnectionConditionConnected = "Connected"
	// ClusterConnectionConditionCredentialsValid tells whether the cluster takes
	// the credential in the Secret.
	ClusterConnectionConditionCredentialsValid = "CredentialsValid"
	// ClusterConnectionConditionCompleteAPIEnablements tells whether
	// status.apiEnablements has all that the cluster serves.
	ClusterConnectionConditionCompleteAPIEnablements = "CompleteAPIEnablements"
)

// Reasons of Connected.
const (
	// ClusterConnectionReasonConnected (True): the API server answers, and the
	// agent works for the cluster.
	ClusterConnectionReasonConnected = "Connected"
	// ClusterConnectionReasonManagedClusterMissing (False): there is no
	// ManagedCluster of this name.
	ClusterConnectionReasonManagedClusterMissing = "ManagedClusterMissing"
	// ClusterConnectionReasonNotAccepted (False): the hub does not accept the
	// cluster.
	ClusterConnectionReasonNotAccepted = "NotAccepted"
	// ClusterConnectionReasonCredentialsInvalid (False): CredentialsValid is not
	// True and tells why.
	ClusterConnectionReasonCredentialsInvalid = "CredentialsInvalid"
	// ClusterConnectionReasonInvalidEndpoint (False): spec or caBundle cannot be
	// used; the message says what of it.
	ClusterConnectionReasonInvalidEndpoint = "InvalidEndpoint"
	// ClusterConnectionReasonForbiddenAddress (False): apiEndpoint or proxyURL
	// leads to an address of the hub itself, which is not allowed.
	ClusterConnectionReasonForbiddenAddress = "ForbiddenAddress"
	// ClusterConnectionReasonUnreachable (False): the API server does not answer,
	// or says that it is not well.
	ClusterConnectionReasonUnreachable = "Unreachable"
	// ClusterConnectionReasonUntrusted (False): the certificate of the API server
	// is not one that caBundle verifies.
	ClusterConnectionReasonUntrusted = "Untrusted"
	// ClusterConnectionReasonAlreadyJoined (False): the cluster has joined under
	// another name, which the message tells.
	ClusterConnectionReasonAlreadyJoined = "AlreadyJoined"
	// ClusterConnectionReasonIdentityChanged (False): another cluster than before
	// answers at the endpoint.
	ClusterConnectionReasonIdentityChanged = "IdentityChanged"
)

// Reasons of CredentialsValid.
const (
	// ClusterConnectionReasonAuthenticated (True): the cluster takes the token.
	ClusterConnectionReasonAuthenticated = "Authenticated"
	// ClusterConnectionReasonRenewalFailing (True): the cluster takes the token, which
	// expires soon and cannot be renewed; the message says why and until when.
	ClusterConnectionReasonRenewalFailing = "RenewalFailing"
	// ClusterConnectionReasonNotChecked (Unknown): the cluster was not reached with
	// this credential yet.
	ClusterConnectionReasonNotChecked = "NotChecked"
	// ClusterConnectionReasonSecretMissing (False): there is no such Secret, or it
	// has no token.
	ClusterConnectionReasonSecretMissing = "SecretMissing"
	// ClusterConnectionReasonSecretForbidden (False): the push agent may not read
	// the Secret.
	ClusterConnectionReasonSecretForbidden = "SecretForbidden"
	// ClusterConnectionReasonTokenExpired (False): the token has expired.
	ClusterConnectionReasonTokenExpired = "TokenExpired"
	// ClusterConnectionReasonUnauthorized (False): the cluster answers 401, so it
	// does not know the token (any more).
	ClusterConnectionReasonUnauthorized = "Unauthorized"
)

// Reasons of CompleteAPIEnablements.
const (
	// ClusterConnectionReasonComplete (True): all groups and versions are listed.
	ClusterConnectionReasonComplete = "Complete"
	// ClusterConnectionReasonPartial (False): some could not be discovered; what was
	// known of them before is kept.
	ClusterConnectionReasonPartial = "Partial"
	// ClusterConnectionReasonEmpty (False): nothing could be discovered; the list is
	// as it was before.
	ClusterConnectionReasonEmpty = "Empty"
)
