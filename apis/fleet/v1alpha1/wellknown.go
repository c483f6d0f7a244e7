// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The Secret with the credential for a Push cluster, in the namespace of the
// cluster on the hub.
const (
	// DefaultSecretName is the name of a Secret that spec.secretRef does not give.
	// The push agent may read the Secret of this name of each Push cluster; another
	// name has to be granted to it.
	DefaultSecretName = "cluster-connection"
	// SecretKeyToken is the key of the bearer token.
	SecretKeyToken = "token"
	// SecretKeyCABundle is the key of the PEM encoded certificates that the API
	// server's certificate is verified with. Without it, those of the system count.
	SecretKeyCABundle = "caBundle"
)

// The push agent.
const (
	// PushAgentServiceAccount is the name of its ServiceAccount in the namespace
	// of the hub's components.
	PushAgentServiceAccount = "push-agent-sa"
	// PushCredentialsRole is the ClusterRole that lets it use the Secret
	// DefaultSecretName; it is bound in the namespace of each Push cluster.
	PushCredentialsRole = "open-cluster-management:push-agent:credentials"
)
