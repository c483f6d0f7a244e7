// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
	"github.com/capstan-io/capstan/internal/testing/env"
)

func TestClustersWaitForTheirSecrets(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	c := aggregated.WaitingCluster("later")
	c.Spec.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: v1alpha1.SecretsNamespace, Name: "impersonator"}
	h.CreateObject(t, c)
	same(t, "secretRef as it was written", c.Spec.SecretRef, aggregated.WaitingCluster("later").Spec.SecretRef)
	h.MirrorCluster(t, "later")
	h.CreateObject(t, aggregated.NewSecret(v1alpha1.SecretsNamespace, "impersonator", map[string]string{"token": "of-impersonator"}))
	h.IsCopied(t, "later", fleetv1alpha1.ImpersonatorSecretName, "of-impersonator")
	h.ReasonIs(t, "later", "Secret karmada-cluster/later does not exist yet: create it")
	h.IsNotCopied(t, "later")

	h.JoinWaiting(t, "restarted")
	h.Stop() // what follows nobody has in memory
	h.SupplySecret(t, "later")
	h.SupplySecret(t, "restarted")
	h.Resume()
	for _, name := range []string{"later", "restarted"} {
		h.IsCopied(t, name, fleetv1alpha1.DefaultSecretName, "of-"+name)
		h.WaitsNoMore(t, name)
	}
	found := &corev1.Secret{}
	if err := h.Get(t.Context(), client.ObjectKey{Namespace: "later", Name: fleetv1alpha1.DefaultSecretName}, found); err != nil {
		t.Fatal(err)
	}
	same(t, "keys of the copy", len(found.Data), 2)
	aggregated.Eventually(t, "the hub serves Clusters again", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
	cluster := &v1alpha1.Cluster{}
	h.ReadObject(t, "later", cluster)
	same(t, "generation, as nothing was written to the Cluster", cluster.Generation, int64(1))
}

func TestAClusterWaitsForATokenInItsSecret(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	h.JoinWaiting(t, "tokenless")
	empty := aggregated.NewSecret(v1alpha1.SecretsNamespace, "tokenless", map[string]string{"caBundle": "ca"})
	h.CreateObject(t, empty)
	h.ReasonIs(t, "tokenless", "the Secret has no key token")
	h.IsNotCopied(t, "tokenless")
	empty.StringData = map[string]string{"token": "of-tokenless"}
	if err := h.Update(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	h.IsCopied(t, "tokenless", fleetv1alpha1.DefaultSecretName, "of-tokenless")
	h.WaitsNoMore(t, "tokenless")
}

// TestAClusterWaitsForNoSecretThatItDoesNotNameAnyMore writes a reference to a Secret that exists in the place of
// the one that is waited for.
func TestAClusterWaitsForNoSecretThatItDoesNotNameAnyMore(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	h.JoinWaiting(t, "changed")
	h.SupplySecret(t, "existing")
	c := &v1alpha1.Cluster{}
	h.ReadObject(t, "changed", c)
	c.Spec.Provider = "acme" // which keeps it waiting
	if err := h.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h.ReasonIs(t, "changed", "Secret karmada-cluster/changed does not exist yet")
	h.ReadObject(t, "changed", c)
	c.Spec.SecretRef.Name = "existing"
	for err := errors.New("not written yet"); err != nil; {
		if err = h.Update(t.Context(), c); apierrors.IsConflict(err) {
			h.ReadObject(t, "changed", c)
			c.Spec.SecretRef.Name = "existing"
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if awaited, err := h.ListAwaited(t.Context(), "changed"); err != nil || len(awaited) > 0 {
		t.Errorf("it waits for %+v (%v), want nothing", awaited, err)
	}
	h.SupplySecret(t, "changed")
	h.JoinWaiting(t, "witness-of-changed")
	h.SupplySecret(t, "witness-of-changed")
	h.IsCopied(t, "witness-of-changed", fleetv1alpha1.DefaultSecretName, "of-witness-of-changed")
	if got, err := h.CopiedToken(t.Context(), "changed", fleetv1alpha1.DefaultSecretName); err != nil || got != "of-existing" {
		t.Errorf("the token is %q (%v), want that of the Secret in the reference", got, err)
	}
}

func TestADryRunWaitsForNoSecret(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	if err := h.Create(t.Context(), aggregated.WaitingCluster("dry"), client.DryRunAll); err != nil {
		t.Errorf("creating a Cluster that would wait: %v", err)
	}
	if err := h.Get(t.Context(), client.ObjectKey{Name: "dry"}, &fleetv1alpha1.ClusterConnection{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run leaves a ClusterConnection (%v)", err)
	}
	h.CreateJoined(t, "dry-update", func(_ *clusterv1.ManagedCluster, c *fleetv1alpha1.ClusterConnection) {
		c.Spec.SyncMode, c.Spec.APIEndpoint = fleetv1alpha1.SyncModePush, "https://member.example.com:6443"
	})
	patch := `{"spec":{"secretRef":{"namespace":"karmada-cluster","name":"dry"}}}`
	if err := h.Patch(t.Context(), aggregated.NewCluster("dry-update", v1alpha1.Push), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll); err != nil {
		t.Errorf("changing a Cluster that would wait: %v", err)
	}
	if awaited, err := h.ListAwaited(t.Context(), "dry-update"); err != nil || len(awaited) > 0 {
		t.Errorf("after a dry run it waits for %+v (%v), want nothing", awaited, err)
	}
}

// TestASecretIsNotCopiedForWhoMayNotReadItAnyMore has a user wait for a Secret that may be read by that user at first, and
// not any more when it is created.
func TestASecretIsNotCopiedForWhoMayNotReadItAnyMore(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	const name = "anna"
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"get", "create"}},
		{APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}},
	}
	h.GrantUser(t, name, "", rules...)
	for _, rule := range rules {
		env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(name), "", rule, true)
	}
	config, _ := h.AddUser(t, name, "readers")
	anna, err := client.New(config, client.Options{Scheme: aggregated.NewScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	const right = `get secrets. "withheld" in namespace "karmada-cluster"`
	if err := anna.Create(t.Context(), aggregated.WaitingCluster("withheld")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), right) {
		t.Errorf("waiting for a Secret that the user may not read: %v, want that it is forbidden without %s", err, right)
	}
	if err := h.Get(t.Context(), client.ObjectKey{Name: "withheld"}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("a create that is refused leaves a ManagedCluster (%v)", err)
	}

	// It is the group of the user that may read Secrets: that is recorded, too.
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SecretsNamespace, Name: "readers"}, Rules: []rbacv1.PolicyRule{readSecrets()}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}
	h.CreateObject(t, role)
	h.CreateObject(t, binding)
	aggregated.Eventually(t, "the user may read the Secret", func(ctx context.Context) error { return anna.Create(ctx, aggregated.WaitingCluster("withheld")) })
	h.MirrorCluster(t, "withheld")
	h.ReasonIs(t, "withheld", "does not exist yet")
	if err := h.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	h.ReasonIs(t, "withheld", right)
	h.SupplySecret(t, "withheld")
	h.JoinWaiting(t, "witness-of-withheld")
	h.SupplySecret(t, "witness-of-withheld")
	h.IsCopied(t, "witness-of-withheld", fleetv1alpha1.DefaultSecretName, "of-witness-of-withheld")
	h.ReasonIs(t, "withheld", right)
	h.IsNotCopied(t, "withheld")

	binding.ResourceVersion, binding.UID = "", ""
	h.CreateObject(t, binding)
	h.IsCopied(t, "withheld", fleetv1alpha1.DefaultSecretName, "of-withheld")
}

// TestASecretThatComesTooLateIsNotCopied creates a Secret two days later.
func TestASecretThatComesTooLateIsNotCopied(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	h.JoinWaiting(t, "late")
	h.ChangeProjection(t, "late", func(c *fleetv1alpha1.ClusterProjection) {
		c.AwaitedSecrets[0].RequestedAt = metav1.NewTime(time.Now().Add(-48 * time.Hour))
	})
	h.ReasonIs(t, "late", "was not created within a day")
	h.SupplySecret(t, "late")
	h.JoinWaiting(t, "witness-of-late")
	h.SupplySecret(t, "witness-of-late")
	h.IsCopied(t, "witness-of-late", fleetv1alpha1.DefaultSecretName, "of-witness-of-late")
	h.IsNotCopied(t, "late")
}

// TestTheSecretOfAClusterThatIsGoneIsNotCopied creates the Secrets of clusters of which there are none, or
// others of the name, any more. All are looked at again after a restart, and a cluster that
// is there has its copy then.
func TestTheSecretOfAClusterThatIsGoneIsNotCopied(t *testing.T) {
	h := waitingHubs.ShareFixture(t)
	for _, name := range []string{"gone", "replaced", "witness"} {
		h.JoinWaiting(t, name)
	}
	if err := h.Delete(t.Context(), aggregated.NewCluster("gone", v1alpha1.Push)); err != nil {
		t.Fatal(err)
	}
	h.ChangeProjection(t, "replaced", func(c *fleetv1alpha1.ClusterProjection) { c.UID = "that-of-an-earlier-one" })
	h.Stop()
	for _, name := range []string{"gone", "replaced", "witness"} {
		h.SupplySecret(t, name)
	}
	h.Resume()
	h.IsCopied(t, "witness", fleetv1alpha1.DefaultSecretName, "of-witness")
	h.WaitsNoMore(t, "witness")
	aggregated.Eventually(t, "the hub serves Clusters again", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
	h.JoinWaiting(t, "witness-of-gone") // whose copy comes after all that was found at the start
	h.SupplySecret(t, "witness-of-gone")
	h.IsCopied(t, "witness-of-gone", fleetv1alpha1.DefaultSecretName, "of-witness-of-gone")
	h.IsNotCopied(t, "gone")
	h.IsNotCopied(t, "replaced")
}
