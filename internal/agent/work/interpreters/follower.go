// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/users"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

type (
	customization = configv1alpha1.ResourceInterpreterCustomization
	configuration = configv1alpha1.ResourceInterpreterWebhookConfiguration
)

// pointerTo is the type of objects whose struct is T.
type pointerTo[T any] interface {
	*T
	client.Object
}

// follower takes in the objects of one kind that a hub has.
type follower[T any, P pointerTo[T]] struct {
	hub *InterpreterHub
	// found and known are the hub's for this kind.
	found   map[string]T
	known   *bool
	refused func()
}

func (h *InterpreterHub) followCustomizations(refused func()) *follower[customization, *customization] {
	return &follower[customization, *customization]{hub: h, found: h.customizations, known: &h.known, refused: refused}
}

func (h *InterpreterHub) followConfigurations(refused func()) *follower[configuration, *configuration] {
	return &follower[configuration, *configuration]{hub: h, found: h.configurations, known: &h.heard, refused: refused}
}

// watchKind watches the objects of a kind until ctx ends, or the hub refuses that.
func watchKind[T any, P pointerTo[T]](ctx context.Context, from *hubReader, list client.ObjectList, slim func(P) P, follow func(refused func()) *follower[T, P]) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := watch.Watch[P]{Source: watch.ReducedSource(from.objects, list, nil, slim), Handler: follow(cancel)}
	w.RunReflector(ctx)
}

// Replace is part of watch.Handler.
func (f *follower[T, P]) Replace(all []P, _ string) {
	f.hub.takeIn(f.known, func() {
		clear(f.found)
		for _, o := range all {
			f.found[o.GetName()] = *o
		}
	})
}

// Update is part of watch.Handler.
func (f *follower[T, P]) Update(o P) {
	f.hub.takeIn(f.known, func() { f.found[o.GetName()] = *o })
}

// Delete is part of watch.Handler.
func (f *follower[T, P]) Delete(o P) {
	f.hub.takeIn(f.known, func() { delete(f.found, o.GetName()) })
}

// Bookmark is part of watch.Handler.
func (f *follower[T, P]) Bookmark(string) {}

// Failed is part of watch.Handler. What is known stays: that the hub does not answer,
// or lets the agent read nothing any more, does not mean that its users say nothing.
func (f *follower[T, P]) Failed(err error) {
	if watch.IsRefused(err) {
		f.refused()
	}
}

// takeIn takes in a change of what is known then, nil if nothing changed. It tells the users of
// the hub that all is known for the first time, or the kinds of which something else is said.
func (h *InterpreterHub) takeIn(known *bool, change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.known && h.heard
	*known = true
	first := !before && h.known && h.heard
	var changed []schema.GroupVersionKind
	if change != nil {
		change()
		changed = h.said.SetInterpreters(slices.Collect(maps.Values(h.customizations)), slices.Collect(maps.Values(h.configurations))).Kinds
	}
	for _, told := range h.users {
		if first {
			told(nil)
		}
		if len(changed) > 0 {
			told(changed)
		}
	}
}

// InterpreterChain is what is known of what bindings send: what users of the hub say goes before
// what the agent knows itself.
func (h *InterpreterHub) InterpreterChain(known interpret.Chain) interpret.Chain {
	return h.said.Chain(known)
}

// RevisionOf tells apart what users say of a kind from what they said before. They are told when that changes.
func (h *InterpreterHub) RevisionOf(kind schema.GroupVersionKind) users.KindRevision {
	return h.said.RevisionOf(kind)
}

// slimCustomization returns what an agent needs of a customization.
func slimCustomization(c *customization) *customization {
	reduced := &customization{TypeMeta: c.TypeMeta}
	reduced.Name = c.Name
	reduced.UID = c.UID
	reduced.ResourceVersion = c.ResourceVersion
	reduced.DeletionTimestamp = c.DeletionTimestamp
	reduced.Spec.Target = c.Spec.Target
	all := &c.Spec.Customizations
	reduced.Spec.Customizations = configv1alpha1.CustomizationRules{
		Retention: all.Retention, StatusReflection: all.StatusReflection, HealthInterpretation: all.HealthInterpretation,
	}
	return reduced
}

// slimConfiguration returns what an agent needs of a configuration.
func slimConfiguration(c *configuration) *configuration {
	reduced := &configuration{TypeMeta: c.TypeMeta, Webhooks: c.Webhooks}
	reduced.Name = c.Name
	reduced.UID = c.UID
	reduced.ResourceVersion = c.ResourceVersion
	reduced.DeletionTimestamp = c.DeletionTimestamp
	return reduced
}
