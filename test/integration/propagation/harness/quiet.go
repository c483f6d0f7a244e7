// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// annotationMark is on what was marked, for the controllers to reconcile it.
const annotationMark = "test.capstan.io/mark"

// spacing is how far apart the controllers may put the writes of what these tests have. What
// looks again later than that, does so for another reason.
const spacing = 5 * time.Second

// StaysSent sees that what was sent stays as it is: after what has happened, all controllers
// of bindings that run reconcile each binding, and delete nothing.
func (w World) StaysSent(before map[string]SentWork) {
	w.Helper()
	w.AwaitPasses(func() { w.Unharmed(before) })
	w.Unharmed(before)
}

// Unharmed sees that nothing was deleted of what was sent, on the hub and in the
// members.
func (w World) Unharmed(before map[string]SentWork) {
	w.Helper()
	now, err := w.everySent()
	if err != nil {
		w.Fatal(err)
	}
	for key, was := range before {
		if is, there := now[key]; !there || is.going || is.uid != was.uid || was.Applied != "" && is.Applied != was.Applied {
			w.Fatalf("%s was deleted", key)
		}
	}
}

// BecomesQuiet waits until the controllers write nothing more, and sees that they write
// nothing then, although each reconciles all bindings again.
func (w World) BecomesQuiet(writes func() string) {
	w.Helper()
	w.Eventually("nothing is written any more", func() error {
		before := writes()
		w.AwaitPasses(func() {})
		if after := writes(); before != after {
			return fmt.Errorf("%s writes became %s", before, after)
		}
		for _, running := range *w.Running {
			if names := running.PutOff(spacing); len(names) > 0 {
				return fmt.Errorf("writes of %v are put off", names)
			}
		}
		return nil
	})
	before := writes()
	w.AwaitPasses(func() {})
	if after := writes(); before != after {
		w.Errorf("%s writes became %s, although nothing was to be done", before, after)
	}
}

// AwaitPasses waits until all controllers of bindings that run have reconciled each
// binding twice after what has happened so far: the first pass may have begun before
// its controller heard of the mark. The check is
// made all the time.
func (w World) AwaitPasses(check func()) {
	w.Helper()
	if len(*w.Running) == 0 {
		w.Fatal("no controller runs that could do anything")
	}
	for range 2 {
		marked := w.MarkBindings()
		w.Eventually("the controllers have reconciled all bindings", func() error {
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

// MarkBindings writes an annotation to a work of each binding, or to the binding if it has none,
// and returns for each manager that runs what its controller of bindings has not
// reconciled since.
func (w World) MarkBindings() (missing []func() []types.NamespacedName) {
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
	for _, one := range *w.Running {
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
func (w World) annotate(object client.Object, key, value string) {
	w.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, body)); client.IgnoreNotFound(err) != nil {
		w.Fatalf("changing %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

// KeepsForgotten waits until agents have missed the works that the hub does not have any more, and
// sees that the clusters keep what these had brought.
func (w World) KeepsForgotten(before, now map[string]SentWork) {
	w.Helper()
	w.Eventually("the agents miss what the hub has forgotten", func() error {
		for key, was := range before {
			if _, there := now[key]; there {
				continue
			}
			cluster, object, _ := strings.Cut(key, "/")
			has, err := w.Members[cluster].AppliedObjects(w.Context())
			if err != nil {
				return err
			}
			is := has[object]
			if is == nil || is.GetUID() != was.Applied {
				w.Fatalf("%s does not have the %s any more that it had", cluster, object)
			}
			forgotten, err := w.Members[cluster].ForgottenRecords(w.Context())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(is.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return forgotten[o.UID] }) {
				return fmt.Errorf("the agent of %s has not missed the work of %s", cluster, object)
			}
		}
		return nil
	})
}
