// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// TestReportsOfManyClustersHaveAPace has the status of an object change in each of 500 clusters, one after the other:
// the binding would be stored whole for each of them. The last state is reported in the end, and the first one
// about a change at once.
func TestReportsOfManyClustersHaveAPace(t *testing.T) {
	const clusters, reports = 500, 100
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = "shop"
	b.Name = "web-deployment"
	b.Generation = 1
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithStatusSubresource(b).Build()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	known := fleet.NewFleet(clk)
	meter := store.NewWriteMeter(clk)
	c := &BindingController{BindingControllerDeps: BindingControllerDeps{
		Client: ownwrites.ReadOwnWritesClient{Client: hub, Written: ownwrites.NewWrittenBindings(clk), Meter: meter}, Clock: clk, Events: events.NewRecorder(nil),
		Store: store.NewBindingStore(hub, decide.NewDecider(decide.DeciderOptions{Fleet: known, Clock: clk}), known, meter),
	}}
	report := func(n int) (written bool, wait time.Duration) {
		t.Helper()
		stored := &workv1alpha2.ResourceBinding{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(b), stored); err != nil {
			t.Fatal(err)
		}
		stored.Generation = b.Generation
		pass := &bindingPass{by: c, binding: stored}
		for i := range clusters {
			pass.items = append(pass.items, workv1alpha2.AggregatedStatusItem{ClusterName: fmt.Sprint(i), Applied: true, AppliedMessage: strings.Repeat(fmt.Sprint(n%10), 2000)})
		}
		version := stored.ResourceVersion
		for _, phase := range []bindingPhase{(*bindingPass).paceReport, (*bindingPass).reportStatus} {
			if err := phase(pass, t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(b), stored); err != nil {
			t.Fatal(err)
		}
		return stored.ResourceVersion != version, pass.untilReport
	}
	writes := 0
	var wait time.Duration
	for n := range reports {
		written, again := report(n)
		if written {
			writes++
		}
		wait = again
	}
	if writes < 3 || writes > 6 {
		t.Errorf("of %d reports about a megabyte %d are written at once, want about four", reports, writes)
	}
	b.Generation++
	if written, _ := report(1); !written {
		t.Error("the first report about a change waits")
	}
	clk.SetTime(clk.Now().Add(wait + time.Minute))
	if written, again := report(2); !written || again > 0 {
		t.Errorf("the last report is not written after %v", wait)
	}
}

// TestWhatAClusterReportsHoldsUpNoChange has a cluster report something else about 20 objects of a namespace, until its reports have
// to wait. What was changed in the namespace before leaves room for another change, but not if the reports took it.
func TestWhatAClusterReportsHoldsUpNoChange(t *testing.T) {
	const objects = 20
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	known := fleet.NewFleet(clk)
	meter := store.NewWriteMeter(clk)
	meter.CountWrite(t.Context(), bindingOfMiB(31))
	meter.CountWrite(store.WithReports(t.Context()), bindingOfMiB(31))
	for n := range objects {
		b := &workv1alpha2.ResourceBinding{}
		b.Namespace = "shop"
		b.Name = fmt.Sprint("web-", n)
		b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionFullyApplied}} // something was said before
		hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithStatusSubresource(b).Build()
		c := &BindingController{BindingControllerDeps: BindingControllerDeps{
			Client: ownwrites.ReadOwnWritesClient{Client: hub, Written: ownwrites.NewWrittenBindings(clk), Meter: meter}, Clock: clk, Events: events.NewRecorder(nil),
			Store: store.NewBindingStore(hub, decide.NewDecider(decide.DeciderOptions{Fleet: known, Clock: clk}), known, meter),
		}}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			t.Fatal(err)
		}
		pass := &bindingPass{by: c, binding: b, items: []workv1alpha2.AggregatedStatusItem{{ClusterName: "liar", AppliedMessage: strings.Repeat("x", 256<<10)}}}
		for _, phase := range []bindingPhase{(*bindingPass).paceReport, (*bindingPass).reportStatus} {
			if err := phase(pass, t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if wait := meter.WaitBeforeReport(t.Context(), types.NamespacedName{Namespace: "shop", Name: "another"}); wait == 0 {
		t.Error("the reports of the cluster do not have to wait")
	}
	if wait := meter.WaitBeforeChange(t.Context(), "shop"); wait > 0 {
		t.Errorf("a change of another object waits %v for what the cluster reports", wait)
	}
}
