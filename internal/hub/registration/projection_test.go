// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration"
)

// TestTheClusterOfEachManagedCluster is about the Cluster API, with all controllers
// at work.
func TestTheClusterOfEachManagedCluster(t *testing.T) {
	o := registration.SetupOptions{Gates: gates(t, nil), Mirror: true, OwnNamespace: "open-cluster-management-hub"}
	h := startHub(t, o)
	t.Run("one that is not accepted has one, and is accepted by it", func(t *testing.T) { acceptedByCluster(t, h) })
	t.Run("who may edit ManagedClusters, and not accept them, does not by an intent", func(t *testing.T) { notAcceptedByEditing(t, h) })
	t.Run("of two names of one cluster the first has the identity", func(t *testing.T) { twinClusters(t, h) })
	for i := range 2 {
		t.Run(fmt.Sprintf("deletion is visible, and ends when it is forced (%d)", i+1), func(t *testing.T) { forcedByCluster(t, h) })
	}
	t.Run("nothing is left when somebody takes the finalizers of a ManagedCluster", func(t *testing.T) { clusterOfNothing(t, h, o) })
	t.Run("heartbeats and reports write nothing", func(t *testing.T) { quietClusters(t, h, o) })
}

// shows waits until the Cluster of a ManagedCluster is as wanted.
func (h *hub) shows(t *testing.T, name, what string, wanted func(c *fleetv1alpha1.ClusterConnection) bool) {
	t.Helper()
	h.eventually(t, fmt.Sprintf("the Cluster %s shows %s", name, what), func(ctx context.Context) (bool, error) {
		c := h.connection(ctx, t, name)
		if c == nil || c.Cluster == nil || !wanted(c) {
			return false, fmt.Errorf("the ClusterConnection is %+v", c)
		}
		return true, nil
	})
}

// intends writes to a Cluster as the Cluster API does.
func (h *hub) intends(t *testing.T, name string, intent fleetv1alpha1.ClusterIntent) {
	t.Helper()
	h.shows(t, name, "anything", func(*fleetv1alpha1.ClusterConnection) bool { return true })
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c := h.connection(t.Context(), t, name)
		c.Cluster.Intent = &intent
		return h.client.Update(t.Context(), c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func acceptedByCluster(t *testing.T, h *hub) {
	const name = "joining"
	h.create(t, cluster(name, false))
	h.intends(t, name, fleetv1alpha1.ClusterIntent{ID: "1", Accept: true, Labels: map[string]string{"zone": "a"}})
	h.accepted(t, name, metav1.ConditionTrue, accepted)
	h.shows(t, name, "that it is accepted", func(c *fleetv1alpha1.ClusterConnection) bool {
		return c.Cluster.Accepted && c.Cluster.Intent == nil &&
			meta.IsStatusConditionTrue(c.Cluster.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	})
	mc := &clusterv1.ManagedCluster{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	if c := h.connection(t.Context(), t, name); !maps.Equal(c.Labels, mc.Labels) || mc.Labels["zone"] != "a" {
		t.Errorf("the labels are %v, those of the ManagedCluster %v", c.Labels, mc.Labels)
	}
	// It is made again, with all that it shows.
	before := h.connection(t.Context(), t, name)
	if err := h.client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the deleted ClusterConnection is made again", func(ctx context.Context) (bool, error) {
		again := h.connection(ctx, t, name)
		return again != nil && again.UID != before.UID && again.Cluster != nil && maps.Equal(again.Labels, mc.Labels), nil
	})
	if err := h.client.Delete(t.Context(), cluster(name, false)); err != nil {
		t.Fatal(err)
	}
	h.gone(t, cluster(name, false))
	h.gone(t, push(name))
}

// notAcceptedByEditing has somebody who edits ManagedClusters, and all of a
// ClusterConnection but an intent, bring back an acceptance that was taken away.
func notAcceptedByEditing(t *testing.T, h *hub) {
	const name, user = "denied", "editor"
	h.create(t, cluster(name, false),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"get", "patch"}},
			{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"}, Verbs: []string{"get", "patch"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	h.intends(t, name, fleetv1alpha1.ClusterIntent{ID: "1", Accept: true})
	h.accepted(t, name, metav1.ConditionTrue, accepted)
	h.patch(t, name, `{"spec":{"hubAcceptsClient":false}}`)
	h.shows(t, name, "that it is denied", func(c *fleetv1alpha1.ClusterConnection) bool { return !c.Cluster.Accepted && c.Cluster.Intent == nil })

	editor := h.clientOf(t, user)
	edit := func(object client.Object, body string) {
		t.Helper()
		h.eventually(t, "the user may edit it", func(ctx context.Context) (bool, error) {
			err := editor.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(body)))
			return err == nil, err
		})
	}
	const mark = "changed-last"
	edit(cluster(name, false), `{"metadata":{"annotations":{"fleet.capstan.io/completed-intent":null}}}`)
	edit(push(name), `{"metadata":{"labels":{"forged":"yes"}},"cluster":{"accepted":true,"resourceVersion":"1","generation":7}}`)
	edit(cluster(name, false), `{"metadata":{"labels":{"`+mark+`":"yes"}}}`)
	h.shows(t, name, "what was changed last", func(c *fleetv1alpha1.ClusterConnection) bool {
		return c.Labels[mark] == "yes" && c.Labels["forged"] == "" && !c.Cluster.Accepted
	})
	if mc := h.get(t, name); mc.Spec.HubAcceptsClient {
		t.Errorf("the ManagedCluster is accepted: %+v", mc)
	}
	if err := h.client.Delete(t.Context(), cluster(name, false)); err != nil {
		t.Fatal(err)
	}
	h.gone(t, cluster(name, false))
}

func twinClusters(t *testing.T, h *hub) {
	h.accept(t, is("first", "uid-1"))
	h.identity(t, "first", "uid-1")
	h.accept(t, is("second", "uid-1"))
	h.shows(t, "second", "that it is there already", func(c *fleetv1alpha1.ClusterConnection) bool {
		twin := meta.FindStatusCondition(c.Cluster.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity)
		return c.Cluster.ID == "" && twin != nil && strings.Contains(twin.Message, `"first"`)
	})
	h.shows(t, "first", "the identity", func(c *fleetv1alpha1.ClusterConnection) bool { return c.Cluster.ID == "uid-1" })
	h.intends(t, "first", fleetv1alpha1.ClusterIntent{ID: "1", Delete: true})
	h.gone(t, cluster("first", true))
	h.gone(t, push("first"))
	h.shows(t, "second", "the identity, as the only one", func(c *fleetv1alpha1.ClusterConnection) bool {
		return c.Cluster.ID == "uid-1" && meta.FindStatusCondition(c.Cluster.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity) == nil
	})
}

// forcedByCluster deletes a cluster that is well, but whose agent never cleans up.
func forcedByCluster(t *testing.T, h *hub) {
	const name = "stuck"
	h.accept(t, cluster(name, true))
	h.create(t, manifestWork(name, "web", ""), manifestWork(name, "db", "50"))
	mc := &clusterv1.ManagedCluster{}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		for _, kind := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
			meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"})
		}
		return h.client.Status().Update(t.Context(), mc)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // users repeat it
		h.intends(t, name, fleetv1alpha1.ClusterIntent{ID: fmt.Sprint("delete-", i), Delete: true})
		h.shows(t, name, "what remains", func(c *fleetv1alpha1.ClusterConnection) bool {
			deleting := meta.FindStatusCondition(c.Cluster.Conditions, clusterv1.ManagedClusterConditionDeleting)
			return c.Cluster.Intent == nil && !c.Cluster.DeletionTimestamp.IsZero() && deleting != nil &&
				deleting.Reason == clusterv1.ManagedClusterReasonDeletingResourceRemaining && strings.Contains(deleting.Message, "db, web")
		})
	}
	h.intends(t, name, fleetv1alpha1.ClusterIntent{ID: "force", Force: true})
	h.gone(t, cluster(name, true))
	h.gone(t, push(name))
	h.gone(t, manifestWork(name, "web", ""))
	h.gone(t, manifestWork(name, "db", ""))
}

func clusterOfNothing(t *testing.T, h *hub, o registration.SetupOptions) {
	const name = "torn"
	h.create(t, push(name))
	h.accept(t, cluster(name, true))
	h.shows(t, name, "that it is there", func(*fleetv1alpha1.ClusterConnection) bool { return true })
	h.stop()
	h.patch(t, name, `{"metadata":{"finalizers":null}}`)
	if err := h.client.Delete(t.Context(), cluster(name, true)); err != nil {
		t.Fatal(err)
	}
	h.gone(t, cluster(name, true))
	h.start(t, as(h.config, "registration-controller-sa"), o)
	h.gone(t, push(name))
}

// quietClusters restarts the controllers with a fleet that has not changed, and
// has its agents live on.
func quietClusters(t *testing.T, h *hub, o registration.SetupOptions) {
	const name = "quiet"
	h.stop() // those of the test before end with it
	h.start(t, as(h.config, "registration-controller-sa"), o)
	h.accept(t, is(name, "uid-9"))
	h.shows(t, name, "who it is", func(c *fleetv1alpha1.ClusterConnection) bool { return c.Cluster.ID == "uid-9" })
	h.shows(t, name, "the taint of a silent cluster", func(c *fleetv1alpha1.ClusterConnection) bool { return len(c.Cluster.Taints) == 1 })
	h.beat(t, name)
	h.shows(t, name, "what the first heartbeat tells", func(c *fleetv1alpha1.ClusterConnection) bool {
		return meta.IsStatusConditionTrue(c.Cluster.Conditions, clusterv1.ManagedClusterConditionClockSynced)
	})
	h.stop()
	before := h.connection(t.Context(), t, name)

	var writes atomic.Int64
	credentials := as(h.config, "registration-controller-sa")
	credentials.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/clusterconnections/"+name) {
				writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	h.start(t, credentials, o)
	for range 3 {
		h.beat(t, name)
		report := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"nodeSummary":{"totalNum":%d,"readyNum":1}}}`, time.Now().UnixNano()%1000))
		if err := h.client.Status().Patch(t.Context(), push(name), report); err != nil {
			t.Fatal(err)
		}
	}
	// What comes after it in the queue is done, so that it was looked at.
	h.create(t, cluster("later", false))
	h.shows(t, "later", "that it is there", func(*fleetv1alpha1.ClusterConnection) bool { return true })
	after := h.connection(t.Context(), t, name)
	if after.Generation != before.Generation || after.Cluster.ResourceVersion != before.Cluster.ResourceVersion {
		t.Errorf("the mirror was written: %+v, before %+v", after.Cluster, before.Cluster)
	}
	if got := writes.Load(); got != 0 {
		t.Errorf("%d writes of the ClusterConnection", got)
	}
}

// beat is a heartbeat of a cluster.
func (h *hub) beat(t *testing.T, name string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: name, Name: clusterv1.LeaseName}, lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	if err := h.client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
