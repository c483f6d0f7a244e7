// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters has the customizations of kinds by the hub's users: by
// ResourceInterpreterCustomizations, or by webhooks that
// ResourceInterpreterWebhookConfigurations name. When they change for a kind, it has
// what is sent of that kind looked at again.
package interpreters

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/webhook"
)

// KnownInterpreters are customizations and webhooks, as a layer of a Chain: a webhook is asked for
// what no customization says. They have to be loaded before the chain is asked. It is
// safe for concurrent use.
type KnownInterpreters struct {
	reader client.Reader
	calls  *callout.Caller
	kinds  *customized.DynamicKinds

	mu     sync.RWMutex
	loaded bool
	// configured are the webhooks as they are configured, by the configuration.
	configured map[string][]configv1alpha1.ResourceInterpreterWebhook
	webhooks   *webhook.Webhooks
}

// NewKnownInterpreters returns what a cache has of customizations and webhooks. Services are read from
// live, and webhooks are called at the addresses that the guard lets be dialled.
func NewKnownInterpreters(reader, live client.Reader, now clock.PassiveClock, guard dial.AddressGuard) *KnownInterpreters {
	return &KnownInterpreters{
		reader: reader, kinds: customized.NewDynamicKinds(lua.NewMachine(now.Now)),
		calls: callout.NewCaller(callout.CallerOptions{Clock: now, Resolve: serviceResolver{live}.resolveService, Guard: &guard}),
	}
}

// Operations is part of interpret.Layer.
func (k *KnownInterpreters) Operations(kind schema.GroupVersionKind) interpret.Operations {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return interpret.Chain{k.kinds, k.webhooks}.Operations(kind)
}

// EnsureLoaded reads customizations and webhooks if that was not done yet. Nil knows none.
func (k *KnownInterpreters) EnsureLoaded(ctx context.Context) error {
	if k == nil {
		return nil
	}
	k.mu.RLock()
	loaded := k.loaded
	k.mu.RUnlock()
	if loaded {
		return nil
	}
	_, err := k.Refresh(ctx)
	return err
}

// KindChanges are kinds of which something else is said than before.
type KindChanges struct {
	scripts []schema.GroupVersionKind
	// before and after are the webhooks, if any of them has changed.
	before, after *webhook.Webhooks
	// all says that something else may be said of any kind.
	all bool
}

// IsEmpty reports whether everything is as before.
func (c KindChanges) IsEmpty() bool { return !c.all && len(c.scripts) == 0 && c.before == c.after }

// mergeChanges adds changes that were taken in later. Those may undo what objects were looked at
// with in between, so two at a time are rather too much than too little.
func (c KindChanges) mergeChanges(later KindChanges) KindChanges {
	switch {
	case later.IsEmpty():
		return c
	case c.IsEmpty():
		return later
	}
	return KindChanges{all: true}
}

// Has reports whether something else is said of a kind.
func (c KindChanges) Has(kind schema.GroupVersionKind) bool {
	return c.all || slices.Contains(c.scripts, kind) || !c.after.SameForKind(c.before, kind)
}

// Refresh reads customizations and webhooks, and returns the kinds of which they say
// something else than before.
func (k *KnownInterpreters) Refresh(ctx context.Context) (KindChanges, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	scripts := &configv1alpha1.ResourceInterpreterCustomizationList{}
	configurations := &configv1alpha1.ResourceInterpreterWebhookConfigurationList{}
	for _, list := range []client.ObjectList{scripts, configurations} {
		if err := k.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return KindChanges{}, fmt.Errorf("reading the interpreters of the hub: %w", err)
		}
	}
	var all []lua.Customization
	for i := range scripts.Items {
		if scripts.Items[i].DeletionTimestamp.IsZero() {
			all = append(all, customized.LuaCustomizationOf(&scripts.Items[i]))
		}
	}
	changes := KindChanges{
		scripts: k.kinds.SetCustomizations(all),
		before:  k.webhooks, after: k.webhooks,
	}
	configured := map[string][]configv1alpha1.ResourceInterpreterWebhook{}
	for i := range configurations.Items {
		if configurations.Items[i].DeletionTimestamp.IsZero() {
			configured[configurations.Items[i].Name] = configurations.Items[i].Webhooks
		}
	}
	if !reflect.DeepEqual(configured, k.configured) {
		k.webhooks = webhook.NewWebhooks(configurations.Items, k.calls)
		changes.after = k.webhooks
	}
	k.configured = configured
	k.loaded = true
	return changes, nil
}
