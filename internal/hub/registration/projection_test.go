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

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

func TestAManagedClusterIsAcceptedByItsCluster(t *testing.T) {
	h := projectedHubs.TakeFixture(t)
	const name = "joining"
	h.CreateObjects(t, hub.NewCluster(name, false))
	h.SetIntent(t, name, fleetv1alpha1.ClusterIntent{ID: "1", Accept: true, Labels: map[string]string{"zone": "a"}})
	h.IsAccepted(t, name, metav1.ConditionTrue, hub.ReasonAccepted)
	h.ConnectionShows(t, name, "that it is accepted", func(c *fleetv1alpha1.ClusterConnection) bool {
		return c.Cluster.Accepted && c.Cluster.Intent == nil &&
			meta.IsStatusConditionTrue(c.Cluster.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	})
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	if c := h.ReadConnection(t.Context(), t, name); !maps.Equal(c.Labels, mc.Labels) || mc.Labels["zone"] != "a" {
		t.Errorf("the labels are %v, those of the ManagedCluster %v", c.Labels, mc.Labels)
	}
	// It is made again, with all that it shows.
	before := h.ReadConnection(t.Context(), t, name)
	if err := h.Client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the deleted ClusterConnection is made again", func(ctx context.Context) (bool, error) {
		again := h.ReadConnection(ctx, t, name)
		return again != nil && again.UID != before.UID && again.Cluster != nil && maps.Equal(again.Labels, mc.Labels), nil
	})
	removeClusters(t, h, name)
	h.IsGone(t, push(name))
}

// TestWhoMayEditManagedClustersDoesNotAcceptThemByAnIntent has somebody who edits ManagedClusters,
// and all of a ClusterConnection but an intent, bring back an acceptance that was taken away.
func TestWhoMayEditManagedClustersDoesNotAcceptThemByAnIntent(t *testing.T) {
	h := projectedHubs.TakeFixture(t)
	const name, user = "denied", "editor"
	h.CreateObjects(t, hub.NewCluster(name, false),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"get", "patch"}},
			{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"}, Verbs: []string{"get", "patch"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	h.SetIntent(t, name, fleetv1alpha1.ClusterIntent{ID: "1", Accept: true})
	h.IsAccepted(t, name, metav1.ConditionTrue, hub.ReasonAccepted)
	h.PatchCluster(t, name, `{"spec":{"hubAcceptsClient":false}}`)
	h.ConnectionShows(t, name, "that it is denied", func(c *fleetv1alpha1.ClusterConnection) bool { return !c.Cluster.Accepted && c.Cluster.Intent == nil })

	editor := h.ClientOf(t, user)
	edit := func(object client.Object, body string) {
		t.Helper()
		h.Eventually(t, "the user may edit it", func(ctx context.Context) (bool, error) {
			err := editor.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(body)))
			return err == nil, err
		})
	}
	const mark = "changed-last"
	edit(hub.NewCluster(name, false), `{"metadata":{"annotations":{"fleet.capstan.io/completed-intent":null}}}`)
	edit(push(name), `{"metadata":{"labels":{"forged":"yes"}},"cluster":{"accepted":true,"resourceVersion":"1","generation":7}}`)
	edit(hub.NewCluster(name, false), `{"metadata":{"labels":{"`+mark+`":"yes"}}}`)
	h.ConnectionShows(t, name, "what was changed last", func(c *fleetv1alpha1.ClusterConnection) bool {
		return c.Labels[mark] == "yes" && c.Labels["forged"] == "" && !c.Cluster.Accepted
	})
	if mc := h.ReadCluster(t, name); mc.Spec.HubAcceptsClient {
		t.Errorf("the ManagedCluster is accepted: %+v", mc)
	}
	removeClusters(t, h, name)
}

func TestOfTwoNamesOfOneClusterTheFirstHasTheIdentity(t *testing.T) {
	h := projectedHubs.TakeFixture(t)
	h.AcceptClusters(t, is("first", "uid-1"))
	h.HasIdentity(t, "first", "uid-1")
	h.AcceptClusters(t, is("second", "uid-1"))
	h.ConnectionShows(t, "second", "that it is there already", func(c *fleetv1alpha1.ClusterConnection) bool {
		twin := meta.FindStatusCondition(c.Cluster.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity)
		return c.Cluster.ID == "" && twin != nil && strings.Contains(twin.Message, `"first"`)
	})
	h.ConnectionShows(t, "first", "the identity", func(c *fleetv1alpha1.ClusterConnection) bool { return c.Cluster.ID == "uid-1" })
	h.SetIntent(t, "first", fleetv1alpha1.ClusterIntent{ID: "1", Delete: true})
	h.IsGone(t, hub.NewCluster("first", true))
	h.IsGone(t, push("first"))
	h.ConnectionShows(t, "second", "the identity, as the only one", func(c *fleetv1alpha1.ClusterConnection) bool {
		return c.Cluster.ID == "uid-1" && meta.FindStatusCondition(c.Cluster.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity) == nil
	})
	removeClusters(t, h, "second")
}

// TestDeletionIsVisibleAndEndsWhenItIsForced deletes a cluster that is well, but whose agent never cleans up.
func TestDeletionIsVisibleAndEndsWhenItIsForced(t *testing.T) {
	h := projectedHubs.TakeFixture(t)
	for turn := range 2 {
		t.Run(fmt.Sprint("turn ", turn+1), func(t *testing.T) {
			const name = "stuck"
			h.AcceptClusters(t, hub.NewCluster(name, true))
			h.CreateObjects(t, hub.NewManifestWork(name, "web", ""), hub.NewManifestWork(name, "db", "50"))
			mc := &clusterv1.ManagedCluster{}
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				if err := h.Client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
					return err
				}
				for _, kind := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
					meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"})
				}
				return h.Client.Status().Update(t.Context(), mc)
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 { // users repeat it
				h.SetIntent(t, name, fleetv1alpha1.ClusterIntent{ID: fmt.Sprint("delete-", i), Delete: true})
				h.ConnectionShows(t, name, "what remains", func(c *fleetv1alpha1.ClusterConnection) bool {
					deleting := meta.FindStatusCondition(c.Cluster.Conditions, clusterv1.ManagedClusterConditionDeleting)
					return c.Cluster.Intent == nil && !c.Cluster.DeletionTimestamp.IsZero() && deleting != nil &&
						deleting.Reason == clusterv1.ManagedClusterReasonDeletingResourceRemaining && strings.Contains(deleting.Message, "db, web")
				})
			}
			h.SetIntent(t, name, fleetv1alpha1.ClusterIntent{ID: "force", Force: true})
			h.IsGone(t, hub.NewCluster(name, true))
			h.IsGone(t, push(name))
			h.IsGone(t, hub.NewManifestWork(name, "web", ""))
			h.IsGone(t, hub.NewManifestWork(name, "db", ""))
		})
	}
}

func TestNoClusterIsLeftWhenSomebodyTakesTheFinalizersOff(t *testing.T) {
	o := projectedOptions(t)
	h := startHub(t, o)
	const name = "torn"
	h.CreateObjects(t, push(name))
	h.AcceptClusters(t, hub.NewCluster(name, true))
	h.ConnectionShows(t, name, "that it is there", func(*fleetv1alpha1.ClusterConnection) bool { return true })
	h.Stop()
	h.PatchCluster(t, name, `{"metadata":{"finalizers":null}}`)
	removeClusters(t, h, name)
	h.StartControllers(t, hub.AsUser(h.AdminConfig, "registration-controller-sa"), o)
	h.IsGone(t, push(name))
}

// TestHeartbeatsAndReportsWriteNothing restarts the controllers with a fleet that has not changed, and
// has its agents live on.
func TestHeartbeatsAndReportsWriteNothing(t *testing.T) {
	o := projectedOptions(t)
	h := startHub(t, o)
	const name = "quiet"
	h.AcceptClusters(t, is(name, "uid-9"))
	h.ConnectionShows(t, name, "who it is", func(c *fleetv1alpha1.ClusterConnection) bool { return c.Cluster.ID == "uid-9" })
	h.ConnectionShows(t, name, "the taint of a silent cluster", func(c *fleetv1alpha1.ClusterConnection) bool { return len(c.Cluster.Taints) == 1 })
	h.BeatLease(t, name)
	h.ConnectionShows(t, name, "what the first heartbeat tells", func(c *fleetv1alpha1.ClusterConnection) bool {
		return meta.IsStatusConditionTrue(c.Cluster.Conditions, clusterv1.ManagedClusterConditionClockSynced)
	})
	h.Stop()
	before := h.ReadConnection(t.Context(), t, name)

	var writes atomic.Int64
	credentials := hub.AsUser(h.AdminConfig, "registration-controller-sa")
	credentials.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/clusterconnections/"+name) {
				writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	h.StartControllers(t, credentials, o)
	for range 3 {
		h.BeatLease(t, name)
		report := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"nodeSummary":{"totalNum":%d,"readyNum":1}}}`, time.Now().UnixNano()%1000))
		if err := h.Client.Status().Patch(t.Context(), push(name), report); err != nil {
			t.Fatal(err)
		}
	}
	// What comes after it in the queue is done, so that it was looked at.
	h.CreateObjects(t, hub.NewCluster("later", false))
	h.ConnectionShows(t, "later", "that it is there", func(*fleetv1alpha1.ClusterConnection) bool { return true })
	after := h.ReadConnection(t.Context(), t, name)
	if after.Generation != before.Generation || after.Cluster.ResourceVersion != before.Cluster.ResourceVersion {
		t.Errorf("the mirror was written: %+v, before %+v", after.Cluster, before.Cluster)
	}
	if got := writes.Load(); got != 0 {
		t.Errorf("%d writes of the ClusterConnection", got)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
