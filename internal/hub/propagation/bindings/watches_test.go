// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/kube/order"
)

// TestBindingsOfGreaterPriorityComeFirst queues bindings in the order of their
// priorities, the lowest first.
func TestBindingsOfGreaterPriorityComeFirst(t *testing.T) {
	for name, test := range map[string]struct {
		prioritizes bool
		want        []string
	}{
		"with the feature gate":    {true, []string{"urgent", "important", "usual", "patient"}},
		"without the feature gate": {false, []string{"patient", "usual", "important", "urgent"}},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clock.RealClock{}
			clusters := fleet.NewFleet(clk)
			c := NewBindingController(BindingControllerDeps{Written: ownwrites.NewWrittenBindings(clk), Store: store.NewBindingStore(nil, decide.NewDecider(decide.DeciderOptions{Fleet: clusters, Clock: clk}), clusters, store.NewWriteMeter(clk)), Prioritizes: test.prioritizes})
			q := order.NewQueue(c.ranks.RankOf, order.Share[reconcile.Request]{})("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			q.Add(reconcile.Request{}) // what is there before anything is taken out comes in any order
			q.Get()
			for _, waiting := range []struct {
				name     string
				priority *workv1alpha2.SchedulePriority
			}{
				{"patient", &workv1alpha2.SchedulePriority{Priority: -5}},
				{"usual", nil},
				{"important", &workv1alpha2.SchedulePriority{Priority: 10}},
				{"urgent", &workv1alpha2.SchedulePriority{Priority: 1000}},
			} {
				b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: waiting.name}}
				b.Spec.SchedulePriority = waiting.priority
				c.onBinding().Create(t.Context(), event.CreateEvent{Object: b}, q)
			}
			var got []string
			for range test.want {
				next, _ := q.Get()
				got = append(got, next.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the order is %v, want %v", got, test.want)
			}
		})
	}
}
