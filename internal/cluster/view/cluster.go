// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
)

// Claims and labels that tell where a cluster is.
const (
	claimRegion = "region.open-cluster-management.io"
	claimZone   = "zone.open-cluster-management.io"
	labelRegion = "topology.kubernetes.io/region"
	labelZone   = "topology.kubernetes.io/zone"
	// listSeparator is between several zones in a claim or a label.
	listSeparator = ","
	// zonesMax is in how many zones a cluster is at most, as a ClusterConnection has them.
	zonesMax = 100
)

// Mode tells who opens connections.
type Mode string

// The modes.
const (
	// Pull is for a cluster whose own agent dials the hub.
	Pull Mode = "Pull"
	// Push is for a cluster that the push agent on the hub dials.
	Push Mode = "Push"
)

// Acceptance is how far the hub is in letting a cluster in.
type Acceptance int

// The admissions.
const (
	// Undecided is a cluster that the hub has said nothing about.
	Undecided Acceptance = iota
	// Admitted is a cluster that the hub has given its permissions.
	Admitted
	// Twin is a cluster that is kept out because it is there already.
	Twin
	// Outside is a cluster that is kept out for another reason.
	Outside
)

// Cluster is what is known of a cluster. What is not known is empty.
type Cluster struct {
	Name string
	// Created is when its ManagedCluster was.
	Created  time.Time
	Deleting bool
	// Accepted is what an administrator wants: spec.hubAcceptsClient.
	Accepted bool
	// Admission is what the hub has made of that.
	Admission Acceptance
	// Joined says that an agent has joined as this cluster.
	Joined bool
	// AsksToJoin says that nobody has accepted the cluster so far, and that whoever asked for it could
	// not have: its name, labels and taints are that one's choice.
	AsksToJoin bool
	// Available is what the hub says of its health, "" if nothing yet, and since when.
	Available      metav1.ConditionStatus
	AvailableSince time.Time
	Mode           Mode
	// Held is the identity that the hub holds the cluster for: the UID of its
	// namespace kube-system, where the agents of Pull clusters cannot change it.
	Held string
	// Claimed is the identity that its agent says it has.
	Claimed string
	// Version is that of Kubernetes.
	Version string
	// Zones, Region and Provider tell where the cluster is, and Reported which of
	// these are the cluster's own word: nobody on the hub has said them.
	Zones            []string
	Region, Provider string
	Reported         Reported
	// Endpoints are the addresses of its API server.
	Endpoints []string
	// Nodes counts its nodes, nil if nobody has.
	Nodes *Nodes
	// GroupVersions and Resources are how many of each it serves; both are 0 if
	// nobody has looked.
	GroupVersions, Resources int
	// Labels and Claims are what users select clusters by. Claims are what the
	// cluster tells of itself, by name, and what an administrator has pinned.
	Labels, Claims map[string]string
	// Taints keep workloads away that do not tolerate them.
	Taints []Taint
	// Allocatable is what its nodes have for pods, all together.
	Allocatable corev1.ResourceList
	// Served is the kinds that it serves, and Room what it has left for further
	// pods, nil if nobody knows. Whole has them, FromCluster has not.
	Served ServedKinds
	Room   *FreeRoom
	// Scores are what add-ons think of it.
	Scores map[ScoreName]Score
	// Decisions is how many placements have chosen it.
	Decisions int

	// property is what the property id.k8s.io says, which its users may set.
	property string
	// agentLabels are the keys of labels that its agent may change.
	agentLabels agentlabels.AllowedKeys
	// fields makes what FieldTree returns, once.
	fields func() (map[string]any, error)
}

// Reported says which facts are known from the cluster alone.
type Reported struct{ Zones, Region, Provider bool }

// Nodes counts the nodes of a cluster.
type Nodes struct{ Total, Ready int }

// FromCluster returns what is known about a cluster. What its ClusterConnection says
// comes before what the cluster tells of itself: first its spec and pinned claims,
// where that is somebody's word, then what the agent found. Either may be nil. A cluster
// without a ClusterConnection is one that calls the hub.
func FromCluster(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) Cluster {
	if cluster == nil {
		cluster = &clusterv1.ManagedCluster{}
	}
	if connection == nil {
		connection = &fleetv1alpha1.ClusterConnection{}
	}
	pinned := PinnedClaims(cluster)
	claims := claimsWithPinned(cluster, pinned)
	c := IdentityFromCluster(cluster, connection)
	c.agentLabels = agentlabels.AllowedOf(cluster)
	c.AsksToJoin = asksToJoin(cluster) && !c.OwnsNamespace()
	c.property = claims[clusterv1alpha1.ClaimID]
	c.Version = cmp.Or(cluster.Status.Version.Kubernetes, connection.Status.KubernetesVersion, claims[clusterv1alpha1.ClaimKubeVersion])
	c.Zones = connection.Spec.Zones
	c.Region = cmp.Or(connection.Spec.Region, pinned[claimRegion], connection.Status.Region, claims[claimRegion], cluster.Labels[labelRegion])
	c.Provider = cmp.Or(connection.Spec.Provider, pinned[clusterv1alpha1.ClaimPlatform], connection.Status.Provider, claims[clusterv1alpha1.ClaimPlatform])
	c.GroupVersions = len(connection.Status.APIEnablements)
	c.Labels = cluster.Labels
	c.Claims = claims
	c.Taints = taintsOf(cluster)
	c.Allocatable = allocatableOf(cluster)
	c.fields = fieldsOf(cluster)
	if available := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable); available != nil {
		c.Available = available.Status
		c.AvailableSince = available.LastTransitionTime.Time
	}
	if len(c.Zones) == 0 && pinned[claimZone] == "" {
		c.Zones = distinctZones(connection.Status.Zones)
	}
	if zones := cmp.Or(claims[claimZone], cluster.Labels[labelZone]); len(c.Zones) == 0 && zones != "" {
		c.Zones = distinctZones(strings.SplitN(zones, listSeparator, zonesMax+1))
	}
	c.Reported = knownFromClusterAlone(c, pinned, cluster.Labels, connection.Spec)
	c.Endpoints = endpointsOf(cluster, connection)
	if n := connection.Status.NodeSummary; n != nil {
		c.Nodes = &Nodes{Total: int(n.TotalNum), Ready: int(n.ReadyNum)}
	}
	for _, served := range connection.Status.APIEnablements {
		c.Resources += len(served.Resources)
	}
	return c
}

// IdentityFromCluster returns of what is known about a cluster only who it is and whether it is, or was, in the
// fleet, which is what FirstOfIdentity, MayShare and OwnsNamespace ask for. Unlike FromCluster, it takes no
// longer where a cluster says much of itself. Either may be nil.
func IdentityFromCluster(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) Cluster {
	if cluster == nil {
		cluster = &clusterv1.ManagedCluster{}
	}
	if connection == nil {
		connection = &fleetv1alpha1.ClusterConnection{}
	}
	return Cluster{
		Name:    cmp.Or(cluster.Name, connection.Name),
		Created: cluster.CreationTimestamp.Time, Deleting: !cluster.DeletionTimestamp.IsZero(),
		Accepted: cluster.Spec.HubAcceptsClient, Admission: acceptanceOf(cluster),
		Joined: meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined),
		Mode:   modeOf(connection),
		Held:   connection.Identity(), Claimed: cmp.Or(ClaimedIdentity(cluster), connection.Status.ID),
	}
}

// distinctZones returns the first zonesMax zones, each once: whoever chooses clusters by zones
// counts them, and clusters say what they like.
func distinctZones(zones []string) []string {
	var once []string
	for _, zone := range zones[:min(len(zones), zonesMax)] {
		if zone != "" && !slices.Contains(once, zone) {
			once = append(once, zone)
		}
	}
	return once
}

// knownFromClusterAlone says which of zones, region and provider the hub has from the
// cluster alone: neither from the spec of its ClusterConnection, nor from a claim that an
// administrator has pinned, nor from a label, which agents may not change.
func knownFromClusterAlone(c Cluster, pinned, labels map[string]string, said fleetv1alpha1.ClusterConnectionSpec) Reported {
	by := func(value string, hub ...string) bool { return value != "" && !slices.Contains(hub, value) }
	return Reported{
		Zones:    by(strings.Join(c.Zones, listSeparator), strings.Join(said.Zones, listSeparator), pinned[claimZone], labels[labelZone]),
		Region:   by(c.Region, said.Region, pinned[claimRegion], labels[labelRegion]),
		Provider: by(c.Provider, said.Provider, pinned[clusterv1alpha1.ClaimPlatform]),
	}
}

// KnownIdentity returns who the cluster is: who the hub holds it for, or else who it
// says it is. It is "" if that is not known.
func (c Cluster) KnownIdentity() string { return cmp.Or(c.Held, c.Claimed, c.property) }

// OwnsNamespace reports whether the namespace of its name on the hub is the cluster's: it
// has been accepted, now or before, or the hub is to connect to it with what is in
// there. Whoever may only ask for acceptance gets hold of no namespace by its name.
func (c Cluster) OwnsNamespace() bool {
	return c.Accepted || c.Joined || c.Admission == Admitted || c.Mode == Push
}

// asksToJoin reports whether the hub has marked a cluster as one that waits for acceptance, and nobody who may
// accept it has registered it. Nobody but the hub writes these marks.
func asksToJoin(cluster *clusterv1.ManagedCluster) bool {
	return clusterv1.AwaitingMarkOf(cluster) != "" && cluster.Annotations[clusterv1.AnnotationRegisteredByAcceptor] != "true"
}

// identityBytesMax is how long an identity is at most. It is the UID of a namespace, which
// has 36 bytes.
const identityBytesMax = 128

// ClaimedIdentity returns the identity that the agent which created the ManagedCluster
// gave it, "" if it gave none, or what is none.
func ClaimedIdentity(cluster *clusterv1.ManagedCluster) string {
	id := cluster.Annotations[clusterv1.AnnotationClusterUID]
	if len(id) > identityBytesMax {
		return ""
	}
	return id
}

func modeOf(connection *fleetv1alpha1.ClusterConnection) Mode {
	if connection.Spec.SyncMode == fleetv1alpha1.SyncModePush {
		return Push
	}
	return Pull
}

func acceptanceOf(cluster *clusterv1.ManagedCluster) Acceptance {
	accepted := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	switch {
	case accepted == nil:
		return Undecided
	case accepted.Status == metav1.ConditionTrue:
		return Admitted
	case accepted.Reason == clusterv1.ManagedClusterReasonAlreadyJoined:
		return Twin
	default:
		return Outside
	}
}

func endpointsOf(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) []string {
	if connection.Spec.APIEndpoint != "" {
		return []string{connection.Spec.APIEndpoint}
	}
	var endpoints []string
	for _, config := range cluster.Spec.ManagedClusterClientConfigs {
		endpoints = append(endpoints, config.URL)
	}
	return endpoints
}
