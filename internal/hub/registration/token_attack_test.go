// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestBoundTokens attacks with bootstrap tokens. No user is named and no gate
// is open: what is approved is so because of the token alone.
func TestBoundTokens(t *testing.T) {
	h := startHub(t, registration.SetupOptions{Gates: hub.ResolveGates(t, nil)})
	const group = clusterv1.GroupBootstrappers
	token := func(id string, groups ...string) client.Client {
		return h.ClientOf(t, "system:bootstrap:"+id, append(groups, group, "system:masters")...)
	}
	edge := token("edge00", group+":prefix:edge-:x", clusterv1.GroupBootstrapAutoAccept)

	t.Run("it joins under a name that it is bound to", func(t *testing.T) {
		csr := h.AskForCertificate(t, edge, hub.SubjectOf("edge-1", "one"), "edge-1", nil)
		h.CreateObjects(t, hub.NewCluster("edge-1", false))
		h.IsApproved(t, csr)
		h.IsAccepted(t, "edge-1", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
		if key := h.ReadCluster(t, "edge-1").Annotations[clusterv1.AnnotationJoinKey]; len(key) != len("sha256:")+64 {
			t.Errorf("the hub does not remember the key of the agent: %q", key)
		}
	})
	t.Run("another holder asks for a cluster that is about to join", func(t *testing.T) {
		h.IsRefused(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-1", "intruder"), "edge-1", nil), policy.ReasonClusterJoined)
	})
	t.Run("the one that is about to join asks again, under other names", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("edge-many", false))
		key := hub.NewKey(t)
		h.IsApproved(t, h.AskWith(t, edge, key, hub.SubjectOf("edge-many", "one"), "edge-many", nil))
		h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.Cached.Get(ctx, client.ObjectKey{Name: "edge-many"}, mc)
			return mc.Annotations[clusterv1.AnnotationAgents] == "one", err
		})
		h.IsRefused(t, h.AskWith(t, edge, key, hub.SubjectOf("edge-many", "two"), "edge-many", nil), policy.ReasonClusterJoined)
		h.IsApproved(t, h.AskWith(t, edge, key, hub.SubjectOf("edge-many", "one"), "edge-many", nil))
		if agents := h.ReadCluster(t, "edge-many").Annotations[clusterv1.AnnotationAgents]; agents != "one" {
			t.Errorf("the permissions are for the agents %q", agents)
		}
	})
	t.Run("another holder asks for a cluster that has joined and is silent", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("edge-2", false))
		h.IsApproved(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-2", "one"), "edge-2", nil))
		h.PatchCondition(t, "edge-2", clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)
		h.SetAvailable(t, "edge-2", metav1.ConditionUnknown)
		h.IsRefused(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-2", "intruder"), "edge-2", nil), policy.ReasonClusterJoined)
	})
	t.Run("two holders ask for the same cluster at once", func(t *testing.T) {
		var csrs []*certificatesv1.CertificateSigningRequest
		for _, agent := range []string{"one", "two", "three"} {
			csrs = append(csrs, h.AskForCertificate(t, edge, hub.SubjectOf("edge-race", agent), "edge-race", nil))
		}
		h.CreateObjects(t, hub.NewCluster("edge-race", false))
		h.Eventually(t, "each is approved or refused", func(ctx context.Context) (bool, error) {
			events := &eventsv1.EventList{}
			if err := h.Client.List(ctx, events); err != nil {
				return false, err
			}
			for i := range events.Items {
				if e := &events.Items[i]; e.Regarding.Name == "edge-race" && e.Reason == policy.ReasonClusterJoined {
					return true, nil // told once for all of them
				}
			}
			return false, nil
		})
		h.CreateObjects(t, hub.NewCluster("edge-after-race", false)) // a later one that is handled
		h.IsApproved(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-after-race", "one"), "edge-after-race", nil))
		h.AtMostOneApproved(t, csrs)
	})
	t.Run("it asks for a certificate of another name", func(t *testing.T) {
		for _, name := range []string{"edge", "prod"} {
			h.CreateObjects(t, hub.NewCluster(name, false))
			csr := h.AskForCertificate(t, edge, hub.SubjectOf(name, "one"), name, nil)
			h.HasEvent(t, "ManagedCluster", name, policy.ReasonTokenBound)
			h.IsRefused(t, csr, policy.ReasonTokenBound)
		}
	})
	t.Run("it labels a request for another name as its own", func(t *testing.T) {
		h.IsRefused(t, h.AskForCertificate(t, edge, hub.SubjectOf("prod", "one"), "edge-1", nil), policy.ReasonClusterDiffers)
	})
	t.Run("its cluster labels itself into a set", func(t *testing.T) {
		mc := hub.NewCluster("edge-set", false)
		mc.Labels = map[string]string{clusterv1.LabelClusterSet: "production"}
		h.CreateObjects(t, mc)
		h.StaysUndecided(t, edge, h.AskForCertificate(t, edge, hub.SubjectOf("edge-set", "one"), "edge-set", nil))
	})
	t.Run("labels of its cluster put it into a set", func(t *testing.T) {
		set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "by-label"}}
		set.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "production"}},
		}
		h.CreateObjects(t, set)
		h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			err := h.Cached.Get(ctx, client.ObjectKeyFromObject(set), &clusterv1beta2.ManagedClusterSet{})
			return err == nil, client.IgnoreNotFound(err)
		})
		for name, env := range map[string]string{"edge-labelled": "production", "edge-test": "test"} {
			mc := hub.NewCluster(name, false)
			mc.Labels = map[string]string{"env": env}
			h.CreateObjects(t, mc)
			csr := h.AskForCertificate(t, edge, hub.SubjectOf(name, "one"), name, nil)
			if env == "test" {
				h.IsApproved(t, csr)
				continue
			}
			h.IsRefused(t, csr, policy.ReasonNotAutomatic)
			if h.ReadCluster(t, name).Spec.HubAcceptsClient {
				t.Error("the hub accepts the cluster by itself, which is sent what is for the set")
			}
		}
	})
	t.Run("a token that is not bound but auto-accepted", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("edge-free", false))
		free := token("free00", clusterv1.GroupBootstrapAutoAccept)
		h.StaysUndecided(t, edge, h.AskForCertificate(t, free, hub.SubjectOf("edge-free", "one"), "edge-free", nil))
	})
	t.Run("a token that is bound but not auto-accepted", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("edge-bound", false))
		bound := token("bound0", group+":name:edge-bound")
		h.StaysUndecided(t, edge, h.AskForCertificate(t, bound, hub.SubjectOf("edge-bound", "one"), "edge-bound", nil))
	})
	t.Run("a cluster named like the namespace of a tenant", func(t *testing.T) {
		h.CreateObjects(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "edge-tenant"}}, hub.NewCluster("edge-tenant", false))
		h.IsRefused(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-tenant", "one"), "edge-tenant", nil), policy.ReasonNotAutomatic)
		if h.ReadCluster(t, "edge-tenant").Spec.HubAcceptsClient {
			t.Error("the hub accepts the cluster by itself, which gets hold of the namespace")
		}
	})
	t.Run("a cluster whose namespace was prepared", func(t *testing.T) {
		h.CreateObjects(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "edge-ready", Labels: map[string]string{clusterv1.LabelClusterName: "edge-ready"}}},
			hub.NewCluster("edge-ready", false))
		h.IsApproved(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-ready", "one"), "edge-ready", nil))
	})
	t.Run("a cluster that an administrator accepted", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("edge-mine", true))
		h.StaysUndecided(t, edge, h.AskForCertificate(t, edge, hub.SubjectOf("edge-mine", "one"), "edge-mine", nil))
	})
	t.Run("a cluster that an administrator denied", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("edge-denied", false))
		h.IsApproved(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-denied", "one"), "edge-denied", nil))
		h.IsAccepted(t, "edge-denied", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
		h.PatchCluster(t, "edge-denied", `{"spec":{"hubAcceptsClient":false}}`)
		h.IsAccepted(t, "edge-denied", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
		h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.Cached.Get(ctx, client.ObjectKey{Name: "edge-denied"}, mc)
			return !mc.Spec.HubAcceptsClient, err
		})
		h.IsRefused(t, h.AskForCertificate(t, edge, hub.SubjectOf("edge-denied", "two"), "edge-denied", nil), policy.ReasonClusterDenied)
	})
}
