// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join registers the agent of a cluster with a hub: it creates the
// ManagedCluster, gets a client certificate through a certificate signing
// request, waits until the hub accepts the cluster, and renews the certificate.
//
// The HandshakeMachine keeps a few facts, each of which comes from a watch or from the
// answer to a request of its own. decideNext looks at the facts and says what to do
// next; it is a pure function. The HandshakeMachine does that and looks again. There is
// no other state: killed at any moment, it finds its place again by the facts.
//
// # What is stored, and where
//
// All of it is in the namespace of the agent:
//
//   - Secret bootstrap-hub-kubeconfig: given by the user, never written.
//   - Secret hub-kubeconfig-secret: the hub credential (keys kubeconfig,
//     tls.crt, tls.key, cluster-name, agent-name), written as a whole when a
//     certificate has been issued.
//   - Secret hub-kubeconfig-pending: the key of a certificate signing request
//     that is not answered yet. It is written before the request is made, and
//     the name of the request follows from the key, so an agent that is killed
//     in between finds its request again, even where it may not list requests.
//   - ConfigMap agent-join-status: where the handshake is, for the Klusterlet.
//
// # When a name is taken
//
// The agent puts the UID of its cluster's namespace kube-system onto the
// ManagedCluster that it creates (annotation AnnotationClusterUID). A
// ManagedCluster with another UID belongs to another cluster: the agent does
// not ask for a certificate under its name. A ManagedCluster without the
// annotation, made by an administrator or by another kind of agent, is taken
// as long as it has joined and is heard of; that it belongs to the same
// cluster cannot be known then, and waiting until its lease is stale is safe.
// An agent that has a hub credential for the name does not ask this question.
//
// # What ends a membership
//
// Refused (hubAcceptsClient is set to false): the parts are disengaged and the
// agent waits, by a watch where the hub lets it and otherwise by asking rarely,
// to be accepted again. Deleted on the hub: the same, and the agent does not
// create the ManagedCluster again, as the hub's administrator wants it gone. It
// joins again when the administrator creates it again, when it is given another
// bootstrap kubeconfig, or when hub-kubeconfig-secret is deleted.
package join
