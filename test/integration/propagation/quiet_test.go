// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/outage"
)

// annotationMark is on what was marked, for the controllers to reconcile it.
const annotationMark = "test.capstan.io/mark"

// stay sees that what was sent stays as it is: after what has happened, all controllers
// of bindings that run reconcile each binding, and delete nothing.
func (w world) stay(before map[string]sentWork) {
	w.Helper()
	w.reconciled(func() { w.unharmed(before) })
	w.unharmed(before)
}

// unharmed sees that nothing was deleted of what was sent, on the hub and in the
// members.
func (w world) unharmed(before map[string]sentWork) {
	w.Helper()
	now, err := w.everySent()
	if err != nil {
		w.Fatal(err)
	}
	for key, was := range before {
		if is, there := now[key]; !there || is.going || is.uid != was.uid || was.applied != "" && is.applied != was.applied {
			w.Fatalf("%s was deleted", key)
		}
	}
}

// quiet waits until the controllers write nothing more, and sees that they write
// nothing then, although each reconciles all bindings again.
func (w world) quiet(writes func() string) {
	w.Helper()
	w.eventually("nothing is written any more", func() error {
		before := writes()
		w.reconciled(func() {})
		if after := writes(); before != after {
			return fmt.Errorf("%s writes became %s", before, after)
		}
		return nil
	})
	before := writes()
	w.reconciled(func() {})
	if after := writes(); before != after {
		w.Errorf("%s writes became %s, although nothing was to be done", before, after)
	}
}

// writesTo counts what is written to servers.
func writesTo(servers ...*outage.WrappedServer) func() string {
	return func() string {
		var all []int
		for _, server := range servers {
			all = append(all, server.WriteCount())
		}
		return fmt.Sprint(all)
	}
}

// reconciled waits until all controllers of bindings that run have reconciled each
// binding twice after what has happened so far: the first pass may have begun before
// its controller heard of the mark. The check is
// made all the time.
func (w world) reconciled(check func()) {
	w.Helper()
	if len(*w.running) == 0 {
		w.Fatal("no controller runs that could do anything")
	}
	for range 2 {
		marked := w.mark()
		w.eventually("the controllers have reconciled all bindings", func() error {
			check()
			for _, missing := range marked {
				if names := missing(); len(names) > 0 {
					return fmt.Errorf("they have not reconciled %v", names)
				}
			}
			return nil
		})
	}
}

// mark writes an annotation to a work of each binding, or to the binding if it has none,
// and returns for each manager that runs what its controller of bindings has not
// reconciled since.
func (w world) mark() (missing []func() []types.NamespacedName) {
	w.Helper()
	bindings, works := &workv1alpha2.ResourceBindingList{}, &workv1.ManifestWorkList{}
	if err := w.List(w.Context(), bindings); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	if err := w.List(w.Context(), works, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
		w.Fatal(err)
	}
	marked := map[types.NamespacedName]client.Object{}
	for i := range bindings.Items {
		marked[client.ObjectKeyFromObject(&bindings.Items[i])] = &bindings.Items[i]
	}
	for i := range works.Items {
		of := works.Items[i].Annotations
		name := types.NamespacedName{Namespace: of[workv1alpha2.AnnotationResourceBindingNamespace], Name: of[workv1alpha2.AnnotationResourceBindingName]}
		if name.Name != "" {
			marked[name] = &works.Items[i]
		}
	}
	if len(marked) == 0 {
		w.Fatal("there is no binding by which to know that the controllers do something")
	}
	for _, one := range *w.running {
		missing = append(missing, one.MissingSince("binding", slices.Collect(maps.Keys(marked))...))
	}
	for _, object := range marked {
		key := annotationMark
		if _, is := object.(*workv1.ManifestWork); is {
			key = fleetv1alpha1.AnnotationTraceparent // of works, the controllers see few others
		}
		w.annotate(object, key, time.Now().String())
	}
	return missing
}

// annotate writes an annotation to an object, if it is there.
func (w world) annotate(object client.Object, key, value string) {
	w.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		w.Fatalf("changing %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}
