// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestAutoApprovedUsers attacks with the credential of a user whose requests are
// approved without an administrator. All members have this credential, so it
// must not make one of them another.
func TestAutoApprovedUsers(t *testing.T) {
	h := startHub(t, registration.SetupOptions{
		Gates: hub.ResolveGates(t, map[string]bool{"ManagedClusterAutoApproval": true}), AutoApprovedUsers: []string{hub.ApprovedUser},
	})
	bootstrap := h.ClientOf(t, hub.ApprovedUser, "system:masters")
	join := func(t *testing.T, name string) {
		t.Helper()
		h.CreateObjects(t, hub.NewCluster(name, false))
		h.IsApproved(t, h.AskForCertificate(t, bootstrap, hub.SubjectOf(name, "one"), name, nil))
		h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	}

	t.Run("another member asks for a cluster that is about to join", func(t *testing.T) {
		join(t, "joining")
		h.IsRefused(t, h.AskForCertificate(t, bootstrap, hub.SubjectOf("joining", "one"), "joining", nil), policy.ReasonClusterJoined)
	})
	t.Run("the same agent asks again before it has joined", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("again", false))
		key := hub.NewKey(t)
		h.IsApproved(t, h.AskWith(t, bootstrap, key, hub.SubjectOf("again", "one"), "again", nil))
		h.IsApproved(t, h.AskWith(t, bootstrap, key, hub.SubjectOf("again", "one"), "again", nil))
	})
	t.Run("three ask for the same cluster at once", func(t *testing.T) {
		var csrs []*certificatesv1.CertificateSigningRequest
		for _, agent := range []string{"one", "two", "three"} {
			csrs = append(csrs, h.AskForCertificate(t, bootstrap, hub.SubjectOf("race", agent), "race", nil))
		}
		h.CreateObjects(t, hub.NewCluster("race", false))
		h.HasEvent(t, "ManagedCluster", "race", policy.ReasonClusterJoined)
		join(t, "after-race") // a later one that is handled
		h.AtMostOneApproved(t, csrs)
	})
	t.Run("another member asks for a cluster that is silent", func(t *testing.T) {
		join(t, "silent")
		h.PatchCondition(t, "silent", clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)
		h.SetAvailable(t, "silent", metav1.ConditionUnknown)
		// The name of its agent is in annotations and requests that all members can read.
		h.IsRefused(t, h.AskForCertificate(t, bootstrap, hub.SubjectOf("silent", "one"), "silent", nil), policy.ReasonClusterJoined)
	})
	t.Run("its cluster labels itself into a set", func(t *testing.T) {
		mc := hub.NewCluster("labelled", false)
		mc.Labels = map[string]string{clusterv1.LabelClusterSet: "production"}
		h.CreateObjects(t, mc)
		h.StaysUndecided(t, bootstrap, h.AskForCertificate(t, bootstrap, hub.SubjectOf("labelled", "one"), "labelled", nil))
	})
	t.Run("a cluster that an administrator accepted", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("mine", true))
		h.StaysUndecided(t, bootstrap, h.AskForCertificate(t, bootstrap, hub.SubjectOf("mine", "one"), "mine", nil))
	})
	t.Run("a cluster that is being deleted", func(t *testing.T) {
		mc := hub.NewCluster("leaving", false)
		mc.Finalizers = []string{"test.example.com/held"}
		h.CreateObjects(t, mc)
		if err := h.Client.Delete(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			err := h.Cached.Get(ctx, client.ObjectKeyFromObject(mc), mc)
			return !mc.DeletionTimestamp.IsZero(), err
		})
		csr := h.AskForCertificate(t, bootstrap, hub.SubjectOf("leaving", "one"), "leaving", nil)
		h.StaysUndecided(t, bootstrap, csr)
		h.PatchCluster(t, "leaving", `{"metadata":{"finalizers":null}}`)
		h.IsGone(t, mc)
		h.CreateObjects(t, hub.NewCluster("leaving", false))
		h.IsApproved(t, csr)
	})
}
