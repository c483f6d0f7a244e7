// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// TestWhatOthersNeedIsWrittenAtAPace has an object be needed by another one each time, whose binding is a megabyte,
// in a namespace that has written 60 MiB already.
func TestWhatOthersNeedIsWrittenAtAPace(t *testing.T) {
	const changes = 20
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := neededFor("config")
	b.Spec.SchedulerName = strings.Repeat("x", 1<<20)
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).Build()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	meter := store.NewWriteMeter(clk)
	large := neededFor("large")
	large.Spec.SchedulerName = strings.Repeat("x", 60<<20)
	meter.CountWrite(t.Context(), large)
	a := &AttachedController{DependencyDeps: DependencyDeps{
		Client: ownwrites.ReadOwnWritesClient{Client: hub, Written: ownwrites.NewWrittenBindings(clk), Meter: meter}, Meter: meter,
	}}
	needed := func(n int) (written bool, wait time.Duration) {
		t.Helper()
		present := &workv1alpha2.ResourceBinding{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(b), present); err != nil {
			t.Fatal(err)
		}
		who := fmt.Sprint("web-", n)
		wait, err := a.updateBinding(t.Context(), present, references.ReferrerNeeds{
			RequiredBy: []workv1alpha2.BindingSnapshot{{Namespace: "shop", Name: who, Clusters: []workv1alpha2.TargetCluster{{Name: "a"}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(b), present); err != nil {
			t.Fatal(err)
		}
		return len(present.Spec.RequiredBy) == 1 && present.Spec.RequiredBy[0].Name == who, wait
	}
	writes := 0
	var wait time.Duration
	for n := range changes {
		written, again := needed(n)
		if written {
			writes++
		}
		wait = again
	}
	if writes < 3 || writes > 6 {
		t.Errorf("of %d changes of a megabyte %d are written at once, want about four", changes, writes)
	}
	clk.SetTime(clk.Now().Add(wait + time.Second))
	if written, again := needed(changes); !written || again > 0 {
		t.Errorf("the last change is not written after %v", wait)
	}
}
