// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

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
)

func troubles() []testCase {
	return []testCase{
		{name: "an agent that is killed resumes where it was", run: killed, alone: true},
		{name: "an agent without a heartbeat makes the cluster Unknown, until it returns", run: notHeardOf, alone: true},
		{name: "a denied cluster loses its permissions, and gets them back when it is accepted", run: denied, alone: true},
	}
}

// outage comes long after the last start of an agent: an agent looks every
// minute how a cluster is that was well when it started.
func outage() []testCase {
	return []testCase{
		{name: "a cluster that does not respond is not Available, until it does", run: notAnswering, alone: true},
	}
}

func leaving() []testCase {
	return []testCase{
		{name: "a deleted cluster is cleaned up, on the member and on the hub", run: leaves, alone: true},
		{
			name: "a deleted Klusterlet removes its agents and their permissions", run: uninstalled, alone: true,
			without: map[mode]string{modePush: "it has no Klusterlet"},
		},
		{name: "a cluster that left joins again, and deleting its Cluster tells that it leaves until it is cleaned up", run: leavesByCluster, alone: true},
	}
}

func killed(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.applied("a")
	before := s.has("a", "one").UID
	s.pods.hold(s.agents()...)
	s.deliver("a", manifestsOf(configMap("a", "two")))
	s.deliver("b", manifestsOf(configMap("c", "one")))
	s.edit("b", `{"data":{"key":"theirs"}}`)
	s.pods.release(s.agents()...)
	if after := s.has("a", "two").UID; after != before {
		s.Error("the object was made anew")
	}
	s.hasNot("b")
	s.has("c", "one")
	s.applied("a")
	s.applied("b")
}

func notHeardOf(s *scene) {
	s.patch(s, `{"spec":{"leaseDurationSeconds":1}}`)
	s.pods.hold(s.agents()...)
	s.is(clusterv1.ManagedClusterConditionAvailable, "Unknown ManagedClusterLeaseUpdateStopped")
	s.hasTaint(clusterv1.TaintUnreachable, true)
	s.clusterReady("Unknown " + karmadav1alpha1.ClusterReasonStatusUnknown)
	s.patch(s, `{"spec":{"leaseDurationSeconds":60}}`)
	s.pods.release(s.agents()...)
	s.is(clusterv1.ManagedClusterConditionAvailable, "True")
	s.hasTaint(clusterv1.TaintUnreachable, false)
	s.clusterReady("True " + karmadav1alpha1.ClusterReasonReady)
}

func denied(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.applied("a")
	agent := s.identity()
	s.setAccepted(s, false)
	s.is(clusterv1.ManagedClusterConditionHubAccepted, "False HubClusterAdminDenied")
	eventually(s, "the agent has no rights in the namespace of the cluster", func() error {
		bindings := &rbacv1.RoleBindingList{}
		if err := s.hub.client.List(s.Context(), bindings, client.InNamespace(s.clusterName())); err != nil {
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
		env.WaitAllowed(s.Context(), s, s.hub.config, agent, s.clusterName(), right, false)
	}
	s.deliver("a", manifestsOf(configMap("a", "two")))
	s.remains("a", "one") // also if a watch outlives the right to it
	s.setAccepted(s, true)
	s.is(clusterv1.ManagedClusterConditionHubAccepted, "True HubClusterAdminAccepted")
	s.has("a", "two")
	s.applied("a")
	s.is(clusterv1.ManagedClusterConditionAvailable, "True")
}

func notAnswering(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.applied("a")
	s.member.door.shut()
	s.deliver("a", manifestsOf(configMap("a", "two")))
	s.is(clusterv1.ManagedClusterConditionAvailable, "False ManagedClusterKubeAPIServerUnavailable")
	s.hasTaint(clusterv1.TaintUnavailable, true)
	reason := karmadav1alpha1.ClusterReasonNotReady
	if s.mode == modePush {
		reason = karmadav1alpha1.ClusterReasonNotReachable
	}
	s.clusterReady("False " + reason)
	s.member.door.reopen()
	s.is(clusterv1.ManagedClusterConditionAvailable, "True")
	s.hasTaint(clusterv1.TaintUnavailable, false)
	s.has("a", "two")
	s.applied("a")
}

// leaves deletes the ManagedCluster while there are works, of this case and of
// those before.
func leaves(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one")))
	s.applied("a")
	mc := &clusterv1.ManagedCluster{}
	mc.Name = s.clusterName()
	if err := s.hub.client.Delete(s.Context(), mc); err != nil {
		s.Fatal(err)
	}
	eventually(s, "the ManagedCluster is gone", func() error {
		err := s.hub.client.Get(s.Context(), client.ObjectKeyFromObject(mc), mc)
		if err == nil {
			return fmt.Errorf("it is there: %s", encode(mc.Status.Conditions))
		}
		return client.IgnoreNotFound(err)
	})
	s.hasNot("a")
	eventually(s, "the ClusterConnection is gone", func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		connection.Name = s.clusterName()
		err := s.hub.client.Get(s.Context(), client.ObjectKeyFromObject(connection), connection)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	for _, list := range []client.ObjectList{&workv1.ManifestWorkList{}, &rbacv1.RoleBindingList{}, &coordinationv1.LeaseList{}} {
		eventually(s, fmt.Sprintf("the hub has no %T of the cluster", list), func() error {
			return s.empty(s.hub.cluster, list, client.InNamespace(s.clusterName()))
		})
	}
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		eventually(s, fmt.Sprintf("the hub has no %T of the cluster", list), func() error {
			return s.empty(s.hub.cluster, list, client.MatchingLabels{clusterv1.LabelClusterName: s.clusterName()})
		})
	}
	eventually(s, "the member has no record of a work", func() error {
		return s.empty(s.member, &workv1.AppliedManifestWorkList{})
	})
}

// uninstalled looks at both clusters of hosted agents.
func uninstalled(s *scene) {
	clusters, name := []*cluster{s.member}, "klusterlet"
	if s.mode == modeHosted {
		clusters, name = []*cluster{s.hub.cluster, s.member}, hosted
	}
	k := &operatorv1.Klusterlet{}
	k.Name = name
	if err := clusters[0].client.Delete(s.Context(), k); err != nil {
		s.Fatal(err)
	}
	eventually(s, "the Klusterlet is gone", func() error {
		err := clusters[0].client.Get(s.Context(), client.ObjectKeyFromObject(k), k)
		if err == nil {
			return fmt.Errorf("it is there: %s", encode(k.Status.Conditions))
		}
		return client.IgnoreNotFound(err)
	})
	for _, c := range clusters {
		for _, list := range []client.ObjectList{
			&appsv1.DeploymentList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
			&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
		} {
			eventually(s, fmt.Sprintf("%s has no %T of the Klusterlet", c.name, list), func() error {
				return s.empty(c, list, client.HasLabels{operatorv1.LabelCreatedByKlusterlet})
			})
		}
	}
}

// empty returns an error if there is anything in the list.
func (s *scene) empty(in *cluster, list client.ObjectList, options ...client.ListOption) error {
	if err := in.client.List(s.Context(), list, options...); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err == nil && len(items) > 0 {
		err = errors.New("there is " + encode(items[0]))
	}
	return err
}
