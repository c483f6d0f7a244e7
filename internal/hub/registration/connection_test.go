// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// is returns a ManagedCluster that says who its cluster is.
func is(name, id string) *clusterv1.ManagedCluster {
	mc := hub.NewCluster(name, true)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationClusterUID, id)
	return mc
}

func push(name string) *fleetv1alpha1.ClusterConnection {
	return &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member", Region: "eu"},
	}
}

func TestAnAcceptedClusterGetsAConnectionThatSaysPull(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("east", true))
	have := h.ReadConnection(t.Context(), t, "east")
	if have == nil || have.Spec.SyncMode != fleetv1alpha1.SyncModePull || have.Identity() != "" {
		t.Fatalf("the connection is %+v, want one that says Pull and nothing else", have)
	}
	// An administrator who applies says what it is from now on; there is no conflict.
	apply := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "east"}, "spec": map[string]any{"syncMode": "Push", "apiEndpoint": "https://member"},
	}}
	apply.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ClusterConnection"))
	if err := h.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner("admin")); err != nil {
		t.Errorf("an administrator cannot change the mode: %v", err)
	}
	if err := h.Client.Delete(t.Context(), have); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the deleted connection is made again", func(ctx context.Context) (bool, error) {
		again := h.ReadConnection(ctx, t, "east")
		return again != nil && again.UID != have.UID && again.Spec.SyncMode == fleetv1alpha1.SyncModePull, nil
	})
	removeClusters(t, h, "east")
}

func TestAConnectionThatIsThereBeforeStaysAsItIs(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.CreateObjects(t, push("west"))
	want := h.ReadConnection(t.Context(), t, "west")
	h.AcceptClusters(t, hub.NewCluster("west", true))
	if have := h.ReadConnection(t.Context(), t, "west"); have.ResourceVersion != want.ResourceVersion {
		t.Errorf("it was changed to %+v", have)
	}
	h.CreateObjects(t, push("north")) // its ManagedCluster comes later, or never
	h.AcceptClusters(t, hub.NewCluster("south", true))
	if h.ReadConnection(t.Context(), t, "north") == nil {
		t.Error("a connection without a ManagedCluster was removed")
	}
	removeClusters(t, h, "west", "south")
}

func TestConnectionsGoAfterTheWorksOfTheirClusters(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.CreateObjects(t, push("before"))
	h.AcceptClusters(t, hub.NewCluster("pulled-last", true), hub.NewCluster("before", true))
	for _, name := range []string{"pulled-last", "before"} {
		h.CreateObjects(t, hub.NewManifestWork(name, "work", ""))
		h.SetAvailable(t, name, metav1.ConditionTrue)
		joined := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := h.Client.Delete(t.Context(), hub.NewCluster(name, true)); err != nil {
			t.Fatal(err)
		}
		h.Eventually(t, "the deletion waits for the work", func(ctx context.Context) (bool, error) {
			work := hub.NewManifestWork(name, "work", "")
			err := h.Client.Get(ctx, client.ObjectKeyFromObject(work), work)
			return !work.GetDeletionTimestamp().IsZero(), err
		})
		if h.ReadConnection(t.Context(), t, name) == nil {
			t.Errorf("the connection of %s was gone before its work", name)
		}
		if err := h.Client.Patch(t.Context(), hub.NewManifestWork(name, "work", ""), joined); err != nil {
			t.Fatal(err)
		}
		h.IsGone(t, hub.NewCluster(name, true))
		h.IsGone(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// TestAgentsAreAskedWhatPodsRequestWhileThatMatters restarts the controllers, with and without the
// wish, and with and without leave for agents to read customizations.
func TestAgentsAreAskedWhatPodsRequestWhileThatMatters(t *testing.T) {
	o := uniqueOptions(t)
	h := startHub(t, o)
	h.AcceptClusters(t, is("known", "uid-1"), hub.NewCluster("south", true))
	h.HasIdentity(t, "known", "uid-1")
	asks := func(want string) {
		t.Helper()
		h.Eventually(t, fmt.Sprintf("the agent of south is asked by %q", want), func(ctx context.Context) (bool, error) {
			have := h.ReadConnection(ctx, t, "south")
			return have != nil && have.Annotations[fleetv1alpha1.AnnotationCountPods] == want, nil
		})
	}
	reads := func(want bool) {
		t.Helper()
		h.Eventually(t, fmt.Sprintf("the agent of south may read customizations: %t", want), func(ctx context.Context) (bool, error) {
			role := &rbacv1.ClusterRole{}
			err := h.Client.Get(ctx, client.ObjectKey{Name: grants.ClusterRoleName("south")}, role)
			found := slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return equality.Semantic.DeepEqual(rule, grants.CustomizationReaderRule())
			})
			return found == want, err
		})
	}
	known := h.ReadConnection(t.Context(), t, "known").Identity()
	for _, counts := range []bool{true, false} {
		h.Stop()
		o.CountPods, o.Customizations = counts, counts
		h.StartControllers(t, hub.AsUser(h.AdminConfig, "registration-controller-sa"), o)
		asks(map[bool]string{true: fleetv1alpha1.AskedByPropagation}[counts])
		reads(counts)
	}
	if have := h.ReadConnection(t.Context(), t, "known").Identity(); have != known {
		t.Errorf("the identity of a cluster is %q now, and was %q", have, known)
	}
}

// TestNothingIsLeftOfAClusterWhoseFinalizersSomebodyTakesOff ends the controllers.
func TestNothingIsLeftOfAClusterWhoseFinalizersSomebodyTakesOff(t *testing.T) {
	o := uniqueOptions(t)
	h := startHub(t, o)
	h.AcceptClusters(t, hub.NewCluster("south", true))
	forced := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	h.Stop()
	if err := h.Client.Delete(t.Context(), hub.NewCluster("south", true)); err != nil {
		t.Fatal(err)
	}
	if err := h.Client.Patch(t.Context(), hub.NewCluster("south", true), forced); err != nil {
		t.Fatal(err)
	}
	h.StartControllers(t, hub.AsUser(h.AdminConfig, "registration-controller-sa"), o)
	h.IsGone(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "south"}})
}

func TestOneClusterHasOneName(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.AcceptClusters(t, is("first", "uid-1"))
	h.HasIdentity(t, "first", "uid-1")
	h.CreateObjects(t, is("second", "uid-1"))
	h.IsAccepted(t, "second", metav1.ConditionFalse, hub.AlreadyJoined)
	if message := h.AcceptedMessage(t, "second"); !strings.Contains(message, `"first"`) {
		t.Errorf("the refusal does not name the cluster that it is already: %s", message)
	}
	if h.ReadConnection(t.Context(), t, "second") != nil {
		t.Error("the refused cluster has a connection")
	}
	for _, check := range hub.AgentChecks("second") {
		own := check.Resource == "managedclusters" && check.Subresource == "" && check.Verb != "update"
		if !own && h.AgentMay(t.Context(), t, "second", check) {
			t.Errorf("the agent of a refused cluster may do %v", check)
		}
	}
	if err := h.Client.Delete(t.Context(), hub.NewCluster("first", true)); err != nil {
		t.Fatal(err)
	}
	h.IsAccepted(t, "second", metav1.ConditionTrue, hub.ReasonAccepted)
	h.HasIdentity(t, "second", "uid-1")
	removeClusters(t, h, "second")
}

func TestAClusterGainsNothingByClaimingToBeAnotherOne(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.AcceptClusters(t, is("honest", "uid-2"), is("liar", "uid-3"))
	h.ReportIdentity(t, "liar", "uid-2")
	h.PatchCluster(t, "honest", `{"spec":{"hubAcceptsClient":false}}`)
	h.IsAccepted(t, "honest", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
	h.PatchCluster(t, "honest", `{"spec":{"hubAcceptsClient":true}}`)
	h.IsAccepted(t, "honest", metav1.ConditionTrue, hub.ReasonAccepted)
	h.HasIdentity(t, "honest", "uid-2")
	h.HasIdentity(t, "liar", "uid-3")
	h.IsAccepted(t, "liar", metav1.ConditionTrue, hub.ReasonAccepted)
	h.CreateObjects(t, is("again", "uid-3"))
	h.IsAccepted(t, "again", metav1.ConditionFalse, hub.AlreadyJoined)
	// Denied, a cluster keeps nobody out.
	h.PatchCluster(t, "liar", `{"spec":{"hubAcceptsClient":false}}`)
	h.IsAccepted(t, "again", metav1.ConditionTrue, hub.ReasonAccepted)
	h.PatchCluster(t, "liar", `{"spec":{"hubAcceptsClient":true}}`)
	h.IsAccepted(t, "liar", metav1.ConditionFalse, hub.AlreadyJoined)
	removeClusters(t, h, "honest", "liar", "again")
}

func TestAPushClusterThatWasFirstKeepsAPullOneOut(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.CreateObjects(t, push("pushed"))
	h.AcceptClusters(t, hub.NewCluster("pushed", true))
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"uid-4"}}`)) // as the push agent does
	if err := h.Client.Status().Patch(t.Context(), push("pushed"), status); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the controller has seen who it is", func(ctx context.Context) (bool, error) {
		connection := &fleetv1alpha1.ClusterConnection{}
		err := h.Cached.Get(ctx, client.ObjectKey{Name: "pushed"}, connection)
		return connection.Identity() == "uid-4", err
	})
	h.CreateObjects(t, is("pulled", "uid-4"))
	h.IsAccepted(t, "pulled", metav1.ConditionFalse, hub.AlreadyJoined)
	// As Pull it is still the same cluster, whatever its own agent says then.
	mode := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"syncMode":"Pull"}}`))
	if err := h.Client.Patch(t.Context(), push("pushed"), mode); err != nil {
		t.Fatal(err)
	}
	h.HasIdentity(t, "pushed", "uid-4")
	h.ReportIdentity(t, "pushed", "uid-5")
	h.HasIdentity(t, "pushed", "uid-4")
	removeClusters(t, h, "pulled", "pushed")
}

func TestWhoAClusterIsMayBeKnownLater(t *testing.T) {
	h := uniqueHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("early", true), hub.NewCluster("late", true))
	h.ReportIdentity(t, "early", "uid-6")
	h.HasIdentity(t, "early", "uid-6")
	h.ReportIdentity(t, "late", "uid-6")
	h.CreateObjects(t, is("later", "uid-6"))
	h.IsAccepted(t, "later", metav1.ConditionFalse, hub.AlreadyJoined)
	h.IsAccepted(t, "late", metav1.ConditionTrue, hub.ReasonAccepted)
	if id := h.ReadConnection(t.Context(), t, "late").Identity(); id != "" {
		t.Errorf("two clusters are %s", id)
	}
	removeClusters(t, h, "early", "late", "later")
}
