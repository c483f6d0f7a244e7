// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/features"
)

// CreateDisagreement creates two Deployments that read the same ConfigMap, and whose policies
// want different things of it.
func (w World) CreateDisagreement() {
	w.Helper()
	w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "shared"}})
	for name, resolution := range map[string]policyv1alpha1.ConflictResolution{"first": policyv1alpha1.ConflictOverwrite, "second": policyv1alpha1.ConflictAbort} {
		p, d := Policy(name, policyv1alpha1.Placement{}), Deployment(name, 1)
		p.Spec.ResourceSelectors[0].Name, p.Spec.PropagateDeps = name, true
		p.Spec.ConflictResolution, p.Spec.PreserveResourcesOnDeletion = resolution, new(name == "first")
		d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shared"},
		}}}
		w.CreateAll(p, d)
	}
}

// WithGates turns on feature gates for the controllers that are started next.
func (w World) WithGates(gates ...features.Gate) {
	on := map[string]bool{}
	for _, gate := range gates {
		on[string(gate)] = true
	}
	w.Options.Gates, _ = features.ResolveGates(features.HubPlacement, on)
}

// HasEvent waits for an event about the object of a name; an empty note is any.
func (w World) HasEvent(namespace, name, reason, note string) {
	w.Helper()
	w.AwaitEvent(namespace, name, reason, func(is string) bool { return note == "" || note == is })
}

// HasEventWith waits for an event about an object of namespace default whose note has a
// part.
func (w World) HasEventWith(name, reason, part string) {
	w.Helper()
	w.AwaitEvent(metav1.NamespaceDefault, name, reason, func(note string) bool { return strings.Contains(note, part) })
}

// AwaitEvent waits for an event about the object of a name whose note fits.
func (w World) AwaitEvent(namespace, name, reason string, fits func(note string) bool) {
	w.Helper()
	w.Eventually(fmt.Sprintf("there is an event %s about %s/%s", reason, namespace, name), func() error {
		list := &corev1.EventList{}
		if err := w.List(w.Context(), list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": name}); err != nil {
			return err
		}
		var told []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason == reason && fits(e.Message) {
				return w.Get(w.Context(), client.ObjectKeyFromObject(e), &eventsv1.Event{})
			}
			told = append(told, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are %q", told)
	})
}

// EventReasons returns the reasons of all events about an object of namespace default.
func (w World) EventReasons(name string) []string {
	w.Helper()
	list := &corev1.EventList{}
	if err := w.List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": name}); err != nil {
		w.Fatal(err)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Reason)
	}
	return all
}

// NamespaceHasEvent waits for an event in a namespace.
func (w World) NamespaceHasEvent(namespace, reason, note string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("an event %s says %q", reason, note), func() error {
		events := &eventsv1.EventList{}
		if err := w.List(w.Context(), events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Note, note) {
				return nil
			}
		}
		return errors.New("none does")
	})
}
