// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/webhook"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// webhooks is the layer of ResourceInterpreterWebhookConfigurations. Agents call
// webhooks themselves, at their URLs: a Service of the hub has a name that is
// somebody else's in a cluster.
type webhooks struct {
	calls *callout.Caller

	mu    sync.Mutex
	found map[string]configv1alpha1.ResourceInterpreterWebhookConfiguration // by the name
	layer *webhook.Webhooks
	// asked are the kinds that somebody has asked about: a rule may be for any kind.
	asked map[schema.GroupVersionKind]struct{}
}

func newWebhooks(now clock.PassiveClock, guard *dial.Guard) *webhooks {
	return &webhooks{
		calls: callout.New(callout.Options{Clock: now, Guard: guard}),
		found: map[string]configv1alpha1.ResourceInterpreterWebhookConfiguration{}, asked: map[schema.GroupVersionKind]struct{}{},
	}
}

// Operations is part of interpret.Layer.
func (w *webhooks) Operations(kind schema.GroupVersionKind) interpret.Operations {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.layer.Operations(kind)
}

// Said is part of Layer.
func (w *webhooks) Said(kind schema.GroupVersionKind) Said {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[kind] = struct{}{}
	return Said{
		Retention: w.layer.Fingerprint(kind, configv1alpha1.InterpreterOperationRetain),
		Report:    w.layer.Fingerprint(kind, configv1alpha1.InterpreterOperationInterpretStatus, configv1alpha1.InterpreterOperationInterpretHealth),
	}
}

// set takes in a change, and returns the kinds of which other webhooks are asked.
func (w *webhooks) set(change func(found map[string]configv1alpha1.ResourceInterpreterWebhookConfiguration)) (changed []schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.found)
	before := w.layer
	w.layer = webhook.New(slices.Collect(maps.Values(w.found)), w.calls)
	for kind := range w.asked {
		if !w.layer.Same(before, kind) {
			changed = append(changed, kind)
		}
	}
	return changed
}

// configurations takes in the configurations of a hub.
type configurations struct {
	hub     *Hub
	refused func()
}

type configuration = configv1alpha1.ResourceInterpreterWebhookConfiguration

// Replace is part of watch.Handler.
func (f *configurations) Replace(all []*configuration, _ string) {
	f.hub.hear(func(found map[string]configuration) {
		clear(found)
		for _, c := range all {
			found[c.Name] = *c
		}
	})
}

// Update is part of watch.Handler.
func (f *configurations) Update(c *configuration) {
	f.hub.hear(func(found map[string]configuration) { found[c.Name] = *c })
}

// Delete is part of watch.Handler.
func (f *configurations) Delete(c *configuration) {
	f.hub.hear(func(found map[string]configuration) { delete(found, c.Name) })
}

// Bookmark is part of watch.Handler.
func (f *configurations) Bookmark(string) {}

// Failed is part of watch.Handler. What is known stays, as with customizations.
func (f *configurations) Failed(err error) {
	if watch.Refused(err) {
		f.refused()
	}
}

// hear takes in a change of webhooks, nil if nothing changed, and tells the users of
// the hub.
func (h *Hub) hear(change func(found map[string]configuration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.known && !h.heard
	h.heard = true
	var changed []schema.GroupVersionKind
	if change != nil {
		changed = h.webhooks.set(change)
	}
	h.notify(first, changed)
}

// slim returns what an agent needs of a configuration.
func slim(c *configuration) *configuration {
	reduced := &configuration{TypeMeta: c.TypeMeta, Webhooks: c.Webhooks}
	reduced.Name = c.Name
	reduced.UID = c.UID
	reduced.ResourceVersion = c.ResourceVersion
	reduced.DeletionTimestamp = c.DeletionTimestamp
	return reduced
}
