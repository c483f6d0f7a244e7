// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// TestClustersWaitForTheirSecrets creates Clusters whose Secrets do not exist yet.
func TestClustersWaitForTheirSecrets(t *testing.T) {
	h := startHub(t)
	h.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SecretsNamespace}})
	h.grant(t, serverUser, v1alpha1.SecretsNamespace, readSecrets())
	env.WaitAllowed(t.Context(), t, h.admin, env.UserReview(serverUser), v1alpha1.SecretsNamespace, readSecrets(), true)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *hub)
	}{
		{"Later", testSecretLater},
		{"NoToken", testSecretWithoutToken},
		{"Changed", testSecretOfAnotherReference},
		{"DryRun", testSecretDryRun},
		{"Rights", testSecretRights},
		{"Late", testSecretTooLate},
		{"Gone", testSecretOfAClusterThatIsGone},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

func readSecrets() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
}

// waiting is a Cluster whose Secret has its name.
func waiting(name string) *v1alpha1.Cluster {
	c := clusterOf(name, v1alpha1.Push)
	c.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: v1alpha1.SecretsNamespace, Name: name}
	return c
}

// begin creates a Cluster that waits, and accepts it.
func (h *hub) begin(t *testing.T, name string) {
	t.Helper()
	h.create(t, waiting(name))
	h.mirror(t, name)
}

// supply creates the Secret of a Cluster that waits.
func (h *hub) supply(t *testing.T, name string) {
	t.Helper()
	h.create(t, secret(v1alpha1.SecretsNamespace, name, map[string]string{"token": "of-" + name, "caBundle": "ca", "more": "never copied"}))
}

// token returns that in the copy of the Secret of a cluster.
func (h *hub) token(ctx context.Context, cluster, copied string) (string, error) {
	found := &corev1.Secret{}
	err := h.Get(ctx, client.ObjectKey{Namespace: cluster, Name: copied}, found)
	return string(found.Data["token"]), err
}

func (h *hub) copied(t *testing.T, cluster, copied, want string) {
	t.Helper()
	until(t, "the Secret of "+cluster+" is copied", func(ctx context.Context) error {
		got, err := h.token(ctx, cluster, copied)
		if err == nil && got != want {
			return fmt.Errorf("the token is %q, want %q", got, want)
		}
		return err
	})
}

func (h *hub) notCopied(t *testing.T, cluster string) {
	t.Helper()
	if got, err := h.token(t.Context(), cluster, fleetv1alpha1.DefaultSecretName); !apierrors.IsNotFound(err) {
		t.Errorf("there is a copy for %s with token %q (%v), want none", cluster, got, err)
	}
}

func (h *hub) awaited(ctx context.Context, cluster string) ([]fleetv1alpha1.AwaitedSecret, error) {
	connection := &fleetv1alpha1.ClusterConnection{}
	err := h.Get(ctx, client.ObjectKey{Name: cluster}, connection)
	if err == nil && connection.Cluster == nil {
		err = errors.New("it is no Cluster")
	}
	if err != nil {
		return nil, err
	}
	return connection.Cluster.AwaitedSecrets, nil
}

// says waits until the hub says something of the Secret that a cluster waits for.
func (h *hub) says(t *testing.T, cluster, want string) {
	t.Helper()
	until(t, cluster+" says "+want, func(ctx context.Context) error {
		awaited, err := h.awaited(ctx, cluster)
		if err != nil {
			return err
		}
		if len(awaited) != 1 || !strings.Contains(awaited[0].Message, want) {
			return fmt.Errorf("it waits for %+v", awaited)
		}
		return nil
	})
	found := &v1alpha1.Cluster{}
	h.get(t, cluster, found)
	ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ClusterReasonNotReachable || !strings.Contains(ready.Message, want) {
		t.Errorf("Ready of %s is %+v, want that it says %q", cluster, ready, want)
	}
}

func (h *hub) waitsNoMore(t *testing.T, cluster string) {
	t.Helper()
	until(t, cluster+" waits no more", func(ctx context.Context) error {
		awaited, err := h.awaited(ctx, cluster)
		if err == nil && len(awaited) > 0 {
			err = fmt.Errorf("it waits for %+v", awaited)
		}
		return err
	})
}

func testSecretLater(t *testing.T, h *hub) {
	c := waiting("later")
	c.Spec.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: v1alpha1.SecretsNamespace, Name: "impersonator"}
	h.create(t, c)
	same(t, "secretRef as it was written", c.Spec.SecretRef, waiting("later").Spec.SecretRef)
	h.mirror(t, "later")
	h.create(t, secret(v1alpha1.SecretsNamespace, "impersonator", map[string]string{"token": "of-impersonator"}))
	h.copied(t, "later", fleetv1alpha1.ImpersonatorSecretName, "of-impersonator")
	h.says(t, "later", "Secret karmada-cluster/later does not exist yet: create it")
	h.notCopied(t, "later")

	h.begin(t, "restarted")
	h.stop() // what follows nobody has in memory
	h.supply(t, "later")
	h.supply(t, "restarted")
	h.resume()
	for _, name := range []string{"later", "restarted"} {
		h.copied(t, name, fleetv1alpha1.DefaultSecretName, "of-"+name)
		h.waitsNoMore(t, name)
	}
	found := &corev1.Secret{}
	if err := h.Get(t.Context(), client.ObjectKey{Namespace: "later", Name: fleetv1alpha1.DefaultSecretName}, found); err != nil {
		t.Fatal(err)
	}
	same(t, "keys of the copy", len(found.Data), 2)
	until(t, "the hub serves Clusters again", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
	cluster := &v1alpha1.Cluster{}
	h.get(t, "later", cluster)
	same(t, "generation, as nothing was written to the Cluster", cluster.Generation, int64(1))
}

func testSecretWithoutToken(t *testing.T, h *hub) {
	h.begin(t, "tokenless")
	empty := secret(v1alpha1.SecretsNamespace, "tokenless", map[string]string{"caBundle": "ca"})
	h.create(t, empty)
	h.says(t, "tokenless", "the Secret has no key token")
	h.notCopied(t, "tokenless")
	empty.StringData = map[string]string{"token": "of-tokenless"}
	if err := h.Update(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	h.copied(t, "tokenless", fleetv1alpha1.DefaultSecretName, "of-tokenless")
	h.waitsNoMore(t, "tokenless")
}

// testSecretOfAnotherReference writes a reference to a Secret that exists in the place of
// the one that is waited for.
func testSecretOfAnotherReference(t *testing.T, h *hub) {
	h.begin(t, "changed")
	h.supply(t, "existing")
	c := &v1alpha1.Cluster{}
	h.get(t, "changed", c)
	c.Spec.Provider = "acme" // which keeps it waiting
	if err := h.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h.says(t, "changed", "Secret karmada-cluster/changed does not exist yet")
	h.get(t, "changed", c)
	c.Spec.SecretRef.Name = "existing"
	for err := errors.New("not written yet"); err != nil; {
		if err = h.Update(t.Context(), c); apierrors.IsConflict(err) {
			h.get(t, "changed", c)
			c.Spec.SecretRef.Name = "existing"
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if awaited, err := h.awaited(t.Context(), "changed"); err != nil || len(awaited) > 0 {
		t.Errorf("it waits for %+v (%v), want nothing", awaited, err)
	}
	h.supply(t, "changed")
	h.begin(t, "witness-of-changed")
	h.supply(t, "witness-of-changed")
	h.copied(t, "witness-of-changed", fleetv1alpha1.DefaultSecretName, "of-witness-of-changed")
	if got, err := h.token(t.Context(), "changed", fleetv1alpha1.DefaultSecretName); err != nil || got != "of-existing" {
		t.Errorf("the token is %q (%v), want that of the Secret in the reference", got, err)
	}
}

func testSecretDryRun(t *testing.T, h *hub) {
	if err := h.Create(t.Context(), waiting("dry"), client.DryRunAll); err != nil {
		t.Errorf("creating a Cluster that would wait: %v", err)
	}
	if err := h.Get(t.Context(), client.ObjectKey{Name: "dry"}, &fleetv1alpha1.ClusterConnection{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run leaves a ClusterConnection (%v)", err)
	}
	h.joined(t, "dry-update", func(_ *clusterv1.ManagedCluster, c *fleetv1alpha1.ClusterConnection) {
		c.Spec.SyncMode, c.Spec.APIEndpoint = fleetv1alpha1.SyncModePush, "https://member.example.com:6443"
	})
	patch := `{"spec":{"secretRef":{"namespace":"karmada-cluster","name":"dry"}}}`
	if err := h.Patch(t.Context(), clusterOf("dry-update", v1alpha1.Push), client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll); err != nil {
		t.Errorf("changing a Cluster that would wait: %v", err)
	}
	if awaited, err := h.awaited(t.Context(), "dry-update"); err != nil || len(awaited) > 0 {
		t.Errorf("after a dry run it waits for %+v (%v), want nothing", awaited, err)
	}
}

// testSecretRights has a user wait for a Secret that may be read by that user at first, and
// not any more when it is created.
func testSecretRights(t *testing.T, h *hub) {
	const name = "anna"
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"get", "create"}},
		{APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}},
	}
	h.grant(t, name, "", rules...)
	for _, rule := range rules {
		env.WaitAllowed(t.Context(), t, h.admin, env.UserReview(name), "", rule, true)
	}
	config, _ := h.user(t, name, "readers")
	anna, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	const right = `get secrets. "withheld" in namespace "karmada-cluster"`
	if err := anna.Create(t.Context(), waiting("withheld")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), right) {
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
	h.create(t, role)
	h.create(t, binding)
	until(t, "the user may read the Secret", func(ctx context.Context) error { return anna.Create(ctx, waiting("withheld")) })
	h.mirror(t, "withheld")
	h.says(t, "withheld", "does not exist yet")
	if err := h.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	h.says(t, "withheld", right)
	h.supply(t, "withheld")
	h.begin(t, "witness-of-withheld")
	h.supply(t, "witness-of-withheld")
	h.copied(t, "witness-of-withheld", fleetv1alpha1.DefaultSecretName, "of-witness-of-withheld")
	h.says(t, "withheld", right)
	h.notCopied(t, "withheld")

	binding.ResourceVersion, binding.UID = "", ""
	h.create(t, binding)
	h.copied(t, "withheld", fleetv1alpha1.DefaultSecretName, "of-withheld")
}

// testSecretTooLate creates a Secret two days later.
func testSecretTooLate(t *testing.T, h *hub) {
	h.begin(t, "late")
	h.record(t, "late", func(c *fleetv1alpha1.ClusterProjection) {
		c.AwaitedSecrets[0].RequestedAt = metav1.NewTime(time.Now().Add(-48 * time.Hour))
	})
	h.says(t, "late", "was not created within a day")
	h.supply(t, "late")
	h.begin(t, "witness-of-late")
	h.supply(t, "witness-of-late")
	h.copied(t, "witness-of-late", fleetv1alpha1.DefaultSecretName, "of-witness-of-late")
	h.notCopied(t, "late")
}

// record changes what only the hub may write, as often as it takes.
func (h *hub) record(t *testing.T, name string, change func(*fleetv1alpha1.ClusterProjection)) {
	t.Helper()
	until(t, "the ClusterConnection of "+name+" is changed", func(ctx context.Context) error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := h.Get(ctx, client.ObjectKey{Name: name}, connection); err != nil {
			return err
		}
		change(connection.Cluster)
		return h.Update(ctx, connection)
	})
}

// testSecretOfAClusterThatIsGone creates the Secrets of clusters of which there are none, or
// others of the name, any more. All are looked at again after a restart, and a cluster that
// is there has its copy then.
func testSecretOfAClusterThatIsGone(t *testing.T, h *hub) {
	for _, name := range []string{"gone", "replaced", "witness"} {
		h.begin(t, name)
	}
	if err := h.Delete(t.Context(), clusterOf("gone", v1alpha1.Push)); err != nil {
		t.Fatal(err)
	}
	h.record(t, "replaced", func(c *fleetv1alpha1.ClusterProjection) { c.UID = "that-of-an-earlier-one" })
	h.stop()
	for _, name := range []string{"gone", "replaced", "witness"} {
		h.supply(t, name)
	}
	h.resume()
	h.copied(t, "witness", fleetv1alpha1.DefaultSecretName, "of-witness")
	h.waitsNoMore(t, "witness")
	until(t, "the hub serves Clusters again", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
	h.begin(t, "witness-of-gone") // whose copy comes after all that was found at the start
	h.supply(t, "witness-of-gone")
	h.copied(t, "witness-of-gone", fleetv1alpha1.DefaultSecretName, "of-witness-of-gone")
	h.notCopied(t, "gone")
	h.notCopied(t, "replaced")
}
