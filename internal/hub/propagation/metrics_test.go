// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// filled is a cache that has objects and watches nothing.
type filled struct {
	cache.Cache
	objects []client.Object
}

func (f filled) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	informer := toolscache.NewSharedIndexInformer(nil, kind, 0, nil)
	for _, object := range f.objects {
		if fmt.Sprintf("%T", object) != fmt.Sprintf("%T", kind) {
			continue
		}
		if err := informer.GetIndexer().Add(object); err != nil {
			return nil, fmt.Errorf("filling the cache: %w", err)
		}
	}
	return informer, nil
}

func TestWhatIsInTheCacheIsCountedByState(t *testing.T) {
	yes, names := true, 0
	named := func() metav1.ObjectMeta {
		names++
		return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("object-%d", names), Generation: 2}
	}
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, ObservedGeneration: 2}
	}
	binding := func(spec workv1alpha2.ResourceBindingSpec, conditions ...metav1.Condition) client.Object {
		return &workv1alpha2.ResourceBinding{ObjectMeta: named(), Spec: spec, Status: workv1alpha2.ResourceBindingStatus{Conditions: conditions}}
	}
	work := func(conditions ...metav1.Condition) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: named(), Status: workv1.ManifestWorkStatus{Conditions: conditions}}
	}
	outdated, gone := work(condition(workv1.ManifestWorkConditionApplied, metav1.ConditionTrue, "")), work()
	outdated.Generation = 3
	gone.DeletionTimestamp = &metav1.Time{}
	scheduled := condition(workv1alpha2.BindingConditionScheduled, metav1.ConditionTrue, "")
	none, suspended := workv1alpha2.ResourceBindingSpec{}, workv1alpha2.ResourceBindingSpec{Suspension: &workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{Dispatching: &yes}}}
	rollout := fleetv1alpha1.PropagationRolloutStatus{Conditions: []metav1.Condition{
		condition(fleetv1alpha1.PropagationRolloutConditionComplete, metav1.ConditionFalse, fleetv1alpha1.PropagationRolloutReasonPaused),
	}}
	from := filled{objects: []client.Object{
		binding(none), binding(none, condition(workv1alpha2.BindingConditionScheduled, metav1.ConditionFalse, "")),
		binding(none, scheduled), binding(none, scheduled, condition(workv1alpha2.BindingConditionFullyApplied, metav1.ConditionTrue, "")),
		binding(suspended, scheduled),
		&workv1alpha2.ClusterResourceBinding{ObjectMeta: named()},
		work(), outdated, gone, work(condition(workv1.ManifestWorkConditionApplied, metav1.ConditionTrue, "")),
		work(condition(workv1.ManifestWorkConditionApplied, metav1.ConditionFalse, "")),
		work(condition(workv1.ManifestWorkConditionDispatching, metav1.ConditionFalse, "")),
		&fleetv1alpha1.PropagationRollout{ObjectMeta: named(), Status: rollout}, &fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: named()},
	}}
	held := allowance.NewAllowance(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), allowance.DefaultShared, 1)
	held.SetLimit(allowance.WorkOwner{Namespace: "shop"}, new(int64))
	held.AdmitWrites(allowance.WorkOwner{Namespace: "shop"}, []allowance.WorkWrite{allowance.WriteOf(work(), nil)})
	registry := prometheus.NewPedanticRegistry()
	for _, collector := range newPropagationCollectors(from, held) {
		if err := registry.Register(collector); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]float64{}
	for _, family := range families {
		got[family.GetName()] = map[string]float64{}
		for _, metric := range family.GetMetric() {
			got[family.GetName()][metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	want := map[string]map[string]float64{
		"capstan_propagation_rollouts": {
			"Starting": 1, "RollingOut": 0, "AllHealthy": 0, "Paused": 1, "TooManyFailures": 0, "Undoing": 0, "Undone": 0, "NotAccepted": 0,
		},
		"capstan_propagation_bindings":           {"pending": 2, "unschedulable": 1, "progressing": 1, "applied": 1, "suspended": 1, "deleting": 0},
		"capstan_propagation_limited_namespaces": {"NamespaceFull": 1, "HubFull": 0, "NamespaceThrottled": 0},
		"capstan_hub_works":                      {"pending": 2, "failed": 1, "applied": 1, "suspended": 1, "deleting": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
