// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func troubles() []TestCase {
	return []TestCase{
		{Name: "an agent that is killed resumes where it was", Run: killed, alone: true},
		{Name: "an agent without a heartbeat makes the cluster Unknown, until it returns", Run: notHeardOf, alone: true},
		{Name: "a denied cluster loses its permissions, and gets them back when it is accepted", Run: denied, alone: true},
	}
}

// outage comes long after the last start of an agent: an agent looks every
// minute how a cluster is that was well when it started.
func outage() []TestCase {
	return []TestCase{
		{Name: "a cluster that does not respond is not Available, until it does", Run: notAnswering, alone: true},
	}
}

func leaving() []TestCase {
	return []TestCase{
		{Name: "a deleted cluster is cleaned up, on the member and on the hub", Run: leaves, alone: true},
		{
			Name: "a deleted Klusterlet removes its agents and their permissions", Run: uninstalled, alone: true,
			Without: map[installation.JoinMode]string{installation.ModePush: "it has no Klusterlet"},
		},
		{Name: "a cluster that left joins again, and deleting its Cluster tells that it leaves until it is cleaned up", Run: leavesByCluster, alone: true},
	}
}

func killed(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.Applied("a")
	before := s.Has("a", "one").UID
	s.Pods.HoldPods(s.AgentPods()...)
	s.Deliver("a", manifestsOf(configMap("a", "two")))
	s.Deliver("b", manifestsOf(configMap("c", "one")))
	s.edit("b", `{"data":{"key":"theirs"}}`)
	s.Pods.ReleasePods(s.AgentPods()...)
	if after := s.Has("a", "two").UID; after != before {
		s.Error("the object was made anew")
	}
	s.HasNot("b")
	s.Has("c", "one")
	s.Applied("a")
	s.Applied("b")
}

func notHeardOf(s *Scene) {
	s.PatchManaged(s, `{"spec":{"leaseDurationSeconds":1}}`)
	s.Pods.HoldPods(s.AgentPods()...)
	s.is(clusterv1.ManagedClusterConditionAvailable, "Unknown ManagedClusterLeaseUpdateStopped")
	s.hasTaint(clusterv1.TaintUnreachable, true)
	s.ClusterReady("Unknown " + karmadav1alpha1.ClusterReasonStatusUnknown)
	s.PatchManaged(s, `{"spec":{"leaseDurationSeconds":60}}`)
	s.Pods.ReleasePods(s.AgentPods()...)
	s.is(clusterv1.ManagedClusterConditionAvailable, "True")
	s.hasTaint(clusterv1.TaintUnreachable, false)
	s.ClusterReady("True " + karmadav1alpha1.ClusterReasonReady)
}

func denied(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	agent := s.identity()
	s.SetAccepted(s, false)
	s.is(clusterv1.ManagedClusterConditionHubAccepted, "False HubClusterAdminDenied")
	installation.Eventually(s, "the agent has no rights in the namespace of the cluster", func() error {
		bindings := &rbacv1.RoleBindingList{}
		if err := s.Hub.Client.List(s.Context(), bindings, client.InNamespace(s.ClusterName())); err != nil {
			return err
		}
		if len(bindings.Items) > 0 {
			return fmt.Errorf("there is %s", bindings.Items[0].Name)
		}
		return nil
	})
	for _, right := range []rbacv1.PolicyRule{
		rule(workv1.GroupVersion.Group, "manifestworks", "", "list"), rule(workv1.GroupVersion.Group, "manifestworks/status", "", "patch"),
		rule("coordination.k8s.io", "leases", clusterv1.LeaseName, "update"),
	} {
		env.WaitAllowed(s.Context(), s, s.Hub.Config, agent, s.ClusterName(), right, false)
	}
	s.Deliver("a", manifestsOf(configMap("a", "two")))
	s.remains("a", "one") // also if a watch outlives the right to it
	s.SetAccepted(s, true)
	s.is(clusterv1.ManagedClusterConditionHubAccepted, "True HubClusterAdminAccepted")
	s.Has("a", "two")
	s.Applied("a")
	s.is(clusterv1.ManagedClusterConditionAvailable, "True")
}

func notAnswering(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	s.Member.Door.ShutDoor()
	s.Deliver("a", manifestsOf(configMap("a", "two")))
	s.is(clusterv1.ManagedClusterConditionAvailable, "False ManagedClusterKubeAPIServerUnavailable")
	s.hasTaint(clusterv1.TaintUnavailable, true)
	reason := karmadav1alpha1.ClusterReasonNotReady
	if s.Mode == installation.ModePush {
		reason = karmadav1alpha1.ClusterReasonNotReachable
	}
	s.ClusterReady("False " + reason)
	s.Member.Door.ReopenDoor()
	s.is(clusterv1.ManagedClusterConditionAvailable, "True")
	s.hasTaint(clusterv1.TaintUnavailable, false)
	s.Has("a", "two")
	s.Applied("a")
}

// leaves deletes the ManagedCluster while there are works, of this case and of
// those before.
func leaves(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	mc := &clusterv1.ManagedCluster{}
	mc.Name = s.ClusterName()
	if err := s.Hub.Client.Delete(s.Context(), mc); err != nil {
		s.Fatal(err)
	}
	installation.Eventually(s, "the ManagedCluster is gone", func() error {
		err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(mc), mc)
		if err == nil {
			return fmt.Errorf("it is there: %s", installation.Encode(mc.Status.Conditions))
		}
		return client.IgnoreNotFound(err)
	})
	s.HasNot("a")
	installation.Eventually(s, "the ClusterConnection is gone", func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		connection.Name = s.ClusterName()
		err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(connection), connection)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	for _, list := range []client.ObjectList{&workv1.ManifestWorkList{}, &rbacv1.RoleBindingList{}, &coordinationv1.LeaseList{}} {
		installation.Eventually(s, fmt.Sprintf("the hub has no %T of the cluster", list), func() error {
			return s.empty(s.Hub.Cluster, list, client.InNamespace(s.ClusterName()))
		})
	}
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		installation.Eventually(s, fmt.Sprintf("the hub has no %T of the cluster", list), func() error {
			return s.empty(s.Hub.Cluster, list, client.MatchingLabels{clusterv1.LabelClusterName: s.ClusterName()})
		})
	}
	installation.Eventually(s, "the member has no record of a work", func() error {
		return s.empty(s.Member, &workv1.AppliedManifestWorkList{})
	})
}

// uninstalled looks at both clusters of hosted agents.
func uninstalled(s *Scene) {
	clusters, name := []*installation.Cluster{s.Member}, "klusterlet"
	if s.Mode == installation.ModeHosted {
		clusters, name = []*installation.Cluster{s.Hub.Cluster, s.Member}, installation.Hosted
	}
	k := &operatorv1.Klusterlet{}
	k.Name = name
	if err := clusters[0].Client.Delete(s.Context(), k); err != nil {
		s.Fatal(err)
	}
	installation.Eventually(s, "the Klusterlet is gone", func() error {
		err := clusters[0].Client.Get(s.Context(), client.ObjectKeyFromObject(k), k)
		if err == nil {
			return fmt.Errorf("it is there: %s", installation.Encode(k.Status.Conditions))
		}
		return client.IgnoreNotFound(err)
	})
	for _, c := range clusters {
		for _, list := range []client.ObjectList{
			&appsv1.DeploymentList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
			&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
		} {
			installation.Eventually(s, fmt.Sprintf("%s has no %T of the Klusterlet", c.Name, list), func() error {
				return s.empty(c, list, client.HasLabels{operatorv1.LabelCreatedByKlusterlet})
			})
		}
	}
}

// empty returns an error if there is anything in the list.
func (s *Scene) empty(in *installation.Cluster, list client.ObjectList, options ...client.ListOption) error {
	if err := in.Client.List(s.Context(), list, options...); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err == nil && len(items) > 0 {
		err = errors.New("there is " + installation.Encode(items[0]))
	}
	return err
}
