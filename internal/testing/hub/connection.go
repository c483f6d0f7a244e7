// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// Reasons of condition HubAccepted.
const (
	ReasonAccepted = clusterv1.ManagedClusterReasonHubClusterAdminAccepted
	AlreadyJoined  = clusterv1.ManagedClusterReasonAlreadyJoined
)

// ReadConnection returns the ClusterConnection of a cluster, nil if there is none.
func (h *RegistrationHub) ReadConnection(ctx context.Context, t testing.TB, name string) *fleetv1alpha1.ClusterConnection {
	t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	err := h.Client.Get(ctx, client.ObjectKey{Name: name}, connection)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// HasIdentity waits until the hub holds a cluster for the one of this identity.
func (h *RegistrationHub) HasIdentity(t testing.TB, name, id string) {
	t.Helper()
	h.Eventually(t, name+" is "+id, func(ctx context.Context) (bool, error) {
		connection := h.ReadConnection(ctx, t, name)
		return connection != nil && connection.Identity() == id, nil
	})
}

// ReportIdentity has the agent of a cluster say who its cluster is, in both places.
func (h *RegistrationHub) ReportIdentity(t testing.TB, name, id string) {
	t.Helper()
	agent := h.ClientOf(t, clusterv1.AgentUser(name, "one"), clusterv1.AgentGroup(name), clusterv1.GroupManagedClusters)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"`+id+`"}}`))
	h.Eventually(t, "the agent of "+name+" can report", func(ctx context.Context) (bool, error) {
		err := agent.Status().Patch(ctx, connection, status)
		return err == nil, err
	})
	h.Eventually(t, "the agent of "+name+" can claim to be "+id, func(ctx context.Context) (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		if err := agent.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return false, err
		}
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: "x", Status: metav1.ConditionTrue, Reason: "x"})
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationClusterUID, id)
		err := agent.Update(ctx, mc)
		return err == nil, err
	})
}

// AcceptedMessage returns the message of condition HubAccepted of a cluster.
func (h *RegistrationHub) AcceptedMessage(t testing.TB, name string) string {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted).Message
}

// AcceptClusters creates objects, and waits until those that are clusters are accepted.
func (h *RegistrationHub) AcceptClusters(t testing.TB, objects ...client.Object) {
	t.Helper()
	h.CreateObjects(t, objects...)
	for _, object := range objects {
		if _, ok := object.(*clusterv1.ManagedCluster); ok {
			h.IsAccepted(t, object.GetName(), metav1.ConditionTrue, ReasonAccepted)
		}
	}
}

// IsDuplicate waits until a cluster is, or is not, warned of as one that is there
// twice, and returns the warning.
func (h *RegistrationHub) IsDuplicate(t testing.TB, name string, want bool) string {
	t.Helper()
	message := ""
	h.Eventually(t, fmt.Sprintf("%s is there twice: %t", name, want), func(ctx context.Context) (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		if err := h.Client.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return false, err
		}
		found := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity)
		if found != nil {
			message = found.Message
		}
		return (found != nil && found.Status == metav1.ConditionTrue && found.Reason == AlreadyJoined) == want, nil
	})
	return message
}

// ConnectionShows waits until the Cluster of a ManagedCluster is as wanted.
func (h *RegistrationHub) ConnectionShows(t testing.TB, name, what string, wanted func(c *fleetv1alpha1.ClusterConnection) bool) {
	t.Helper()
	h.Eventually(t, fmt.Sprintf("the Cluster %s shows %s", name, what), func(ctx context.Context) (bool, error) {
		c := h.ReadConnection(ctx, t, name)
		if c == nil || c.Cluster == nil || !wanted(c) {
			return false, fmt.Errorf("the ClusterConnection is %+v", c)
		}
		return true, nil
	})
}

// SetIntent writes to a Cluster as the Cluster API does.
func (h *RegistrationHub) SetIntent(t testing.TB, name string, intent fleetv1alpha1.ClusterIntent) {
	t.Helper()
	h.ConnectionShows(t, name, "anything", func(*fleetv1alpha1.ClusterConnection) bool { return true })
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c := h.ReadConnection(t.Context(), t, name)
		c.Cluster.Intent = &intent
		return h.Client.Update(t.Context(), c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BeatLease is a heartbeat of a cluster.
func (h *RegistrationHub) BeatLease(t testing.TB, name string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: name, Name: clusterv1.LeaseName}, lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if err := h.Client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}
