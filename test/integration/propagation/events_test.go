// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestEventsThatUsersOfKarmadaWaitFor reads events as they do: by the name of the
// object, in both APIs.
func TestEventsThatUsersOfKarmadaWaitFor(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), harness.Deployment("quiet", 1))
	w.RunsOn("quiet", map[string]int32{"member1": 1})
	w.HasEvent(metav1.NamespaceDefault, "quiet", "ApplyPolicySucceed", "")
	w.StopControllers()
	if got := slices.Concat(w.EventReasons("quiet"), w.EventReasons("quiet-deployment")); !slices.Equal(got, []string{"ApplyPolicySucceed"}) {
		t.Errorf("without the gate there are events %q", got)
	}

	// One namespace was there before, which is nobody's.
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-member2"}}
	w.CreateAll(foreign)
	w.WithGates(features.KarmadaEvents)
	w.StartControllers()
	w.JoinCluster("member2")
	w.HasEvent(metav1.NamespaceDefault, "member1", "CreateExecutionSpaceSucceed", "Namespace karmada-es-member1 was created.")
	space, cluster := &corev1.Namespace{}, &clusterv1.ManagedCluster{}
	for name, object := range map[string]client.Object{"karmada-es-member1": space, "member1": cluster} {
		if err := w.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	if owner := metav1.GetControllerOf(space); owner == nil || owner.UID != cluster.UID || space.Labels["karmada.io/system"] != "true" {
		t.Errorf("the namespace has labels %v and owners %v", space.Labels, space.OwnerReferences)
	}

	web := harness.Deployment("web", 2)
	w.CreateAll(web)
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})
	for _, name := range []string{"web", "web-deployment"} {
		w.HasEvent(web.Namespace, name, "ScheduleBindingSucceed", "The object goes to: member1 (2), member2 (2).")
		w.HasEvent(web.Namespace, name, "SyncWorkSucceed", "")
		w.HasEvent(web.Namespace, name, "AggregateStatusSucceed", "")
	}
	work := deliver.WorkName("Deployment", web.Namespace, web.Name)
	for _, reason := range []string{"SyncSucceed", "ReflectStatusSucceed", "InterpretHealthSucceed"} {
		w.HasEvent("karmada-es-member1", work, reason, "")
	}
	w.HasEvent("karmada-es-member2", work, "WorkDispatching", "Work is being dispatched to member clusters.")

	if err := w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || len(foreign.OwnerReferences) != 0 {
		t.Errorf("the namespace that was there is taken over: %v, %v", foreign.OwnerReferences, err)
	}
	w.CreateDisagreement()
	w.HasEvent(web.Namespace, "shared-configmap", "DependencyPolicyConflict", "ConflictResolution conflicted (Overwrite vs Abort); "+
		"PreserveResourcesOnDeletion conflicted (true vs false): the policies of the objects that need this one differ, and the first of both wins")
	for _, name := range []string{"first", "first-deployment"} {
		w.HasEvent(web.Namespace, name, "GetDependenciesSucceed", "")
	}
	w.HasEvent(web.Namespace, "first-deployment", "SyncScheduleResultToDependenciesSucceed", "")
}
