// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

func TestAnAcceptedAgentMayDoWhatItChecksForAndNothingWithOtherClusters(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.CreateObjects(t, hub.NewCluster("east", true), hub.NewCluster("west", true))
	h.IsAccepted(t, "east", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	h.IsAccepted(t, "west", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	for _, check := range hub.AgentChecks("east") {
		h.Eventually(t, fmt.Sprintf("the agent may %v", check), func(ctx context.Context) (bool, error) { return h.AgentMay(ctx, t, "east", check), nil })
		other := check
		other.Namespace, other.Name = strings.ReplaceAll(other.Namespace, "east", "west"), strings.ReplaceAll(other.Name, "east", "west")
		if other != check && h.AgentMay(t.Context(), t, "east", other) {
			t.Errorf("the agent of east may do %v", other)
		}
	}
	for _, bad := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Group: clusterv1.GroupName, Resource: "managedclusters"},
		{Verb: "create", Group: clusterv1.GroupName, Resource: "managedclusters"},
		{Verb: "update", Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "accept", Name: "east"},
		{Verb: "update", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval"},
		{Verb: "patch", Group: fleetv1alpha1.GroupName, Resource: "clusterconnections", Name: "east"},
		{Verb: "list", Group: fleetv1alpha1.GroupName, Resource: "clusterconnections"},
		{Verb: "get", Resource: "secrets", Namespace: "east"},
		{Verb: "create", Group: "work.open-cluster-management.io", Resource: "manifestworks", Namespace: "east"},
		{Verb: "delete", Resource: "namespaces", Name: "east"},
	} {
		if h.AgentMay(t.Context(), t, "east", bad) {
			t.Errorf("the agent of east may do %v", bad)
		}
	}
	lease := &coordinationv1.Lease{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "east", Name: clusterv1.LeaseName}, lease); err != nil {
		t.Error(err)
	}
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "east"}, mc); err != nil {
		t.Fatal(err)
	}
	if len(mc.Spec.Taints) != 1 || mc.Spec.Taints[0].Key != clusterv1.TaintUnreachable {
		t.Errorf("a cluster without an agent has the taints %v", mc.Spec.Taints)
	}
	removeClusters(t, h, "east", "west")
}

// TestAClusterThatAsksToJoinCostsNoRole has a cluster ask to join to which an earlier release gave
// a role, and waits until the hub has looked at it: whoever may make ManagedClusters must not make
// roles by them.
func TestAClusterThatAsksToJoinCostsNoRole(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const name = "asking"
	h.CreateObjects(t, hub.NewCluster(name, false), grants.ClusterRole(name, false), grants.ClusterRoleBinding(name))
	h.IsGone(t, grants.ClusterRole(name, false))
	h.IsGone(t, grants.ClusterRoleBinding(name))
	h.CreateObjects(t, hub.NewCluster("asking-too", false), hub.NewCluster("asking-later", true))
	h.IsAccepted(t, "asking-later", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	roles := &rbacv1.ClusterRoleList{}
	if err := h.Client.List(t.Context(), roles, client.HasLabels{clusterv1.LabelClusterName}); err != nil {
		t.Fatal(err)
	}
	for i := range roles.Items {
		if of := roles.Items[i].Labels[clusterv1.LabelClusterName]; of == name || of == "asking-too" {
			t.Errorf("cluster %s has the role %s", of, roles.Items[i].Name)
		}
	}
	removeClusters(t, h, name, "asking-too", "asking-later")
}

// TestTheLabelOfAnEarlierReleaseBecomesAnAnnotation has clusters as an earlier release has left
// them: one that waits, and one that was accepted while no webhook looked.
func TestTheLabelOfAnEarlierReleaseBecomesAnAnnotation(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	for name, accepted := range map[string]bool{"labelled": false, "labelled-accepted": true} {
		mc := hub.NewCluster(name, accepted)
		mc.Labels = map[string]string{clusterv1.LabelAwaitingAcceptance: "0123456789abcdef", "env": "prod"}
		h.CreateObjects(t, mc)
		h.Eventually(t, "the label is gone", func(ctx context.Context) (bool, error) {
			err := h.Client.Get(ctx, client.ObjectKeyFromObject(mc), mc)
			_, labelled := mc.Labels[clusterv1.LabelAwaitingAcceptance]
			return !labelled, err
		})
		want := map[bool]string{false: "0123456789abcdef"}[accepted]
		if mc.Labels["env"] != "prod" || mc.Annotations[clusterv1.AnnotationAwaitingAcceptance] != want {
			t.Errorf("cluster %s has the labels %v and the annotations %v, want to wait for %q", name, mc.Labels, mc.Annotations, want)
		}
		removeClusters(t, h, name)
	}
}

// reportedApplied is the status of a work that an agent has applied.
const reportedApplied = `{"status":{"conditions":[{"type":"Applied","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

func mergePatch(body string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(body))
}

// TestWorksThatNoAgentWillCleanUpGoWhenTheyAreDeleted deletes works that an agent may have
// applied, which stay, and then those of clusters that never had an agent. Whatever goes later was
// looked at later.
func TestWorksThatNoAgentWillCleanUpGoWhenTheyAreDeleted(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const ofAWS = "agent.open-cluster-management.io/managed-cluster-arn"
	stay := []string{"manned", "wiped", "aws"}
	leave := []string{"waits", "unmanned", "nobody", "served"}
	unmanned, aws := hub.NewCluster("unmanned", true), hub.NewCluster("aws", false)
	unmanned.Annotations = nil // no agent was given a certificate
	aws.Annotations = map[string]string{ofAWS: "arn:aws:eks"}
	h.CreateObjects(t, hub.NewCluster("waits", false), unmanned, hub.NewCluster("manned", true), hub.NewCluster("wiped", true), aws)
	for _, name := range []string{"unmanned", "manned", "wiped"} {
		h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	}
	for _, name := range []string{"waits", "nobody", "served", "aws"} {
		h.CreateObjects(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range slices.Concat(stay, leave) {
		h.CreateObjects(t, hub.NewManifestWork(name, "web", ""))
	}
	// One cluster is denied, and somebody removes what its agent has reported.
	h.PatchCluster(t, "wiped", `{"spec":{"hubAcceptsClient":false}}`)
	h.IsGone(t, grants.WorkRoleBinding("wiped"))
	if err := h.Client.Status().Patch(t.Context(), hub.NewCluster("wiped", false), mergePatch(`{"status":null}`)); err != nil {
		t.Fatal(err)
	}
	// The ManagedCluster of another one is gone, whose agent has reported about the work.
	reported := mergePatch(reportedApplied)
	if err := h.Client.Status().Patch(t.Context(), hub.NewManifestWork("served", "web", ""), reported); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(stay, leave) {
		if err := h.Client.Delete(t.Context(), hub.NewManifestWork(name, "web", "")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range leave {
		h.IsGone(t, hub.NewManifestWork(name, "web", ""))
	}
	for _, name := range stay {
		if work := hub.NewManifestWork(name, "web", ""); h.Client.Get(t.Context(), client.ObjectKeyFromObject(work), work) != nil {
			t.Errorf("the work of cluster %q is gone, which an agent may have applied", name)
		}
	}
	for _, name := range []string{"manned", "wiped"} {
		if err := h.Client.Patch(t.Context(), hub.NewManifestWork(name, "web", ""), mergePatch(`{"metadata":{"finalizers":null}}`)); err != nil {
			t.Fatal(err)
		}
	}
	removeClusters(t, h, "manned", "wiped", "waits", "unmanned", "aws")
	h.IsGone(t, hub.NewManifestWork("aws", "web", "")) // no agent can come any more
}

// TestWorksOfAClusterThatSomebodyHasTakenAwayWaitUntilNobodyHasRights has somebody take the
// finalizers off the ManagedCluster of a cluster that has an agent. Its work waits for the agent,
// until the name is that of a cluster which nobody accepts, and that goes.
func TestWorksOfAClusterThatSomebodyHasTakenAwayWaitUntilNobodyHasRights(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const name = "lost"
	h.CreateObjects(t, hub.NewCluster(name, true))
	h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	joined := mergePatch(`{"status":{"conditions":[` +
		`{"type":"ManagedClusterJoined","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},` +
		`{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if err := h.Client.Status().Patch(t.Context(), hub.NewCluster(name, true), joined); err != nil {
		t.Fatal(err)
	}
	h.CreateObjects(t, hub.NewManifestWork(name, "web", ""))
	reported := mergePatch(reportedApplied)
	if err := h.Client.Status().Patch(t.Context(), hub.NewManifestWork(name, "web", ""), reported); err != nil {
		t.Fatal(err)
	}
	if err := h.Client.Delete(t.Context(), hub.NewCluster(name, false)); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the finalizers of the ManagedCluster are off", func(ctx context.Context) (bool, error) {
		err := h.Client.Patch(ctx, hub.NewCluster(name, false), mergePatch(`{"metadata":{"finalizers":null}}`))
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err := h.Client.Delete(t.Context(), hub.NewManifestWork(name, "web", "")); err != nil {
		t.Fatal(err)
	}
	anew := hub.NewCluster(name, false)
	anew.Annotations = nil
	h.CreateObjects(t, anew)
	h.IsGone(t, grants.WorkRoleBinding(name))
	if work := hub.NewManifestWork(name, "web", ""); h.Client.Get(t.Context(), client.ObjectKeyFromObject(work), work) != nil {
		t.Error("the work is gone while there was a ManagedCluster whose agent may have applied it")
	}
	removeClusters(t, h, name)
	h.IsGone(t, hub.NewManifestWork(name, "web", ""))
}

func TestDenyTakesTheRightsBackAndAcceptingAgainRestoresThem(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	renew := authorizationv1.ResourceAttributes{
		Verb: "renew", Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "clientcertificates", Name: "east",
	}
	read := authorizationv1.ResourceAttributes{Verb: "get", Group: clusterv1.GroupName, Resource: "managedclusters", Name: "east"}
	h.AcceptClusters(t, hub.NewCluster("east", true))
	h.PatchCluster(t, "east", `{"spec":{"hubAcceptsClient":false}}`)
	h.IsAccepted(t, "east", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
	h.IsGone(t, grants.WorkRoleBinding("east"))
	h.IsGone(t, grants.RegistrationRoleBinding("east"))
	h.Eventually(t, "the agent may not renew", func(ctx context.Context) (bool, error) { return !h.AgentMay(ctx, t, "east", renew), nil })
	if !h.AgentMay(t.Context(), t, "east", read) {
		t.Error("a denied agent cannot see that it is denied")
	}
	h.PatchCluster(t, "east", `{"spec":{"hubAcceptsClient":true}}`)
	h.IsAccepted(t, "east", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	h.Eventually(t, "the agent may renew", func(ctx context.Context) (bool, error) { return h.AgentMay(ctx, t, "east", renew), nil })
	removeClusters(t, h, "east")
}

func TestWhatSomebodyChangesOrDeletesIsRestored(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("east", true))
	same := func(name string, want []rbacv1.PolicyRule) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			role := &rbacv1.ClusterRole{}
			err := h.Client.Get(ctx, client.ObjectKey{Name: name}, role)
			return err == nil && fmt.Sprint(role.Rules) == fmt.Sprint(want), client.IgnoreNotFound(err)
		}
	}
	role := grants.ClusterRole("east", true)
	want := role.Rules
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	if err := h.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the changed role is restored", same(role.Name, want))
	if err := h.Client.Delete(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the deleted role is restored", same(role.Name, want))
	shared := grants.SharedRoles()[0]
	if err := h.Client.Delete(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the deleted shared role is restored", same(shared.Name, grants.SharedRoles()[0].Rules))
	work := grants.WorkRoleBinding("east")
	if err := h.Client.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the deleted binding is restored", func(ctx context.Context) (bool, error) {
		have := &rbacv1.RoleBinding{}
		err := h.Client.Get(ctx, client.ObjectKeyFromObject(work), have)
		return err == nil && have.DeletionTimestamp.IsZero(), client.IgnoreNotFound(err)
	})
	lease := grants.InitialLease("east", 60, time.Time{})
	if err := h.Client.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the deleted lease is restored", func(ctx context.Context) (bool, error) {
		err := h.Client.Get(ctx, client.ObjectKeyFromObject(lease), &coordinationv1.Lease{})
		return err == nil, client.IgnoreNotFound(err)
	})
	removeClusters(t, h, "east")
}

func TestANamespaceOfSomebodyElseIsNotTaken(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.CreateObjects(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "payments"}}, hub.NewCluster("payments", true))
	h.IsAccepted(t, "payments", metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable)
	lease := authorizationv1.ResourceAttributes{
		Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "payments", Name: clusterv1.LeaseName,
	}
	if h.AgentMay(t.Context(), t, "payments", lease) {
		t.Error("the agent has rights in a namespace that is not its own")
	}
	h.PatchNamespace(t, "payments", clusterv1.LabelClusterName)
	h.IsAccepted(t, "payments", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	// No agent ever joined there, so nobody has to clean up after this work.
	h.CreateObjects(t, hub.NewManifestWork("payments", "never-applied", ""))
	removeClusters(t, h, "payments")
}

func TestNamesThatWouldCollideAreRefused(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("east", true)) // so that the shared roles are there
	names := []string{"kube-system", "default", "work", "registration", "managed-clusters", "open-cluster-management-hub", "a.b"}
	for _, name := range names {
		h.CreateObjects(t, hub.NewCluster(name, true))
		h.IsAccepted(t, name, metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable)
	}
	role := &rbacv1.ClusterRole{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: grants.WorkRole}, role); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(role.Rules) != fmt.Sprint(grants.SharedRoles()[1].Rules) {
		t.Errorf("a cluster with the name of the shared role changed it: %v", role.Rules)
	}
	removeClusters(t, h, names...)
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: grants.WorkRole}, role); err != nil {
		t.Errorf("the deletion of a cluster with the name of the shared role took it: %v", err)
	}
	removeClusters(t, h, "east")
}

func TestDeletionEmptiesTheNamespaceFirstAndTakesTheRightsLast(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("west", true))
	h.CreateObjects(t, hub.NewManifestWork("west", "early", ""), hub.NewManifestWork("west", "late", "50"))
	// The agent of west has joined, so it has to clean up.
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "west"}, mc); err != nil {
		t.Fatal(err)
	}
	before := mc.DeepCopy()
	for _, kind := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	if err := h.Client.Status().Patch(t.Context(), mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := h.Client.Delete(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	deleting := func(name string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			work := hub.NewManifestWork("west", name, "")
			err := h.Client.Get(ctx, client.ObjectKeyFromObject(work), work)
			return !work.GetDeletionTimestamp().IsZero(), err
		}
	}
	h.Eventually(t, "the first work is being deleted", deleting("early"))
	if late, err := deleting("late")(t.Context()); late || err != nil {
		t.Errorf("the work of a later priority is being deleted (%v)", err)
	}
	h.Eventually(t, "the cluster says what remains", func(ctx context.Context) (bool, error) {
		err := h.Client.Get(ctx, client.ObjectKey{Name: "west"}, mc)
		c := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionDeleting)
		return c != nil && c.Reason == clusterv1.ManagedClusterReasonDeletingResourceRemaining && strings.Contains(c.Message, "early, late"), err
	})
	h.ReleaseWork(t, "early")
	h.Eventually(t, "the second work is being deleted", deleting("late"))
	if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "west", Name: grants.WorkRoleBindingName("west")}, &rbacv1.RoleBinding{}); err != nil {
		t.Errorf("the agent cannot clean up: %v", err)
	}
	h.ReleaseWork(t, "late")
	h.IsGone(t, hub.NewCluster("west", true))
	h.IsGone(t, grants.WorkRoleBinding("west"))
	h.IsGone(t, grants.RegistrationRoleBinding("west"))
	h.IsGone(t, grants.ClusterRole("west", true))
	h.IsGone(t, grants.ClusterRoleBinding("west"))
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "west"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace is gone: %v", err)
	}
	h.CreateObjects(t, hub.NewCluster("west", true))
	h.IsAccepted(t, "west", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	removeClusters(t, h, "west")
}

func TestSetsFollowTheirClusters(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("east", true), hub.NewCluster("west", true), hub.NewCluster("north", true))
	says := func(set, message string) {
		t.Helper()
		h.Eventually(t, fmt.Sprintf("set %s says %q", set, message), func(ctx context.Context) (bool, error) {
			have := &clusterv1beta2.ManagedClusterSet{}
			err := h.Client.Get(ctx, client.ObjectKey{Name: set}, have)
			c := meta.FindStatusCondition(have.Status.Conditions, clusterv1beta2.ManagedClusterSetConditionEmpty)
			return c != nil && c.Message == message, client.IgnoreNotFound(err)
		})
	}
	h.CreateObjects(t, &clusterv1beta2.ManagedClusterSet{
		ObjectMeta: metav1.ObjectMeta{Name: "prod"},
		Spec:       clusterv1beta2.ManagedClusterSetSpec{ManagedNamespaces: []clusterv1.ManagedNamespaceConfig{{Name: "apps"}}},
	})
	says("default", "No ManagedCluster selected")
	says("prod", "No ManagedCluster selected")
	says("global", "3 ManagedClusters selected")
	h.PatchCluster(t, "east", `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":"prod"}}}`)
	says("prod", "1 ManagedClusters selected")
	namespaces := func(want int) {
		t.Helper()
		h.Eventually(t, fmt.Sprintf("the cluster has %d managed namespaces", want), func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.Client.Get(ctx, client.ObjectKey{Name: "east"}, mc)
			return len(mc.Status.ManagedNamespaces) == want, err
		})
	}
	namespaces(1)
	h.PatchCluster(t, "east", `{"metadata":{"labels":{"cluster.open-cluster-management.io/clusterset":null}}}`)
	says("prod", "No ManagedCluster selected")
	namespaces(0)

	global := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "global"}}
	raw := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"clusterSelector":{"labelSelector":{"matchLabels":{"a":"b"}}}}}`))
	if err := h.Client.Patch(t.Context(), global, raw); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the global set is set back", func(ctx context.Context) (bool, error) {
		err := h.Client.Get(ctx, client.ObjectKey{Name: "global"}, global)
		return global.Spec.ClusterSelector.LabelSelector != nil && len(global.Spec.ClusterSelector.LabelSelector.MatchLabels) == 0, err
	})

	binding := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dev"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "dev"},
	}
	bound := func(reason string) {
		t.Helper()
		h.Eventually(t, "the binding says "+reason, func(ctx context.Context) (bool, error) {
			err := h.Client.Get(ctx, client.ObjectKeyFromObject(binding), binding)
			c := meta.FindStatusCondition(binding.Status.Conditions, clusterv1beta2.ManagedClusterSetBindingConditionBound)
			return c != nil && c.Reason == reason, err
		})
	}
	h.CreateObjects(t, binding)
	bound(clusterv1beta2.ManagedClusterSetBindingReasonNotFound)
	h.CreateObjects(t, &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "dev"}})
	bound(clusterv1beta2.ManagedClusterSetBindingReasonBound)
	removeClusters(t, h, "east", "west", "north")
}

func TestTheSharedRolesGoWithTheLastCluster(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.AcceptClusters(t, hub.NewCluster("east", true), hub.NewCluster("west", true), hub.NewCluster("last", true))
	// No agent ever joined there, so nobody has to clean up after this work.
	h.CreateObjects(t, hub.NewManifestWork("last", "never-applied", ""))
	removeClusters(t, h, "east", "west", "last")
	for _, role := range grants.SharedRoles() {
		h.IsGone(t, role)
	}
}

func TestWhatIsInANamespaceOfSomebodyElseStays(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	h.CreateObjects(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "invoices"}}, hub.NewManifestWork("invoices", "theirs", ""))
	h.CreateObjects(t, hub.NewCluster("invoices", true))
	h.IsAccepted(t, "invoices", metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable)
	removeClusters(t, h, "invoices")
	work := hub.NewManifestWork("invoices", "theirs", "")
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(work), work); err != nil || work.GetDeletionTimestamp() != nil {
		t.Errorf("a cluster that never got the namespace took with it what is there (%v)", err)
	}
	raw := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := h.Client.Patch(t.Context(), work, raw); err != nil {
		t.Fatal(err)
	}
}

// TestClustersGoWhenTheHubDoesNotKnowWorksAnyMore is the removal of a hub: the operator removes
// the definition of works first, and the clusters only when all works are gone.
func TestClustersGoWhenTheHubDoesNotKnowWorksAnyMore(t *testing.T) {
	h := startHub(t, clusterOptions(t))
	h.CreateObjects(t, hub.NewCluster("last", true))
	h.IsAccepted(t, "last", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	definition.SetName("manifestworks.work.open-cluster-management.io")
	if err := h.Client.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	h.IsGone(t, definition)
	removeClusters(t, h, "last")
	h.IsGone(t, grants.WorkRoleBinding("last"))
	h.IsGone(t, grants.ClusterRole("last", true))
}
