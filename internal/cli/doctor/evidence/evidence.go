// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence gathers the state of a hub, a cluster and a member for a
// diagnosis.
//
// It judges nothing. It reads in parallel, and each thing that cannot be read
// stands there with the reason. It changes nothing: what it creates is either a
// review or a dry run.
package evidence

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

// Reading is what came of reading something. It is there, or it is known not to
// be there, or it could not be read.
type Reading[T any] struct {
	// Value is set if it is there.
	Value T
	Found bool
	// Err is why it could not be read.
	Err error
}

// IsAbsent reports whether it is known not to be there.
func (r Reading[T]) IsAbsent() bool { return !r.Found && r.Err == nil }

// Workload is a Deployment with its pods.
type Workload struct {
	Namespace, Name string
	Deployment      Reading[*appsv1.Deployment]
	Pods            Reading[*corev1.PodList]
}

// ObjectPresence is something of which only matters whether it is there.
type ObjectPresence struct {
	// Kind, Namespace and Name say what it is.
	Kind, Namespace, Name string
	Reading               Reading[struct{}]
}

// Trial is something that was created as a dry run.
type Trial struct {
	// Kind is what was created.
	Kind string
	Err  error
}

// HubEvidence is what is known about a hub as such.
type HubEvidence struct {
	Server string
	// Version is that of its API server. If it could not be read, nothing else was.
	Version Reading[string]
	// Now is the time by the clock of the API server.
	Now time.Time
	// MissingKinds are those of a hub that the API server does not know, KnownKinds
	// the number of those that it knows.
	MissingKinds []string
	KnownKinds   int
	// KindsErr is why that is not known.
	KindsErr error

	Managers Reading[*operatorv1.ClusterManagerList]
	// Operator and Components are what runs of Capstan.
	Operator   Workload
	Components []Workload
	// Mutating and Validating are the webhooks of the hub; Serving the secrets with
	// the certificates of their servers, by the names of their Services.
	Mutating   Reading[*admissionv1.MutatingWebhookConfigurationList]
	Validating Reading[*admissionv1.ValidatingWebhookConfigurationList]
	Serving    map[string]Reading[*corev1.Secret]
	Trials     []Trial
	// APIServices are those of all APIs.
	APIServices Reading[*unstructured.UnstructuredList]
	// Bootstrap are the role for joining and its binding.
	Bootstrap []ObjectPresence
	// Tokens are the bootstrap tokens.
	Tokens Reading[*corev1.SecretList]
	// Requests are the certificate requests of all clusters.
	Requests Reading[*certificatesv1.CertificateSigningRequestList]
}

// ClusterEvidence is what the hub knows about a cluster.
type ClusterEvidence struct {
	Name       string
	Managed    Reading[*clusterv1.ManagedCluster]
	Connection Reading[*fleetv1alpha1.ClusterConnection]
	Namespace  Reading[*corev1.Namespace]
	// Grants are the roles and bindings of its agents.
	Grants []ObjectPresence
	Lease  Reading[*coordinationv1.Lease]
	Works  Reading[*workv1.ManifestWorkList]
	// Credential is the Secret of a Push cluster.
	Credential Reading[*corev1.Secret]
	// Others are all clusters.
	Others Reading[view.Fleet]
}

// UsesPushMode reports whether the hub opens the connections.
func (c *ClusterEvidence) UsesPushMode() bool {
	return c.Connection.Found && c.Connection.Value.Spec.SyncMode == fleetv1alpha1.SyncModePush
}

// MemberEvidence is what is known about a member from itself.
type MemberEvidence struct {
	Server string
	// UID is that of its namespace kube-system. If it could not be read because the
	// member does not answer, nothing else was.
	UID Reading[string]
	// Silent says that the member does not answer.
	Silent bool
	// Klusterlets are all; Klusterlet is the one of the cluster, or nil.
	Klusterlets Reading[*operatorv1.KlusterletList]
	Klusterlet  *operatorv1.Klusterlet
	Operator    Workload
	// Agents are those that the Klusterlet asks for.
	Agents []Workload
	// Grants are the accounts, roles and bindings of the agents.
	Grants []ObjectPresence
	// Bootstrap and Hub are the secrets with kubeconfigs of the hub, and what the
	// hub says to those, asked from here.
	Bootstrap, Hub             Reading[*corev1.Secret]
	BootstrapAnswer, HubAnswer probe.CheckOutcome
	JoinStatus                 Reading[*corev1.ConfigMap]
	// Accounts are those that push agents work as for the cluster, and AccountGrants
	// what the first of them needs.
	Accounts      Reading[*corev1.ServiceAccountList]
	AccountGrants []ObjectPresence
	Applied       Reading[*workv1.AppliedManifestWorkList]
}

// Evidence is all that is known about a hub, or one cluster of it.
type Evidence struct {
	Hub *HubEvidence
	// Cluster is nil if only the hub was asked about.
	Cluster *ClusterEvidence
	// Member is nil if the user has not given access to it.
	Member *MemberEvidence
	// Placements and ReplicaSets are all, if no cluster was asked about.
	Placements  Reading[*clusterv1beta1.PlacementList]
	ReplicaSets Reading[*workv1alpha1.ManifestWorkReplicaSetList]
}
