// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestWhatIsKnownOfACluster(t *testing.T) {
	born := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	cluster := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: "east", CreationTimestamp: born,
			Annotations: map[string]string{clusterv1.AnnotationClusterUID: "claimed"},
			Labels:      map[string]string{labelRegion: "label-region", labelZone: "a,b"},
		},
		Spec: clusterv1.ManagedClusterSpec{
			Taints:           []clusterv1.Taint{{Key: "gpu", Value: "only", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: born}},
			HubAcceptsClient: true, ManagedClusterClientConfigs: []clusterv1.ClientConfig{{URL: "https://one"}, {URL: "https://two"}},
		},
		Status: clusterv1.ManagedClusterStatus{
			Allocatable: clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse("4")},
			ClusterClaims: []clusterv1.ManagedClusterClaim{
				{Name: clusterv1alpha1.ClaimID, Value: "property"},
				{Name: clusterv1alpha1.ClaimKubeVersion, Value: "v1.35.0"},
				{Name: clusterv1alpha1.ClaimPlatform, Value: "metal"},
				{Name: claimRegion, Value: "claim-region"},
			},
			Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue},
				{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue},
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown},
			},
		},
	}
	connection := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec: fleetv1alpha1.ClusterConnectionSpec{
			SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://three", Provider: "cloud", Region: "eu", Zones: []string{"c"},
		},
		Status: fleetv1alpha1.ClusterConnectionStatus{
			ID: "seen", KubernetesVersion: "v1.36.0", NodeSummary: &fleetv1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 2},
			APIEnablements: []fleetv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: make([]fleetv1alpha1.APIResource, 2)}, {GroupVersion: "apps/v1"}},
		},
	}
	told := Cluster{
		Name: "east", Created: born.Time, Accepted: true, Admission: Admitted, Joined: true, Available: metav1.ConditionUnknown,
		Mode: Pull, Claimed: "claimed", Version: "v1.35.0", Zones: []string{"a", "b"}, Region: "claim-region", Provider: "metal",
		Endpoints: []string{"https://one", "https://two"},
		Labels:    cluster.Labels, Taints: []Taint{{Key: "gpu", Value: "only", Effect: NoSelect, Since: born.Time}},
		Claims: map[string]string{
			clusterv1alpha1.ClaimID: "property", clusterv1alpha1.ClaimKubeVersion: "v1.35.0", clusterv1alpha1.ClaimPlatform: "metal", claimRegion: "claim-region",
		},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		Reported:    Reported{Region: true, Provider: true},
	}
	both := told
	both.Mode, both.Held, both.Version, both.Zones = Push, "seen", "v1.36.0", []string{"c"}
	both.Region, both.Provider, both.Endpoints = "eu", "cloud", []string{"https://three"}
	both.Reported = Reported{}
	// What the agent found of the nodes stands between the spec and what the cluster
	// tells of itself.
	found := connection.DeepCopy()
	found.Spec.Zones, found.Spec.Region, found.Spec.Provider = nil, "", "cloud"
	found.Status.Zones, found.Status.Region, found.Status.Provider = []string{"node-zone"}, "node-region", "node-provider"
	both.Nodes, both.GroupVersions, both.Resources = &Nodes{Total: 3, Ready: 2}, 2, 2
	placed := both
	placed.Zones, placed.Region = []string{"node-zone"}, "node-region"
	placed.Reported = Reported{Zones: true, Region: true}
	// What an administrator has pinned stands before both.
	pinned := cluster.DeepCopy()
	pinned.Annotations[fleetv1alpha1.AnnotationPinnedClaims] = `{"` + claimRegion + `":"pinned-region","` + claimZone + `":"pinned-zone"}`
	held := placed
	held.Zones, held.Region, held.Reported = []string{"pinned-zone"}, "pinned-region", Reported{}
	held.Claims = maps.Clone(placed.Claims)
	held.Claims[claimRegion], held.Claims[claimZone] = "pinned-region", "pinned-zone"
	cases := map[string]struct {
		reason     string
		cluster    *clusterv1.ManagedCluster
		connection *fleetv1alpha1.ClusterConnection
		want       Cluster
		identity   string
	}{
		"nothing":                   {reason: "what is not known is empty", want: Cluster{Mode: Pull}},
		"a cluster of itself":       {reason: "it has no connection, so it calls the hub", cluster: cluster, want: told, identity: "claimed"},
		"a cluster that is dialled": {reason: "what the hub sees comes before what it is told", cluster: cluster, connection: connection, want: both, identity: "seen"},
		"a cluster with nodes":      {reason: "the nodes know where they are", cluster: cluster, connection: found, want: placed, identity: "seen"},
		"a cluster with pins":       {reason: "a cluster does not move itself", cluster: pinned, connection: found, want: held, identity: "seen"},
		"a connection alone": {
			reason: "it may be there first", connection: connection, identity: "seen",
			want: Cluster{
				Name: "east", Mode: Push, Held: "seen", Claimed: "seen", Version: "v1.36.0", Zones: []string{"c"}, Region: "eu", Provider: "cloud",
				Endpoints: []string{"https://three"}, Nodes: &Nodes{Total: 3, Ready: 2}, GroupVersions: 2, Resources: 2,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := FromCluster(tc.cluster, tc.connection)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(Cluster{}), cmpopts.EquateEmpty(), cmpopts.EquateComparable(ServedKinds{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got.KnownIdentity() != tc.identity {
				t.Errorf("%s: the identity is %q, want %q", tc.reason, got.KnownIdentity(), tc.identity)
			}
		})
	}
}

// TestWhoOnlyAsksToJoin is about clusters that nobody has accepted: who asked for one may have chosen all that it
// is known by. What was accepted once, or is dialled, is the hub's.
func TestWhoOnlyAsksToJoin(t *testing.T) {
	const mark = "0123456789abcdef"
	push := &fleetv1alpha1.ClusterConnection{Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush}}
	for name, tc := range map[string]struct {
		annotations, labels map[string]string
		accepted            bool
		condition           string
		connection          *fleetv1alpha1.ClusterConnection
		want                bool
	}{
		"asked for with a bootstrap token":          {annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: mark}, want: true},
		"asked for, as earlier releases marked it":  {labels: map[string]string{clusterv1.LabelAwaitingAcceptance: mark}, want: true},
		"registered by who could have accepted it":  {annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: mark, clusterv1.AnnotationRegisteredByAcceptor: "true"}},
		"created where nobody marks clusters":       {},
		"accepted, and the mark is about to go":     {annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: mark}, accepted: true},
		"it had joined, and was denied":             {annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: mark}, condition: clusterv1.ManagedClusterConditionJoined},
		"the hub dials it, as an administrator has": {annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: mark}, connection: push},
	} {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: tc.annotations, Labels: tc.labels}}
			mc.Spec.HubAcceptsClient = tc.accepted
			if tc.condition != "" {
				mc.Status.Conditions = []metav1.Condition{{Type: tc.condition, Status: metav1.ConditionTrue}}
			}
			if got := FromCluster(mc, tc.connection).AsksToJoin; got != tc.want {
				t.Errorf("it only asks to join: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestAClusterIsInFewZones has the agents of clusters report zones without number, and one
// zone again and again.
func TestAClusterIsInFewZones(t *testing.T) {
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprint(i))
	}
	claims := func(zones ...string) *clusterv1.ManagedCluster {
		cluster := &clusterv1.ManagedCluster{}
		cluster.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: claimZone, Value: strings.Join(zones, ",")}}
		return cluster
	}
	reports := &fleetv1alpha1.ClusterConnection{Status: fleetv1alpha1.ClusterConnectionStatus{Zones: []string{"a", "a", "", "b", "a"}}}
	for name, c := range map[string]struct {
		cluster    *clusterv1.ManagedCluster
		connection *fleetv1alpha1.ClusterConnection
		want       []string
	}{
		"a claim of many":         {claims(many...), nil, many[:zonesMax]},
		"a claim of one, and one": {claims("a", "a", "", "b", "a"), nil, []string{"a", "b"}},
		"nodes in one, and one":   {nil, reports, []string{"a", "b"}},
		"a claim of nothing":      {claims("", "", ""), nil, nil},
	} {
		if got := FromCluster(c.cluster, c.connection).Zones; !slices.Equal(got, c.want) {
			t.Errorf("%s: %d zones %.200q, want %d", name, len(got), got, len(c.want))
		}
	}
}

func TestWhoTheHubHoldsAClusterFor(t *testing.T) {
	connection := func(mode fleetv1alpha1.SyncMode, held string) *fleetv1alpha1.ClusterConnection {
		c := &fleetv1alpha1.ClusterConnection{Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: mode}, Status: fleetv1alpha1.ClusterConnectionStatus{ID: "told"}}
		if held != "" {
			c.Annotations = map[string]string{fleetv1alpha1.AnnotationClusterID: held}
		}
		return c
	}
	property := &clusterv1.ManagedCluster{Status: clusterv1.ManagedClusterStatus{
		ClusterClaims: []clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "property"}},
	}}
	endless := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.AnnotationClusterUID: strings.Repeat("x", 60_000)}}}
	cases := map[string]struct {
		reason                  string
		cluster                 *clusterv1.ManagedCluster
		connection              *fleetv1alpha1.ClusterConnection
		held, claimed, identity string
	}{
		"a Pull cluster that reports":       {reason: "its agent may say anything", connection: connection(fleetv1alpha1.SyncModePull, ""), claimed: "told", identity: "told"},
		"a Pull cluster that is known":      {reason: "agents cannot change it", connection: connection(fleetv1alpha1.SyncModePull, "known"), held: "known", claimed: "told", identity: "known"},
		"a Push cluster":                    {reason: "the hub has looked itself", connection: connection(fleetv1alpha1.SyncModePush, ""), held: "told", claimed: "told", identity: "told"},
		"a Push cluster that was Pull":      {reason: "it stays who it was", connection: connection(fleetv1alpha1.SyncModePush, "known"), held: "known", claimed: "told", identity: "known"},
		"an agent that tells too much":      {reason: "no UID is that long", cluster: endless},
		"an agent that tells by a property": {reason: "it is shown, and nothing is decided by it", cluster: property, identity: "property"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := FromCluster(tc.cluster, tc.connection)
			if got.Held != tc.held || got.Claimed != tc.claimed || got.KnownIdentity() != tc.identity {
				t.Errorf("%s: held %q, claimed %q, is %q", tc.reason, got.Held, got.Claimed, got.KnownIdentity())
			}
		})
	}
}

func TestTheSameClusterUnderOtherNames(t *testing.T) {
	fleet := NewFleet(Cluster{Name: "c", Held: "uid", Accepted: true}, Cluster{Name: "a", Claimed: "uid", Accepted: true},
		Cluster{Name: "b", Held: "other", Claimed: "uid", Accepted: true}, Cluster{Name: "d"}, Cluster{Name: "asks", Claimed: "uid"})
	var names []string
	for _, c := range fleet.SameIdentity("uid", "x") {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"a", "c"}, names); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if same := fleet.SameIdentity("uid", "a"); len(same) != 1 || same[0].Name != "c" {
		t.Errorf("a cluster is its own twin: %v", same)
	}
	if same := fleet.SameIdentity("", "x"); len(same) != 0 {
		t.Errorf("clusters that nobody knows are the same: %v", same)
	}
	if c, ok := fleet.ClusterNamed("b"); !ok || c.Held != "other" {
		t.Errorf("b is %+v (%t)", c, ok)
	}
	if _, ok := fleet.ClusterNamed("e"); ok {
		t.Error("there is a cluster that nobody added")
	}
}

// TestWhoAClusterIsCostsNothing is about a cluster that says much of itself: of many that are the same
// cluster, each may be looked at whenever one of them changes.
func TestWhoAClusterIsCostsNothing(t *testing.T) {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "one", Annotations: map[string]string{clusterv1.AnnotationClusterUID: "uid"}}}
	for i := range 2000 {
		mc.Status.ClusterClaims = append(mc.Status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: fmt.Sprint(i)})
	}
	var got Cluster
	if allocated := testing.AllocsPerRun(10, func() { got = IdentityFromCluster(mc, nil) }); allocated > 1 || got.Claimed != "uid" {
		t.Errorf("to know that the cluster is %q takes %v allocations", got.Claimed, allocated)
	}
}
