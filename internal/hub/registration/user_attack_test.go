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
)

// TestAutoApprovedUsers attacks with the credential of a user whose requests are
// approved without an administrator. All members have this credential, so it
// must not make one of them another.
func TestAutoApprovedUsers(t *testing.T) {
	h := startHub(t, registration.SetupOptions{
		Gates: gates(t, map[string]bool{"ManagedClusterAutoApproval": true}), AutoApprovedUsers: []string{approvedUser},
	})
	bootstrap := h.clientOf(t, approvedUser, "system:masters")
	join := func(t *testing.T, name string) {
		t.Helper()
		h.create(t, cluster(name, false))
		h.approved(t, h.ask(t, bootstrap, subjectOf(name, "one"), name, nil))
		h.accepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	}

	t.Run("another member asks for a cluster that is about to join", func(t *testing.T) {
		join(t, "joining")
		h.refused(t, h.ask(t, bootstrap, subjectOf("joining", "one"), "joining", nil), policy.ReasonClusterJoined)
	})
	t.Run("the same agent asks again before it has joined", func(t *testing.T) {
		h.create(t, cluster("again", false))
		key := newKey(t)
		h.approved(t, h.askFor(t, bootstrap, key, subjectOf("again", "one"), "again", nil))
		h.approved(t, h.askFor(t, bootstrap, key, subjectOf("again", "one"), "again", nil))
	})
	t.Run("three ask for the same cluster at once", func(t *testing.T) {
		var csrs []*certificatesv1.CertificateSigningRequest
		for _, agent := range []string{"one", "two", "three"} {
			csrs = append(csrs, h.ask(t, bootstrap, subjectOf("race", agent), "race", nil))
		}
		h.create(t, cluster("race", false))
		h.told(t, "ManagedCluster", "race", policy.ReasonClusterJoined)
		join(t, "after-race") // a later one that is handled
		h.atMostOneApproved(t, csrs)
	})
	t.Run("another member asks for a cluster that is silent", func(t *testing.T) {
		join(t, "silent")
		h.patchStatus(t, "silent", clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)
		h.available(t, "silent", metav1.ConditionUnknown)
		// The name of its agent is in annotations and requests that all members can read.
		h.refused(t, h.ask(t, bootstrap, subjectOf("silent", "one"), "silent", nil), policy.ReasonClusterJoined)
	})
	t.Run("its cluster labels itself into a set", func(t *testing.T) {
		mc := cluster("labelled", false)
		mc.Labels = map[string]string{clusterv1.LabelClusterSet: "production"}
		h.create(t, mc)
		h.undecided(t, bootstrap, h.ask(t, bootstrap, subjectOf("labelled", "one"), "labelled", nil))
	})
	t.Run("a cluster that an administrator accepted", func(t *testing.T) {
		h.create(t, cluster("mine", true))
		h.undecided(t, bootstrap, h.ask(t, bootstrap, subjectOf("mine", "one"), "mine", nil))
	})
	t.Run("a cluster that is being deleted", func(t *testing.T) {
		mc := cluster("leaving", false)
		mc.Finalizers = []string{"test.example.com/held"}
		h.create(t, mc)
		if err := h.client.Delete(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		h.eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			err := h.cached.Get(ctx, client.ObjectKeyFromObject(mc), mc)
			return !mc.DeletionTimestamp.IsZero(), err
		})
		csr := h.ask(t, bootstrap, subjectOf("leaving", "one"), "leaving", nil)
		h.undecided(t, bootstrap, csr)
		h.patch(t, "leaving", `{"metadata":{"finalizers":null}}`)
		h.gone(t, mc)
		h.create(t, cluster("leaving", false))
		h.approved(t, csr)
	})
}
