// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/teardown"
)

// joined makes a cluster with a work, whose agent has joined.
func (l *lab) joined(t testing.TB, name string) {
	t.Helper()
	l.cluster(t, name, true)
	mc := &clusterv1.ManagedCluster{}
	l.exists(t, mc, name, "")
	mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue, Reason: clusterv1.ManagedClusterReasonJoined,
		LastTransitionTime: metav1.Now(),
	})
	expect.NoError(t, l.client.Status().Update(t.Context(), mc))
}

// startRemoval deletes the ClusterManager and makes a pass.
func (l *lab) startRemoval(t testing.TB) {
	t.Helper()
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	l.onePass(t)
}

func (l *lab) onePass(t testing.TB) {
	t.Helper()
	if _, err := l.pass(t); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) work(t testing.TB, cluster string) *workv1.ManifestWork {
	t.Helper()
	work := &workv1.ManifestWork{}
	if !l.exists(t, work, "work", cluster) {
		t.Fatalf("the work of cluster %s is gone", cluster)
	}
	return work
}

// end lets the removal end: the agents are done.
func (l *lab) end(t testing.TB, clusters ...string) {
	t.Helper()
	for _, cluster := range clusters {
		l.freeWork(t.Context(), t, cluster)
	}
	if !l.continueRemoval(t) {
		t.Errorf("the removal does not end: %+v", l.condition(t, "Deleting"))
	}
}

func (l *lab) annotate(t testing.TB, key, value string) {
	t.Helper()
	l.change(t, func(cm *operatorv1.ClusterManager) { metav1.SetMetaDataAnnotation(&cm.ObjectMeta, key, value) })
}

func TestRemovalOfJoinedClustersSaysWhatTheyLoseAndWaits(t *testing.T) {
	t.Parallel()
	l := teardownLabs.TakeFixture(t)
	l.ready(t, nil)
	l.joined(t, "east")
	l.joined(t, "west")
	l.warnings()
	l.startRemoval(t)
	deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting)
	if deleting.Reason != "ClustersLoseWorks" || !strings.Contains(deleting.Message, "2 joined clusters (east, west) lose their works") ||
		!strings.Contains(deleting.Message, "2 ManifestWorks") || !strings.Contains(deleting.Message, "fleet.capstan.io/keep-works=true") {
		t.Errorf("Deleting is %+v", deleting)
	}
	period := teardown.GracePeriodOf(l.get(t))
	l.clock.SetTime(period.End.Add(-1))
	l.onePass(t)
	for _, cluster := range []string{"east", "west"} {
		if work := l.work(t, cluster); !work.DeletionTimestamp.IsZero() {
			t.Fatalf("the work of cluster %s was deleted within the grace period", cluster)
		}
	}
	l.clock.SetTime(period.End)
	for range passesMax {
		l.onePass(t)
		if !l.work(t, "east").DeletionTimestamp.IsZero() && !l.work(t, "west").DeletionTimestamp.IsZero() {
			break
		}
	}
	if work := l.work(t, "east"); work.DeletionTimestamp.IsZero() || work.Spec.DeleteOption != nil {
		t.Errorf("after the grace period the work is %+v %+v", work.ObjectMeta, work.Spec.DeleteOption)
	}
	l.end(t, "east", "west")
	if warned := l.warnings(); warned != 1 {
		t.Errorf("%d events tell that clusters lose their works, want 1", warned)
	}
}

// warnings takes the events out that there are, and counts those about works
// that clusters lose.
func (l *lab) warnings() int {
	count := 0
	for len(l.events.Events) > 0 {
		if strings.Contains(<-l.events.Events, "ClustersLoseWorks") {
			count++
		}
	}
	return count
}

func TestRemovalOfJoinedClustersIsToldInTimeToKeepTheWorks(t *testing.T) {
	t.Parallel()
	l := teardownLabs.TakeFixture(t)
	l.ready(t, nil)
	l.joined(t, "east")
	l.startRemoval(t)
	l.annotate(t, operatorv1.AnnotationKeepWorks, "true")
	l.onePass(t)
	if work := l.work(t, "east"); work.Spec.DeleteOption == nil || work.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyOrphan {
		t.Errorf("the work is deleted with %+v, want Orphan", work.Spec.DeleteOption)
	}
	l.end(t, "east")
}

func TestRemovalOfJoinedClustersKeepsWorksOfAnyDeleteOption(t *testing.T) {
	t.Parallel()
	l := teardownLabs.TakeFixture(t)
	options := map[string]*workv1.DeleteOption{
		"east": nil,
		"west": {PropagationPolicy: workv1.DeletePropagationPolicyForeground},
		"south": {PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan, SelectivelyOrphans: &workv1.SelectivelyOrphan{
			OrphaningRules: []workv1.OrphaningRule{{Resource: "configmaps", Namespace: "default", Name: "a"}},
		}},
	}
	l.ready(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationKeepWorks: "true"}
	})
	for cluster, option := range options {
		l.joined(t, cluster)
		work := l.work(t, cluster)
		work.Spec.DeleteOption = option
		expect.NoError(t, l.client.Update(t.Context(), work))
	}
	l.joined(t, "north")
	expect.NoError(t, l.client.Delete(t.Context(), l.work(t, "north")))
	l.startRemoval(t)
	for cluster := range options {
		option := l.work(t, cluster).Spec.DeleteOption
		if option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyOrphan || option.SelectivelyOrphans != nil {
			t.Errorf("the work of cluster %s is deleted with %+v, want Orphan", cluster, option)
		}
	}
	if option := l.work(t, "north").Spec.DeleteOption; option != nil {
		t.Errorf("a work that its user has deleted before is deleted with %+v", option)
	}
	l.end(t, "east", "west", "south", "north")
}

// TestRemovalOfJoinedClustersKeepsWorksOfBindings is about works that bindings make, whose controller would undo it
// as well.
func TestRemovalOfJoinedClustersKeepsWorksOfBindings(t *testing.T) {
	t.Parallel()
	l := teardownLabs.TakeFixture(t)
	l.ready(t, func(cm *operatorv1.ClusterManager) {
		propagating(cm)
		cm.Annotations = map[string]string{operatorv1.AnnotationKeepWorks: "true"}
	})
	l.joined(t, "east")
	policy, binding := &unstructured.Unstructured{Object: map[string]any{}}, &unstructured.Unstructured{Object: map[string]any{}}
	policy.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("PropagationPolicy"))
	policy.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}}
	binding.SetGroupVersionKind(workv1alpha2.GroupVersion.WithKind("ResourceBinding"))
	binding.Object["spec"] = map[string]any{"resource": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "web"}}
	for _, object := range []*unstructured.Unstructured{policy, binding} {
		object.SetName("web")
		object.SetNamespace("default")
		object.SetFinalizers([]string{policyv1alpha1.FinalizerPropagationPolicy}) // so that it can be looked at
		l.create(t, object)
	}
	l.startRemoval(t)
	if deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting); !strings.Contains(deleting.Message, "2 policies and bindings are changed") {
		t.Errorf("Deleting is %+v", deleting)
	}
	for _, object := range []*unstructured.Unstructured{policy, binding} {
		l.exists(t, object, "web", "default")
		if kept, _, _ := unstructured.NestedBool(object.Object, "spec", "preserveResourcesOnDeletion"); !kept {
			t.Errorf("%s does not keep what is on the members", object.GetKind())
		}
	}
	if option := l.work(t, "east").Spec.DeleteOption; option != nil {
		t.Errorf("the work has %+v before the controller of bindings can know", option)
	}
	l.onePass(t)
	if option := l.work(t, "east").Spec.DeleteOption; option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyOrphan {
		t.Errorf("the work is deleted with %+v, want Orphan", option)
	}
	l.clock.SetTime(l.get(t).DeletionTimestamp.Add(time.Hour))
	l.end(t, "east")
}

// TestRemovalOfJoinedClustersKeepsWorksOfReplicaSets is about works whose controller would undo what is done to them.
func TestRemovalOfJoinedClustersKeepsWorksOfReplicaSets(t *testing.T) {
	t.Parallel()
	l := teardownLabs.TakeFixture(t)
	l.ready(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationKeepWorks: "true"}
	})
	l.joined(t, "east")
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", Finalizers: []string{workv1alpha1.FinalizerManifestWorkCleanup},
	}}
	set.Spec.ManifestWorkTemplate = l.work(t, "east").Spec
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	l.create(t, set)
	l.startRemoval(t)
	if !l.exists(t, set, "web", "default") || set.Spec.ManifestWorkTemplate.DeleteOption == nil ||
		set.Spec.ManifestWorkTemplate.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyOrphan {
		t.Errorf("the template is deleted with %+v, want Orphan", set.Spec.ManifestWorkTemplate.DeleteOption)
	}
	if option := l.work(t, "east").Spec.DeleteOption; option != nil {
		t.Errorf("the work has %+v before its controller can know", option)
	}
	if deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting); !strings.Contains(deleting.Message, "1 ManifestWorkReplicaSets are changed") {
		t.Errorf("Deleting is %+v", deleting)
	}
	l.onePass(t)
	if option := l.work(t, "east").Spec.DeleteOption; option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyOrphan {
		t.Errorf("the work is deleted with %+v, want Orphan", option)
	}
	// As long as the replica set is there, it could make the works again.
	for range passesMax {
		l.onePass(t)
		if l.exists(t, set, "web", "default") && !set.DeletionTimestamp.IsZero() {
			break
		}
	}
	if work := l.work(t, "east"); set.DeletionTimestamp.IsZero() || !work.DeletionTimestamp.IsZero() {
		t.Errorf("want the replica set deleted before the work, got %v and %v", set.DeletionTimestamp, work.DeletionTimestamp)
	}
	set.Finalizers = nil
	expect.NoError(t, l.client.Update(t.Context(), set))
	l.end(t, "east")
}
