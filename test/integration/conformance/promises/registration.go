// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// Joining are the cases with which each run begins.
func Joining() []TestCase {
	return []TestCase{
		{Name: "a cluster that the hub accepts joins and is Available", Run: Joins, alone: true},
	}
}

func telling() []TestCase {
	return []TestCase{
		{Name: "the version of the cluster is reported", Run: version},
		{Name: "capacity and allocatable resources are reported as nodes are added, cordoned and removed", Run: resources},
		{Name: "the ClusterConnection reports where the nodes are: zones, region and provider", Run: place},
		{Name: "claims are reported, reserved ones first, also when they change or are deleted", Run: claims},
		{Name: "the heartbeat follows leaseDurationSeconds", Run: heartbeat},
		{Name: "the member gets the managed namespaces of its set", Run: managedNamespaces},
		{
			Name: "the Klusterlet reports that it is healthy", Run: klusterletIsWell,
			Without: map[installation.JoinMode]string{installation.ModePush: "it has no Klusterlet; its ClusterConnection reports it, see the next line"},
		},
		{Name: "the ClusterConnection reports mode, identity, version and APIs, and the hub connects to Push clusters only", Run: connectionTells},
		{Name: "the hub knows what pods request, and what the nodes have left by the grades of the cluster", Run: requests},
	}
}

// Joins is also about what comes before: a cluster that nobody has accepted is
// not worked for.
func Joins(s *Scene) {
	s.AskToJoin(s)
	s.managed("the cluster asks to join", func(*clusterv1.ManagedCluster) error { return nil })
	mc := &clusterv1.ManagedCluster{}
	if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Name: s.ClusterName()}, mc); err != nil {
		s.Fatal(err)
	}
	if mc.Spec.HubAcceptsClient || meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined) {
		s.Errorf("the cluster is in, and nobody has accepted it: %s", installation.Encode(mc))
	}
	s.AcceptCluster(s)
	s.is(clusterv1.ManagedClusterConditionHubAccepted, "True HubClusterAdminAccepted")
	s.is(clusterv1.ManagedClusterConditionJoined, "True ManagedClusterJoined")
	s.is(clusterv1.ManagedClusterConditionAvailable, "True ManagedClusterAvailable")
	s.hasTaint(clusterv1.TaintUnreachable, false)
}

func (s *Scene) hasTaint(key string, want bool) {
	s.Helper()
	s.managed(fmt.Sprintf("taint %s: %t", key, want), func(mc *clusterv1.ManagedCluster) error {
		has := slices.ContainsFunc(mc.Spec.Taints, func(taint clusterv1.Taint) bool { return taint.Key == key })
		if has != want {
			return fmt.Errorf("the taints are %v", mc.Spec.Taints)
		}
		return nil
	})
}

func version(s *Scene) {
	s.managed("the version is told", func(mc *clusterv1.ManagedCluster) error {
		if !strings.HasPrefix(mc.Status.Version.Kubernetes, "v1.") {
			return errors.New("it is not told")
		}
		return nil
	})
}

func resources(s *Scene) {
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.ID + "-" + name}}
	}
	for _, name := range []string{"a", "b"} {
		s.admin("{apiVersion: v1, kind: Node, metadata: {name: NS-" + name + "}}")
		if err := s.Member.Client.Status().Patch(s.Context(), node(name), client.RawPatch("application/merge-patch+json",
			[]byte(`{"status":{"capacity":{"cpu":"4","memory":"8Gi","example.com/gpu":"1"},"allocatable":{"cpu":"3","memory":"7Gi","example.com/gpu":"1"}}}`),
		)); err != nil {
			s.Fatal(err)
		}
	}
	told := func(capacity, allocatable string) {
		s.Helper()
		s.managed("capacity "+capacity+", allocatable "+allocatable, func(mc *clusterv1.ManagedCluster) error {
			text := func(list clusterv1.ResourceList) string {
				cpu, gpu := list["cpu"], list["example.com/gpu"]
				return cpu.String() + " " + gpu.String()
			}
			if has := text(mc.Status.Capacity); has != capacity {
				return fmt.Errorf("capacity is %s", has)
			}
			if has := text(mc.Status.Allocatable); has != allocatable {
				return fmt.Errorf("allocatable is %s", has)
			}
			return nil
		})
	}
	told("8 2", "6 2")
	s.patchMember(node("b"), `{"spec":{"unschedulable":true}}`)
	told("8 2", "3 1")
	if err := s.Member.Client.Delete(s.Context(), node("b")); err != nil {
		s.Fatal(err)
	}
	told("4 1", "3 1")
}

// place has a node say where it is, in another zone, and no longer.
func place(s *Scene) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.ID + "-placed"}}
	s.admin("{apiVersion: v1, kind: Node, metadata: {name: NS-placed, labels: {topology.kubernetes.io/zone: eu-1, topology.kubernetes.io/region: eu}}, spec: {providerID: 'metal:///1'}}")
	told := func(want string) {
		s.Helper()
		installation.Eventually(s, "the cluster is told to be in "+want, func() error {
			connection := &fleetv1alpha1.ClusterConnection{}
			if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Name: s.ClusterName()}, connection); err != nil {
				return err
			}
			if has := fmt.Sprintf("%v of region %q and provider %q", connection.Status.Zones, connection.Status.Region, connection.Status.Provider); has != want {
				return errors.New(has)
			}
			return nil
		})
	}
	told(`[eu-1] of region "eu" and provider "metal"`)
	s.patchMember(node, `{"metadata":{"labels":{"topology.kubernetes.io/zone":"eu-2"}}}`)
	told(`[eu-2] of region "eu" and provider "metal"`)
	if err := s.Member.Client.Delete(s.Context(), node); err != nil {
		s.Fatal(err)
	}
	told(`[] of region "" and provider ""`)
}

func claims(s *Scene) {
	claim := func(name, value string) {
		s.Helper()
		s.admin(fmt.Sprintf("{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: %s}, spec: {value: %q}}", name, value))
	}
	told := func(want string) {
		s.Helper()
		s.managed("claims "+want, func(mc *clusterv1.ManagedCluster) error {
			var list []string
			for _, c := range mc.Status.ClusterClaims {
				if slices.Contains([]string{"color.example.com", "size.example.com", "platform.open-cluster-management.io"}, c.Name) {
					list = append(list, c.Name+"="+c.Value)
				}
			}
			if has := strings.Join(list, " "); has != want {
				return fmt.Errorf("there is %s", has)
			}
			return nil
		})
	}
	claim("size.example.com", "small")
	claim("color.example.com", "red")
	claim("platform.open-cluster-management.io", "Metal")
	told("platform.open-cluster-management.io=Metal color.example.com=red size.example.com=small")
	claim("color.example.com", "blue")
	told("platform.open-cluster-management.io=Metal color.example.com=blue size.example.com=small")
	s.admin("{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: size.example.com, labels: {open-cluster-management.io/spoke-only: \"\"}}, spec: {value: small}}")
	told("platform.open-cluster-management.io=Metal color.example.com=blue")
}

// heartbeat compares the times that the agent writes into its lease with those that
// it would write with the default. The first beat comes at once, as the cluster was
// changed, and says nothing. The shortest of some counts, as the machine may be slow.
func heartbeat(s *Scene) {
	const defaultSeconds = 60
	s.PatchManaged(s, `{"spec":{"leaseDurationSeconds":2}}`)
	defer s.PatchManaged(s, fmt.Sprintf(`{"spec":{"leaseDurationSeconds":%d}}`, defaultSeconds))
	var beats []time.Time
	for range 4 {
		installation.Eventually(s, "another heartbeat", func() error {
			lease := &coordinationv1.Lease{}
			if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ClusterName(), Name: clusterv1.LeaseName}, lease); err != nil {
				return err
			}
			if lease.Spec.RenewTime == nil || len(beats) > 0 && !lease.Spec.RenewTime.After(beats[len(beats)-1]) {
				return fmt.Errorf("those so far are %s", beats)
			}
			beats = append(beats, lease.Spec.RenewTime.Time)
			return nil
		})
	}
	shortest := beats[3].Sub(beats[2])
	if other := beats[2].Sub(beats[1]); other < shortest {
		shortest = other
	}
	if shortest > defaultSeconds/2*time.Second {
		s.Errorf("the heartbeats %s are as far apart as by default", beats)
	}
}

func managedNamespaces(s *Scene) {
	s.Hub.ApplyText(s, fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: set-%[1]s}
spec:
  clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {conformance: %[1]s}}}
  managedNamespaces: [{name: %[2]s}]`, s.ClusterName(), s.ID))
	s.PatchManaged(s, `{"metadata":{"labels":{"conformance":"`+s.ClusterName()+`"}}}`)
	s.managed("the namespace is told to be there", func(mc *clusterv1.ManagedCluster) error {
		for _, n := range mc.Status.ManagedNamespaces {
			if n.Name == s.ID && meta.IsStatusConditionTrue(n.Conditions, clusterv1.ManagedNamespaceConditionAvailable) {
				return nil
			}
		}
		return errors.New("it is not")
	})
	if err := s.Member.Client.Get(s.Context(), client.ObjectKey{Name: s.ID}, &corev1.Namespace{}); err != nil {
		s.Error(err)
	}
}

func klusterletIsWell(s *Scene) {
	on, name := s.Member, "klusterlet"
	if s.Mode == installation.ModeHosted {
		on, name = s.Hub.Cluster, installation.Hosted
	}
	installation.Eventually(s, "the Klusterlet is well", func() error {
		k := &operatorv1.Klusterlet{}
		if err := on.Client.Get(s.Context(), client.ObjectKey{Name: name}, k); err != nil {
			return err
		}
		for condition, want := range map[string]metav1.ConditionStatus{
			"Applied": metav1.ConditionTrue, "Available": metav1.ConditionTrue, "Joined": metav1.ConditionTrue,
			"HubConnectionDegraded": metav1.ConditionFalse, "RegistrationDesiredDegraded": metav1.ConditionFalse,
			"WorkDesiredDegraded": metav1.ConditionFalse,
		} {
			if !meta.IsStatusConditionPresentAndEqual(k.Status.Conditions, condition, want) {
				return fmt.Errorf("%s is not %s: %s", condition, want, installation.Encode(k.Status.Conditions))
			}
		}
		return nil
	})
}

func connectionTells(s *Scene) {
	system := &corev1.Namespace{}
	if err := s.Member.Client.Get(s.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		s.Fatal(err)
	}
	wanted, dialled := fleetv1alpha1.SyncModePull, false
	if s.Mode == installation.ModePush {
		wanted, dialled = fleetv1alpha1.SyncModePush, true
	}
	installation.Eventually(s, "the ClusterConnection is complete", func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Name: s.ClusterName()}, connection); err != nil {
			return err
		}
		status := connection.Status
		if connection.Spec.SyncMode != wanted || status.ID != string(system.UID) || !strings.HasPrefix(status.KubernetesVersion, "v1.") {
			return fmt.Errorf("mode, identity or version is wrong: %s", installation.Encode(connection))
		}
		for _, condition := range []string{fleetv1alpha1.ClusterConnectionConditionConnected, fleetv1alpha1.ClusterConnectionConditionCredentialsValid} {
			if meta.IsStatusConditionTrue(status.Conditions, condition) != dialled {
				return fmt.Errorf("%s should be True: %t; there is %s", condition, dialled, installation.Encode(status.Conditions))
			}
		}
		if !meta.IsStatusConditionTrue(status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements) ||
			!strings.Contains(installation.Encode(status.APIEnablements), "deployments") {
			return fmt.Errorf("the APIs are not told: %s", installation.Encode(status))
		}
		return nil
	})
	s.managed("the claim of the identity", func(mc *clusterv1.ManagedCluster) error {
		if !slices.Contains(mc.Status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: clusterv1alpha1.ClaimID, Value: string(system.UID)}) {
			return errors.New("it is not told")
		}
		return nil
	})
}
