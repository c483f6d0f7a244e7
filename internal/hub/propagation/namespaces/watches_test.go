// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestBindingsThatAskForNothingNewBringNoNamespaceBack counts how often a namespace
// is looked at, which is a look at all of its bindings.
func TestBindingsThatAskForNothingNewBringNoNamespaceBack(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	there := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: deliver.NamespaceWorkName("shop")}}
	controller := NewNamespaceController(NamespaceDeps{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(there).Build()})
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	q := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clk})
	defer q.ShutDown()
	binding := func(i int, cluster string) *workv1alpha2.ResourceBinding {
		return &workv1alpha2.ResourceBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("c%d-configmap", i)},
			Spec:       workv1alpha2.ResourceBindingSpec{Clusters: []workv1alpha2.TargetCluster{{Name: cluster}}},
		}
	}
	watched := controller.onBinding()
	for i := range 100 {
		watched.Create(t.Context(), event.CreateEvent{Object: binding(i, "member1")}, q)
	}
	if q.Len() != 0 {
		t.Error("bindings to a cluster that has the namespace bring it back")
	}
	watched.Update(t.Context(), event.UpdateEvent{ObjectOld: binding(0, "member1"), ObjectNew: binding(0, "member2")}, q)
	if q.Len() != 1 {
		t.Fatal("a binding to a cluster that lacks the namespace does not bring it back")
	}
	key, _ := q.Get()
	q.Done(key)
	for i := range 100 {
		watched.Delete(t.Context(), event.DeleteEvent{Object: binding(i, "member1")}, q)
	}
	if q.Len() != 0 {
		t.Error("each binding that is gone brings the namespace back at once")
	}
	for !clk.HasWaiters() { // the queue has not taken them in
		time.Sleep(time.Millisecond)
	}
	clk.Step(awaitOthers)
	if key, _ := q.Get(); key.Name != "shop" || q.Len() != 0 {
		t.Errorf("%q is brought back, and %d more", key.Name, q.Len())
	}
}
