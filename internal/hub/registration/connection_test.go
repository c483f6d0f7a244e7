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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
)

const (
	accepted      = clusterv1.ManagedClusterReasonHubClusterAdminAccepted
	alreadyJoined = clusterv1.ManagedClusterReasonAlreadyJoined
)

func TestConnections(t *testing.T) {
	o := registration.SetupOptions{Gates: gates(t, map[string]bool{"UniqueClusterIdentity": true}), OwnNamespace: "open-cluster-management-hub"}
	h := startHub(t, o)
	t.Run("an accepted cluster gets one that says Pull", func(t *testing.T) { newConnection(t, h) })
	t.Run("one that is there before stays as it is", func(t *testing.T) { olderConnection(t, h) })
	t.Run("they go after the works of their clusters", func(t *testing.T) { lastConnection(t, h) })
	t.Run("one cluster has one name", func(t *testing.T) { oneName(t, h) })
	t.Run("a cluster gains nothing by claiming to be another one", func(t *testing.T) { claimLater(t, h) })
	t.Run("a Push cluster that was first keeps a Pull one out", func(t *testing.T) { pushFirst(t, h) })
	t.Run("who a cluster is may be known later", func(t *testing.T) { knownLater(t, h) })
	t.Run("agents are asked what pods request while that matters", func(t *testing.T) { countedPods(t, h, o) })
	t.Run("nothing is left of a cluster whose finalizers somebody takes off", func(t *testing.T) { forcedDeletion(t, h, o) })
}

// is returns a ManagedCluster that says who its cluster is.
func is(name, id string) *clusterv1.ManagedCluster {
	mc := cluster(name, true)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, clusterv1.AnnotationClusterUID, id)
	return mc
}

func push(name string) *fleetv1alpha1.ClusterConnection {
	return &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member", Region: "eu"},
	}
}

// connection returns the ClusterConnection of a cluster, nil if there is none.
func (h *hub) connection(ctx context.Context, t *testing.T, name string) *fleetv1alpha1.ClusterConnection {
	t.Helper()
	connection := &fleetv1alpha1.ClusterConnection{}
	err := h.client.Get(ctx, client.ObjectKey{Name: name}, connection)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// identity waits until the hub holds a cluster for the one of this identity.
func (h *hub) identity(t *testing.T, name, id string) {
	t.Helper()
	h.eventually(t, name+" is "+id, func(ctx context.Context) (bool, error) {
		connection := h.connection(ctx, t, name)
		return connection != nil && connection.Identity() == id, nil
	})
}

// reports has the agent of a cluster say who its cluster is, in both places.
func (h *hub) reports(t *testing.T, name, id string) {
	t.Helper()
	agent := h.clientOf(t, clusterv1.AgentUser(name, "one"), clusterv1.AgentGroup(name), clusterv1.GroupManagedClusters)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"`+id+`"}}`))
	h.eventually(t, "the agent of "+name+" can report", func(ctx context.Context) (bool, error) {
		err := agent.Status().Patch(ctx, connection, status)
		return err == nil, err
	})
	h.eventually(t, "the agent of "+name+" can claim to be "+id, func(ctx context.Context) (bool, error) {
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

func (h *hub) message(t *testing.T, name string) string {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted).Message
}

func (h *hub) accept(t *testing.T, objects ...client.Object) {
	t.Helper()
	h.create(t, objects...)
	for _, object := range objects {
		if _, ok := object.(*clusterv1.ManagedCluster); ok {
			h.accepted(t, object.GetName(), metav1.ConditionTrue, accepted)
		}
	}
}

func newConnection(t *testing.T, h *hub) {
	h.accept(t, cluster("east", true))
	have := h.connection(t.Context(), t, "east")
	if have == nil || have.Spec.SyncMode != fleetv1alpha1.SyncModePull || have.Identity() != "" {
		t.Fatalf("the connection is %+v, want one that says Pull and nothing else", have)
	}
	// An administrator who applies says what it is from now on; there is no conflict.
	apply := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "east"}, "spec": map[string]any{"syncMode": "Push", "apiEndpoint": "https://member"},
	}}
	apply.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ClusterConnection"))
	if err := h.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner("admin")); err != nil {
		t.Errorf("an administrator cannot change the mode: %v", err)
	}
	if err := h.client.Delete(t.Context(), have); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the deleted connection is made again", func(ctx context.Context) (bool, error) {
		again := h.connection(ctx, t, "east")
		return again != nil && again.UID != have.UID && again.Spec.SyncMode == fleetv1alpha1.SyncModePull, nil
	})
}

func olderConnection(t *testing.T, h *hub) {
	h.create(t, push("west"))
	want := h.connection(t.Context(), t, "west")
	h.accept(t, cluster("west", true))
	if have := h.connection(t.Context(), t, "west"); have.ResourceVersion != want.ResourceVersion {
		t.Errorf("it was changed to %+v", have)
	}
	h.create(t, push("north")) // its ManagedCluster comes later, or never
	h.accept(t, cluster("south", true))
	if h.connection(t.Context(), t, "north") == nil {
		t.Error("a connection without a ManagedCluster was removed")
	}
}

func lastConnection(t *testing.T, h *hub) {
	for _, name := range []string{"east", "west"} {
		h.create(t, manifestWork(name, "work", ""))
		h.available(t, name, metav1.ConditionTrue)
		joined := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := h.client.Delete(t.Context(), cluster(name, true)); err != nil {
			t.Fatal(err)
		}
		h.eventually(t, "the deletion waits for the work", func(ctx context.Context) (bool, error) {
			work := manifestWork(name, "work", "")
			err := h.client.Get(ctx, client.ObjectKeyFromObject(work), work)
			return !work.GetDeletionTimestamp().IsZero(), err
		})
		if h.connection(t.Context(), t, name) == nil {
			t.Errorf("the connection of %s was gone before its work", name)
		}
		if err := h.client.Patch(t.Context(), manifestWork(name, "work", ""), joined); err != nil {
			t.Fatal(err)
		}
		h.gone(t, cluster(name, true))
		h.gone(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// countedPods restarts the controllers, with and without the wish, and with and without
// leave for agents to read customizations.
func countedPods(t *testing.T, h *hub, o registration.SetupOptions) {
	asks := func(want string) {
		t.Helper()
		h.eventually(t, fmt.Sprintf("the agent of south is asked by %q", want), func(ctx context.Context) (bool, error) {
			have := h.connection(ctx, t, "south")
			return have != nil && have.Annotations[fleetv1alpha1.AnnotationCountPods] == want, nil
		})
	}
	reads := func(want bool) {
		t.Helper()
		h.eventually(t, fmt.Sprintf("the agent of south may read customizations: %t", want), func(ctx context.Context) (bool, error) {
			role := &rbacv1.ClusterRole{}
			err := h.client.Get(ctx, client.ObjectKey{Name: grants.ClusterRoleName("south")}, role)
			found := slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
				return equality.Semantic.DeepEqual(rule, grants.CustomizationReaderRule())
			})
			return found == want, err
		})
	}
	known := h.connection(t.Context(), t, "second").Identity()
	for _, counts := range []bool{true, false} {
		h.stop()
		o.CountPods, o.Customizations = counts, counts
		h.start(t, as(h.config, "registration-controller-sa"), o)
		asks(map[bool]string{true: fleetv1alpha1.AskedByPropagation}[counts])
		reads(counts)
	}
	if have := h.connection(t.Context(), t, "second").Identity(); have != known {
		t.Errorf("the identity of a cluster is %q now, and was %q", have, known)
	}
}

// forcedDeletion ends the controllers.
func forcedDeletion(t *testing.T, h *hub, o registration.SetupOptions) {
	forced := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	h.stop()
	if err := h.client.Delete(t.Context(), cluster("south", true)); err != nil {
		t.Fatal(err)
	}
	if err := h.client.Patch(t.Context(), cluster("south", true), forced); err != nil {
		t.Fatal(err)
	}
	h.start(t, as(h.config, "registration-controller-sa"), o)
	h.gone(t, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "south"}})
}

func oneName(t *testing.T, h *hub) {
	h.accept(t, is("first", "uid-1"))
	h.identity(t, "first", "uid-1")
	h.create(t, is("second", "uid-1"))
	h.accepted(t, "second", metav1.ConditionFalse, alreadyJoined)
	if message := h.message(t, "second"); !strings.Contains(message, `"first"`) {
		t.Errorf("the refusal does not name the cluster that it is already: %s", message)
	}
	if h.connection(t.Context(), t, "second") != nil {
		t.Error("the refused cluster has a connection")
	}
	for _, check := range agentChecks("second") {
		own := check.Resource == "managedclusters" && check.Subresource == "" && check.Verb != "update"
		if !own && h.may(t.Context(), t, "second", check) {
			t.Errorf("the agent of a refused cluster may do %v", check)
		}
	}
	if err := h.client.Delete(t.Context(), cluster("first", true)); err != nil {
		t.Fatal(err)
	}
	h.accepted(t, "second", metav1.ConditionTrue, accepted)
	h.identity(t, "second", "uid-1")
}

func claimLater(t *testing.T, h *hub) {
	h.accept(t, is("honest", "uid-2"), is("liar", "uid-3"))
	h.reports(t, "liar", "uid-2")
	h.patch(t, "honest", `{"spec":{"hubAcceptsClient":false}}`)
	h.accepted(t, "honest", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
	h.patch(t, "honest", `{"spec":{"hubAcceptsClient":true}}`)
	h.accepted(t, "honest", metav1.ConditionTrue, accepted)
	h.identity(t, "honest", "uid-2")
	h.identity(t, "liar", "uid-3")
	h.accepted(t, "liar", metav1.ConditionTrue, accepted)
	h.create(t, is("again", "uid-3"))
	h.accepted(t, "again", metav1.ConditionFalse, alreadyJoined)
	// Denied, a cluster keeps nobody out.
	h.patch(t, "liar", `{"spec":{"hubAcceptsClient":false}}`)
	h.accepted(t, "again", metav1.ConditionTrue, accepted)
	h.patch(t, "liar", `{"spec":{"hubAcceptsClient":true}}`)
	h.accepted(t, "liar", metav1.ConditionFalse, alreadyJoined)
}

func pushFirst(t *testing.T, h *hub) {
	h.create(t, push("pushed"))
	h.accept(t, cluster("pushed", true))
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"uid-4"}}`)) // as the push agent does
	if err := h.client.Status().Patch(t.Context(), push("pushed"), status); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the controller has seen who it is", func(ctx context.Context) (bool, error) {
		connection := &fleetv1alpha1.ClusterConnection{}
		err := h.cached.Get(ctx, client.ObjectKey{Name: "pushed"}, connection)
		return connection.Identity() == "uid-4", err
	})
	h.create(t, is("pulled", "uid-4"))
	h.accepted(t, "pulled", metav1.ConditionFalse, alreadyJoined)
	// As Pull it is still the same cluster, whatever its own agent says then.
	mode := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"syncMode":"Pull"}}`))
	if err := h.client.Patch(t.Context(), push("pushed"), mode); err != nil {
		t.Fatal(err)
	}
	h.identity(t, "pushed", "uid-4")
	h.reports(t, "pushed", "uid-5")
	h.identity(t, "pushed", "uid-4")
}

func knownLater(t *testing.T, h *hub) {
	h.accept(t, cluster("early", true), cluster("late", true))
	h.reports(t, "early", "uid-6")
	h.identity(t, "early", "uid-6")
	h.reports(t, "late", "uid-6")
	h.create(t, is("later", "uid-6"))
	h.accepted(t, "later", metav1.ConditionFalse, alreadyJoined)
	h.accepted(t, "late", metav1.ConditionTrue, accepted)
	if id := h.connection(t.Context(), t, "late").Identity(); id != "" {
		t.Errorf("two clusters are %s", id)
	}
}

// duplicate waits until a cluster is, or is not, warned of as one that is there
// twice, and returns the warning.
func (h *hub) duplicate(t *testing.T, name string, want bool) string {
	t.Helper()
	message := ""
	h.eventually(t, fmt.Sprintf("%s is there twice: %t", name, want), func(ctx context.Context) (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return false, err
		}
		found := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity)
		if found != nil {
			message = found.Message
		}
		return (found != nil && found.Status == metav1.ConditionTrue && found.Reason == alreadyJoined) == want, nil
	})
	return message
}

// TestOneClusterMayHaveTwoNames is for a cluster with two Klusterlets: each has
// an agent of its own, so both names work, and only the first has the identity.
func TestOneClusterMayHaveTwoNames(t *testing.T) {
	h := startHub(t, registration.SetupOptions{Gates: gates(t, nil), OwnNamespace: "open-cluster-management-hub"})
	h.accept(t, is("first", "uid-1"))
	h.identity(t, "first", "uid-1")
	h.accept(t, is("second", "uid-1"))
	if message := h.duplicate(t, "second", true); !strings.Contains(message, `"first"`) {
		t.Errorf("the warning does not name the other cluster: %s", message)
	}
	h.duplicate(t, "first", false)
	h.identity(t, "first", "uid-1")
	if id := h.connection(t.Context(), t, "second").Identity(); id != "" {
		t.Errorf("two clusters have the identity %s", id)
	}
	for _, check := range agentChecks("second") {
		if !h.may(t.Context(), t, "second", check) {
			t.Errorf("the agent of the second name may not do %v", check)
		}
	}

	// The push agent works for a whole cluster: a Push one has no second name.
	h.create(t, push("pushed"))
	h.accept(t, cluster("pushed", true))
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"uid-2"}}`)) // as the push agent does
	if err := h.client.Status().Patch(t.Context(), push("pushed"), status); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the controller has seen who it is", func(ctx context.Context) (bool, error) {
		connection := &fleetv1alpha1.ClusterConnection{}
		err := h.cached.Get(ctx, client.ObjectKey{Name: "pushed"}, connection)
		return connection.Identity() == "uid-2", err
	})
	h.create(t, is("pulled", "uid-2"))
	h.accepted(t, "pulled", metav1.ConditionFalse, alreadyJoined)

	if err := h.client.Delete(t.Context(), cluster("first", true)); err != nil {
		t.Fatal(err)
	}
	h.gone(t, cluster("first", true))
	h.duplicate(t, "second", false)
	h.identity(t, "second", "uid-1")

	// A denied cluster is not there any more.
	h.accept(t, is("third", "uid-1"))
	h.duplicate(t, "third", true)
	h.patch(t, "third", `{"spec":{"hubAcceptsClient":false}}`)
	h.duplicate(t, "third", false)
}
