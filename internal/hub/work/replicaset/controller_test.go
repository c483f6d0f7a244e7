// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hubs have the controller, the agent, and four clusters. Each test has a namespace of its own.
var hubs = env.NewFixtures(servers, func(t testing.TB) hub {
	t.Helper()
	h := start(t)
	h.run(t, interceptor.Funcs{})
	h.serve(t)
	h.clusters("c1", "c2", "c3", "c4")
	return h
})

// start returns a hub on which the account of the controller has the role that it is installed with.
func start(t testing.TB) hub {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, access := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../../config/crd"} })
	scheme, err := work.NewWorkScheme()
	expect.NoError(t, err)
	expect.NoError(t, clientgoscheme.AddToScheme(scheme))
	c, err := client.New(access, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	rules, _, err := config.Rules(config.WorkController)
	expect.NoError(t, err)
	cluster.GrantUser(t, c, access, account, rules...)
	return hub{AdminClient: cluster.AdminClient{TB: t, Client: c}, config: access}
}

var all = clusterv1alpha1.RolloutStrategy{}

func TestAReplicaSetReachesAllItsClusters(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2", "c3"})
	set := h.set("v1", "p", all)
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1")
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonAsExpected)
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete, "3 of 3 clusters succeeded", "no condition Progressing")
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonAsExpected)
	if want := (workv1alpha1.ManifestWorkReplicaSetSummary{Total: 3, Applied: 3, Available: 3}); set.Status.Summary != want {
		h.Errorf("the summary is %+v, want %+v", set.Status.Summary, want)
	}
	if s := set.Status.PlacementsSummary[0]; s.Name != "p" || s.AvailableDecisionGroups != "1 (3 / 3 clusters applied)" || s.Summary.Total != 3 {
		h.Errorf("the summary of the Placement is %+v", s)
	}
	for _, w := range h.listed(set) {
		if !slices.Contains(w.Finalizers, workv1.FinalizerManifestWorkCleanup) || w.Labels[workv1.LabelPlacementName] != "p" {
			h.Errorf("a work has finalizers %v and labels %v", w.Finalizers, w.Labels)
		}
	}
}

// TestWorksTakeOverWhetherHealthIsReported is about the annotation that the works take over.
func TestWorksTakeOverWhetherHealthIsReported(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"})
	set := h.set("v1", "p", all)
	h.delivered(set, "c1=v1", "c2=v1")
	for _, want := range []string{"true", "false", ""} {
		h.MustPatch(set, func() { set.Annotations = map[string]string{workv1.AnnotationReportHealth: want} })
		h.UntilRight(func() string {
			for _, w := range h.listed(set) {
				// By the entry of who wrote the spec the controller knows when that was.
				labelled := slices.ContainsFunc(w.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
					return e.Manager == "work-controller-labels" && !strings.Contains(string(e.FieldsV1.GetRawBytes()), "f:spec")
				})
				if w.Annotations[workv1.AnnotationReportHealth] != want || w.Generation != 1 || !labelled {
					return "the annotation is not on the work of " + w.Namespace + ", or its spec was written"
				}
			}
			return ""
		})
	}
}

// TestNothingIsWrittenButWhatHasChanged is about what is written for a change, of ours and of others.
func TestNothingIsWrittenButWhatHasChanged(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2", "c3"})
	set := h.set("v1", "p", all)
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1")
	h.turn(set, "v2")
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
	settled := h.versions(set)

	w := h.listed(set)[0]
	h.MustPatch(&w, func() { w.Spec = manifests("mine") })
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2")
	h.MustDelete(&w)
	h.UntilRight(func() string {
		now := h.versions(set)
		if len(now) != 3 || now["c1"] == settled["c1"] {
			return "the work that was deleted is not back"
		}
		delete(now, "c1")
		delete(settled, "c1")
		if !maps.Equal(now, settled) {
			h.Fatalf("works that nobody has changed were written: %v, now %v", settled, now)
		}
		return ""
	})
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2")
}

// TestAClusterThatMovesKeepsItsWork is about a cluster that moves, and one that leaves.
func TestAClusterThatMovesKeepsItsWork(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"}, []string{"c3"})
	set := h.set("v1", "p", all)
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1")
	h.decide("p", []string{"c2"}, []string{"c3"}) // and c1 is missing, for a moment
	h.turn(set, "v2")
	h.delivered(set, "c1=v1", "c2=v2", "c3=v2")
	h.choose("p", []string{"c2"}, []string{"c1", "c3", "c4"})
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2", "c4=v2")
	for _, w := range h.listed(set) {
		if w.Namespace == "c1" && w.Generation != 2 {
			h.Errorf("the work of the cluster that moved was not kept: %+v", w.ObjectMeta)
		}
	}
	h.choose("p", []string{"c2"}, []string{})
	h.delivered(set, "c2=v2")
	h.choose("p", []string{}, []string{})
	h.delivered(set)
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonPlacementDecisionEmpty)
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonPlacementDecisionEmpty)
}

// TestAClusterOfTwoPlacementsHasOneWork is about clusters that two Placements choose.
func TestAClusterOfTwoPlacementsHasOneWork(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"})
	h.choose("q", []string{"c2", "c3"})
	set := h.set("v1", "p", all)
	h.MustPatch(set, func() {
		set.Spec.PlacementRefs = append(set.Spec.PlacementRefs, workv1alpha1.LocalPlacementReference{Name: "q"})
	})
	belongs := func(want string) {
		h.Helper()
		h.UntilRight(func() string {
			var got []string
			for _, w := range h.listed(set) {
				got = append(got, w.Namespace+"="+w.Labels[workv1.LabelPlacementName])
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				return "the works belong to " + strings.Join(got, " ") + ", want " + want
			}
			return ""
		})
	}
	belongs("c1=p c2=p c3=q")
	h.choose("p", []string{"c1"})
	belongs("c1=p c2=q c3=q")
	for _, w := range h.listed(set) {
		if w.Generation != 1 {
			h.Errorf("the spec of the work of %s was written again", w.Namespace)
		}
	}
	h.MustDelete(h.placement("p"))
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonPlacementDecisionNotFound, "spec.placementRefs[0]", "create it")
	h.choose("q", []string{"c3", "c4"})
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1", "c4=v1")
	h.MustPatch(set, func() { set.Spec.PlacementRefs = set.Spec.PlacementRefs[1:] })
	h.delivered(set, "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonAsExpected)
}

// TestWorksOfOCMAreAdopted is about works that OCM has created, with other names.
func TestWorksOfOCMAreAdopted(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	labels := map[string]string{workv1.LabelManifestWorkReplicaSet: h.namespace + ".web", workv1.LabelPlacementName: "p"}
	for _, name := range []string{"web-abcde", "web-fghij"} {
		h.MustCreate(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: name, Labels: labels}, Spec: manifests("v1")})
	}
	h.MustCreate(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c2", Name: "web-klmno", Labels: labels}, Spec: manifests("v0")})
	h.choose("p", []string{"c1", "c2"})
	set := h.set("v1", "p", all)
	h.delivered(set, "c1=v1", "c2=v1")
	for _, w := range h.listed(set) {
		if w.Name != "web-abcde" && w.Name != "web-klmno" {
			h.Errorf("work %s of %s was created although there was one", w.Name, w.Namespace)
		}
	}
}

func TestMistakesInAReplicaSetAreSaid(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	set := h.set("v1", "p", clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
		RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: "soon"},
	}})
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonPlacementDecisionNotFound)
	h.choose("p", []string{"c1"})
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonNotAsExpected,
		"spec.placementRefs[0].rolloutStrategy.progressive.minSuccessTime", "such as 90s")
	h.delivered(set)
	h.MustPatch(set, func() { set.Spec.PlacementRefs[0].RolloutStrategy.Progressive.MinSuccessTime = "0s" })
	h.delivered(set, "c1=v1")
	h.says(set, workv1alpha1.ConditionPlacementVerified, workv1alpha1.ReasonAsExpected)

	foreign := h.listed(set)[0]
	h.MustDelete(set)
	h.UntilRight(func() string { return h.gone(set) })
	h.delivered(set)
	stranger := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: foreign.Name}, Spec: manifests("other")}
	h.MustCreate(stranger)
	set = h.set("v1", "p", all)
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonNotAsExpected, "does not belong to this", "delete it")
	h.MustDelete(stranger)
	h.delivered(set, "c1=v1")

	long := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: strings.Repeat("a", 60)}, Spec: set.Spec}
	h.MustCreate(long)
	h.says(long, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonInvalidManifestWorkName, "a shorter name")
}

func TestAProgressiveRolloutStopsWhenClustersFail(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"}, []string{"c3", "c4"})
	set := h.set("v1", "p", clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromInt32(1),
	}})
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
	before := h.versions(set)

	h.turn(set, bad)
	h.delivered(set, "c1=bad", "c2=v1", "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing,
		"3 waiting for others", "1 failed: c1 (Applied is False: the value is bad)", "The rollout has stopped: 1 failed, and maxFailures allows 0")
	h.says(set, workv1alpha1.ConditionManifestworkApplied, workv1alpha1.ReasonNotAsExpected, "c1 (Applied is False: the value is bad)")
	h.turn(set, "v1")
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete, "4 of 4 clusters succeeded")
	after := h.versions(set)
	delete(before, "c1")
	delete(after, "c1")
	if !maps.Equal(before, after) {
		h.Errorf("going back has written works that were right: %v, now %v", before, after)
	}

	h.turn(set, silent)
	h.delivered(set, "c1=silent", "c2=v1", "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "1 in progress", "3 waiting for others")
	h.MustPatch(set, func() { set.Spec.PlacementRefs[0].RolloutStrategy.Progressive.ProgressDeadline = "1s" })
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "c1 (not done by the deadline)", "has stopped")
	h.MustPatch(set, func() { set.Spec.PlacementRefs[0].RolloutStrategy.Progressive.MaxFailures = intstr.FromInt32(1) })
	h.delivered(set, "c1=silent", "c2=silent", "c3=v1", "c4=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "c2 (not done by the deadline)", "2 failed, and maxFailures allows 1")
	h.choose("p", []string{"c3"}, []string{"c4"})
	h.turn(set, "v3")
	h.delivered(set, "c3=v3", "c4=v3")
}

// TestARolloutByGroupsStopsInTheGroupThatFails is about a rollout by groups that fails in the second.
func TestARolloutByGroupsStopsInTheGroupThatFails(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1"}, []string{"c2", "c3"}, []string{"c4"})
	set := h.set("v1", "p", clusterv1alpha1.RolloutStrategy{Type: "ProgressivePerGroup", ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{
		MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{
			MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupIndex: 2}},
		},
	}})
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
	h.turn(set, bad)
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1", "c4=bad")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "1 failed in group 2, and maxFailures allows 0")
	h.MustPatch(set, func() {
		set.Spec.PlacementRefs[0].RolloutStrategy.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups = nil
	})
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "in group 0")
	h.delivered(set, "c1=bad", "c2=v1", "c3=v1", "c4=bad")
	h.MustPatch(set, func() {
		set.Spec.PlacementRefs[0].RolloutStrategy.ProgressivePerGroup.MaxFailures = intstr.FromString("25%")
	})
	h.delivered(set, "c1=bad", "c2=bad", "c3=bad", "c4=bad")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "3 failed in group 1, and maxFailures allows 1")
	h.turn(set, "v2")
	h.delivered(set, "c1=v2", "c2=v2", "c3=v2", "c4=v2")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
}

func TestAPausedReplicaSetWritesNothing(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"})
	set := h.set("v1", "p", all)
	h.delivered(set, "c1=v1", "c2=v1")
	h.MustPatch(set, func() { set.Annotations = map[string]string{fleetv1alpha1.AnnotationPaused: "true"} })
	h.turn(set, "v2")
	h.choose("p", []string{"c2", "c3"})
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "paused by annotation fleet.capstan.io/paused", "0 of 2 clusters succeeded")
	h.delivered(set, "c1=v1", "c2=v1")
	h.MustPatch(set, func() { set.Annotations = nil })
	h.delivered(set, "c2=v2", "c3=v2")
	h.MustPatch(set, func() { set.Annotations = map[string]string{fleetv1alpha1.AnnotationPaused: "true"} })
	h.MustDelete(set)
	h.UntilRight(func() string { return h.gone(set) })
	h.delivered(set)
}

func TestAForegroundDeletionWaitsForTheWorks(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"})
	set := h.set(kept, "p", all)
	h.MustPatch(set, func() { set.Spec.CascadeDeletionPolicy = workv1alpha1.CascadeDeletionPolicyForeground })
	h.delivered(set, "c1=kept", "c2=kept")
	h.MustDelete(set)
	h.UntilRight(func() string { return h.deleting(set) })
	h.MustGet(set) // it waits
	h.release(set)
	h.UntilRight(func() string { return h.gone(set) })
	if works := h.listed(set); len(works) > 0 {
		h.Errorf("it is gone, and %d works are not", len(works))
	}
}

func TestABackgroundDeletionDoesNotWait(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"})
	set := h.set(kept, "p", all)
	h.delivered(set, "c1=kept", "c2=kept")
	h.MustDelete(set)
	h.UntilRight(func() string { return h.gone(set) })
	if problem := h.deleting(set); problem != "" || len(h.listed(set)) != 2 {
		h.Errorf("it is gone before its works are: %s", problem)
	}
	h.release(set)
	h.delivered(set)
}

// TestAClusterMayGetItsNamespaceLate is about a cluster that gets its namespace late.
func TestAClusterMayGetItsNamespaceLate(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "late"})
	set := h.set("v1", "p", clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{MaxConcurrency: intstr.FromInt32(1)}})
	h.delivered(set, "c1=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "1 of 2 clusters succeeded", "have not been accepted: late")
	h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}}) // which is not that of a cluster
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "1 of 2 clusters succeeded", "1 have a namespace on the hub that is not for their works", ": late")
	late := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	h.MustPatch(late, func() { late.Labels["open-cluster-management.io/cluster-name"] = "late" })
	h.delivered(set, "c1=v1", "late=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
}

// TestANamespaceWithoutTheLabelGetsNoWorks is about clusters with namespaces that somebody has
// made, without the label of the hub. That of a tenant gets nothing by the name of a cluster that
// waits.
func TestANamespaceWithoutTheLabelGetsNoWorks(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	clusters := []*clusterv1.ManagedCluster{
		{ObjectMeta: metav1.ObjectMeta{Name: "u-tenant", Annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: "0123456789abcdef"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "u-vouched", Annotations: map[string]string{clusterv1.AnnotationRegisteredByAcceptor: "true"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "u-accepted"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}},
		{ObjectMeta: metav1.ObjectMeta{Name: "u-denied"}},
	}
	for _, cluster := range clusters {
		h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}})
		h.MustCreate(cluster)
	}
	denied := clusters[3]
	h.MustPatchStatus(denied, func() {
		meta.SetStatusCondition(&denied.Status.Conditions, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionFalse, Reason: clusterv1.ManagedClusterReasonHubClusterAdminDenied,
		})
	})
	h.choose("p", []string{"u-accepted", "u-denied", "u-tenant", "u-vouched"})
	set := h.set("v1", "p", all)
	h.delivered(set, "u-accepted=v1", "u-denied=v1", "u-vouched=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "3 of 4 clusters succeeded",
		"1 have a namespace on the hub that is not for their works", "accept them, or label their namespaces: u-tenant")
	if set.Status.Summary.Total != 3 {
		h.Errorf("it counts %d works, want 3", set.Status.Summary.Total)
	}
	tenant := clusters[0]
	h.MustPatch(tenant, func() { tenant.Spec.HubAcceptsClient = true })
	h.delivered(set, "u-accepted=v1", "u-denied=v1", "u-tenant=v1", "u-vouched=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
}

// gone says that an object is still there.
func (h hub) gone(o client.Object) string {
	h.Helper()
	err := h.Get(h.Context(), client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return ""
	}
	return "it is still there"
}

// deleting says that a work is not marked for deletion.
func (h hub) deleting(set *workv1alpha1.ManifestWorkReplicaSet) string {
	h.Helper()
	for _, w := range h.listed(set) {
		if w.DeletionTimestamp.IsZero() {
			return "the work of " + w.Namespace + " is not being deleted"
		}
	}
	return ""
}

// release lets works go that the agent keeps.
func (h hub) release(set *workv1alpha1.ManifestWorkReplicaSet) {
	h.Helper()
	for _, w := range h.listed(set) {
		h.MustPatch(&w, func() { w.Finalizers = nil })
	}
}
