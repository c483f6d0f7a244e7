// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/testing/passes"
)

// annotationMark is on what was marked, for the controllers to look at it.
const annotationMark = "test.capstan.io/mark"

// Settles waits until everything is as declared and the controllers write nothing more,
// and sees that they write nothing then, although each chooses clusters again.
func (w *world) Settles(running ...*Controller) {
	w.Helper()
	w.eventually("everything is as declared", w.DiffersFromDeclared)
	written := func() (all []int) {
		for _, c := range running {
			all = append(all, c.written())
		}
		return all
	}
	w.eventually("nothing is written any more", func() error {
		before := written()
		w.chosenAgain(running)
		if after := written(); !slices.Equal(before, after) {
			return fmt.Errorf("%v writes became %v", before, after)
		}
		return nil
	})
	before := written()
	w.chosenAgain(running)
	w.Must(w.DiffersFromDeclared())
	if after := written(); !slices.Equal(before, after) {
		w.Errorf("the controllers have written %v times, and then %v, although nothing was to be done", before, after)
	}
}

// chosenAgain has each controller reconcile all placements.
func (w *world) chosenAgain(running []*Controller) {
	w.Helper()
	list := &clusterv1beta1.PlacementList{}
	w.Must(w.List(w.Context(), list, client.InNamespace(w.FleetName)))
	var objects []client.Object
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	var all []*passes.Passes
	for _, c := range running {
		all = append(all, c.passes)
	}
	w.Reconciled("placement", all, objects)
}

// Reconciled marks objects, and waits until a controller of each manager has reconciled
// them; twice, as the first pass may have begun before its controller heard of the mark.
func (w *world) Reconciled(controller string, managers []*passes.Passes, objects []client.Object) {
	w.Helper()
	if len(managers) == 0 || len(objects) == 0 {
		w.Fatal("there is nothing by which to know that the controllers do something")
	}
	var names []types.NamespacedName
	for _, object := range objects {
		names = append(names, client.ObjectKeyFromObject(object))
	}
	for range 2 {
		var missing []func() []types.NamespacedName
		for _, manager := range managers {
			missing = append(missing, manager.MissingSince(controller, names...))
		}
		for _, object := range objects {
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, annotationMark, time.Now().UnixNano())
			w.Must(w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, body)))
		}
		w.eventually("the controllers have reconciled what is marked", func() error {
			for _, still := range missing {
				if left := still(); len(left) > 0 {
					return fmt.Errorf("%v are left", left)
				}
			}
			return nil
		})
	}
}

// eventually waits until a check succeeds.
func (w *world) eventually(what string, check func() error) {
	w.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("waiting until %s: %v", what, err)
		}
	}
}
