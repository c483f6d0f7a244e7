// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters knows the ResourceInterpreterCustomizations of the hub, and
// has what is sent of a kind looked at when what they say of it changes.
package interpreters

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// Known are the customizations, as a layer of a Chain. They have to be loaded before
// the chain is asked. It is safe for concurrent use.
type Known struct {
	reader  client.Reader
	machine *lua.Machine

	mu     sync.Mutex
	loaded bool
	// said is what is said of each kind, by the names of customizations.
	said  map[schema.GroupVersionKind][]lua.Customization
	layer *lua.Kinds
}

// New returns the customizations that a cache has.
func New(reader client.Reader, now clock.PassiveClock) *Known {
	return &Known{reader: reader, machine: lua.New(now.Now)}
}

// Operations is part of interpret.Layer.
func (k *Known) Operations(kind schema.GroupVersionKind) interpret.Operations {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.layer == nil {
		return interpret.Operations{}
	}
	return k.layer.Operations(kind)
}

// Load reads the customizations if that was not done yet. Nil knows none.
func (k *Known) Load(ctx context.Context) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	loaded := k.loaded
	k.mu.Unlock()
	if loaded {
		return nil
	}
	_, err := k.Refresh(ctx)
	return err
}

// Refresh reads the customizations, and returns the kinds of which they say
// something else than before.
func (k *Known) Refresh(ctx context.Context) ([]schema.GroupVersionKind, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := &configv1alpha1.ResourceInterpreterCustomizationList{}
	if err := k.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading the ResourceInterpreterCustomizations of the hub: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b configv1alpha1.ResourceInterpreterCustomization) int { return strings.Compare(a.Name, b.Name) })
	said := map[schema.GroupVersionKind][]lua.Customization{}
	var all []lua.Customization
	for i := range list.Items {
		if !list.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		c := customized.Of(&list.Items[i])
		said[c.Kind] = append(said[c.Kind], c)
		all = append(all, c)
	}
	var changed []schema.GroupVersionKind
	for kind := range said {
		if !reflect.DeepEqual(said[kind], k.said[kind]) {
			changed = append(changed, kind)
		}
	}
	for kind := range k.said {
		if said[kind] == nil {
			changed = append(changed, kind)
		}
	}
	if len(changed) > 0 {
		k.layer = k.machine.Layer(all) //nolint:contextcheck // it is called later, without one, and has a time limit of its own
	}
	k.said, k.loaded = said, true
	return changed, nil
}
