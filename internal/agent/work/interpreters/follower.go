// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// customizationFollower takes in the customizations of a hub.
type customizationFollower struct {
	hub     *InterpreterHub
	refused func()
}

type customization = configv1alpha1.ResourceInterpreterCustomization

// Replace is part of watch.Handler.
func (f *customizationFollower) Replace(all []*customization, _ string) {
	found := make(map[string]lua.Customization, len(all))
	for _, c := range all {
		applyCustomization(found, c)
	}
	f.hub.updateCustomizations(func(before map[string]lua.Customization) {
		clear(before)
		maps.Copy(before, found)
	})
}

// Update is part of watch.Handler.
func (f *customizationFollower) Update(c *customization) {
	f.hub.updateCustomizations(func(found map[string]lua.Customization) { applyCustomization(found, c) })
}

// Delete is part of watch.Handler.
func (f *customizationFollower) Delete(c *customization) {
	f.hub.updateCustomizations(func(found map[string]lua.Customization) { delete(found, c.Name) })
}

// Bookmark is part of watch.Handler.
func (f *customizationFollower) Bookmark(string) {}

// Failed is part of watch.Handler. What is known stays: that the hub does not answer,
// or lets the agent read nothing any more, does not mean that its users say nothing.
func (f *customizationFollower) Failed(err error) {
	if watch.IsRefused(err) {
		f.refused()
	}
}

// applyCustomization notes what a customization says of objects in clusters.
func applyCustomization(found map[string]lua.Customization, c *customization) {
	said := customized.LuaCustomizationOf(c)
	if len(said.Scripts) == 0 || !c.DeletionTimestamp.IsZero() {
		delete(found, c.Name)
		return
	}
	found[c.Name] = said
}

// updateCustomizations takes in a change, nil if nothing changed, and tells the users of the hub.
func (h *InterpreterHub) updateCustomizations(change func(found map[string]lua.Customization)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.known && h.heard
	h.known = true
	var changed []schema.GroupVersionKind
	if change != nil {
		change(h.found)
		changed = h.customizations.SetCustomizations(slices.Collect(maps.Values(h.found)))
	}
	h.notifyUsers(first, changed)
}

// notifyUsers tells the users of the hub that all is known for the first time, or the
// kinds of which something else is said.
func (h *InterpreterHub) notifyUsers(first bool, changed []schema.GroupVersionKind) {
	for _, told := range h.users {
		if first {
			told(nil)
		}
		if len(changed) > 0 {
			told(changed)
		}
	}
}
