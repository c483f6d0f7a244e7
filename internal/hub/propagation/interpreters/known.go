// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters reads the customizations of kinds by the hub's users: by
// ResourceInterpreterCustomizations, or by webhooks that
// ResourceInterpreterWebhookConfigurations name. When they change for a kind, it has
// what is sent of that kind looked at again.
package interpreters

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/interpret/users"
)

// KnownInterpreters are the customizations and webhooks of a hub. They have to be loaded
// before the chain is asked. It is safe for concurrent use.
type KnownInterpreters struct {
	reader client.Reader
	calls  *callout.Caller
	said   *users.UserInterpreters

	mu     sync.RWMutex
	loaded bool
}

// NewKnownInterpreters returns what a cache has of customizations and webhooks. Services are read from
// live, and webhooks are called at the addresses that the guard lets be dialled.
func NewKnownInterpreters(reader, live client.Reader, now clock.PassiveClock, guard dial.AddressGuard) *KnownInterpreters {
	calls := callout.NewCaller(callout.CallerOptions{Clock: now, Resolve: serviceResolver{live}.resolveService, Guard: &guard})
	return &KnownInterpreters{reader: reader, calls: calls, said: users.NewUserInterpreters(now.Now, calls)}
}

// Chain is what interprets objects on the hub.
func (k *KnownInterpreters) Chain() interpret.Chain { return k.said.Chain(shipped.BuiltinChain()) }

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

// Refresh reads customizations and webhooks, and returns the kinds of which they say
// something else than before.
func (k *KnownInterpreters) Refresh(ctx context.Context) (users.KindChanges, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	scripts := &configv1alpha1.ResourceInterpreterCustomizationList{}
	configurations := &configv1alpha1.ResourceInterpreterWebhookConfigurationList{}
	for _, list := range []client.ObjectList{scripts, configurations} {
		if err := k.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return users.KindChanges{}, fmt.Errorf("reading the interpreters of the hub: %w", err)
		}
	}
	k.loaded = true
	return k.said.SetInterpreters(scripts.Items, configurations.Items), nil
}
