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

// webhookLayer is the layer of ResourceInterpreterWebhookConfigurations. Agents call
// webhooks themselves, at their URLs: a Service of the hub has a name that is
// somebody else's in a cluster.
type webhookLayer struct {
	calls *callout.Caller

	mu    sync.Mutex
	found map[string]configv1alpha1.ResourceInterpreterWebhookConfiguration // by the name
	layer *webhook.Webhooks
	// asked are the kinds that somebody has asked about: a rule may be for any kind.
	asked map[schema.GroupVersionKind]struct{}
}

func newWebhookLayer(now clock.PassiveClock, guard *dial.AddressGuard) *webhookLayer {
	return &webhookLayer{
		calls: callout.NewCaller(callout.CallerOptions{Clock: now, Guard: guard}),
		found: map[string]configv1alpha1.ResourceInterpreterWebhookConfiguration{}, asked: map[schema.GroupVersionKind]struct{}{},
	}
}

// Operations is part of interpret.Layer.
func (w *webhookLayer) Operations(kind schema.GroupVersionKind) interpret.Operations {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.layer.Operations(kind)
}

// RevisionOf is part of Layer.
func (w *webhookLayer) RevisionOf(kind schema.GroupVersionKind) KindRevision {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[kind] = struct{}{}
	return KindRevision{
		Retention: w.layer.KindFingerprint(kind, configv1alpha1.InterpreterOperationRetain),
		Report:    w.layer.KindFingerprint(kind, configv1alpha1.InterpreterOperationInterpretStatus, configv1alpha1.InterpreterOperationInterpretHealth),
	}
}

// updateFound takes in a change, and returns the kinds of which other webhooks are asked.
func (w *webhookLayer) updateFound(change func(found map[string]configv1alpha1.ResourceInterpreterWebhookConfiguration)) (changed []schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.found)
	before := w.layer
	w.layer = webhook.NewWebhooks(slices.Collect(maps.Values(w.found)), w.calls)
	for kind := range w.asked {
		if !w.layer.SameForKind(before, kind) {
			changed = append(changed, kind)
		}
	}
	return changed
}

// webhookFollower takes in the configurations of a hub.
type webhookFollower struct {
	hub     *InterpreterHub
	refused func()
}

type configuration = configv1alpha1.ResourceInterpreterWebhookConfiguration

// Replace is part of watch.Handler.
func (f *webhookFollower) Replace(all []*configuration, _ string) {
	f.hub.updateWebhooks(func(found map[string]configuration) {
		clear(found)
		for _, c := range all {
			found[c.Name] = *c
		}
	})
}

// Update is part of watch.Handler.
func (f *webhookFollower) Update(c *configuration) {
	f.hub.updateWebhooks(func(found map[string]configuration) { found[c.Name] = *c })
}

// Delete is part of watch.Handler.
func (f *webhookFollower) Delete(c *configuration) {
	f.hub.updateWebhooks(func(found map[string]configuration) { delete(found, c.Name) })
}

// Bookmark is part of watch.Handler.
func (f *webhookFollower) Bookmark(string) {}

// Failed is part of watch.Handler. What is known stays, as with customizations.
func (f *webhookFollower) Failed(err error) {
	if watch.IsRefused(err) {
		f.refused()
	}
}

// updateWebhooks takes in a change of webhooks, nil if nothing changed, and tells the users of
// the hub.
func (h *InterpreterHub) updateWebhooks(change func(found map[string]configuration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.known && !h.heard
	h.heard = true
	var changed []schema.GroupVersionKind
	if change != nil {
		changed = h.webhooks.updateFound(change)
	}
	h.notifyUsers(first, changed)
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
