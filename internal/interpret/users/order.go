// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package users

import (
	"cmp"
	"slices"
	"time"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/interpret/webhook"
)

// The layers of interpretation, in the order in which they are asked.
const (
	LayerCustomization = "customization"
	LayerWebhook       = "webhook"
	LayerShipped       = "shipped"
	LayerNative        = "native"
)

// Chain returns all who interpret objects, the first one first: what users say goes before
// what is known without them, which is usually shipped.BuiltinChain.
func (u *UserInterpreters) Chain(builtin interpret.Chain) interpret.Chain {
	return append(interpret.Chain{u}, builtin...)
}

// NamedLayer is a layer of one who says something.
type NamedLayer struct {
	interpret.Layer
	// By is one of the layers of interpretation.
	By string
	// Name is that of a customization, or of the configuration of a webhook.
	Name string
}

// NamedLayers takes the Chain of UserInterpreters apart: each customization and each
// configuration is a layer of its own, in the order in which they are asked. No line is
// opened to webhooks: only what they answer is of interest.
func NamedLayers(customizations []configv1alpha1.ResourceInterpreterCustomization, configurations []configv1alpha1.ResourceInterpreterWebhookConfiguration, now func() time.Time, builtin interpret.Chain) []NamedLayer {
	var all []NamedLayer
	machine := lua.NewMachine(now)
	for _, c := range countingScripts(customizations) {
		all = append(all, NamedLayer{machine.NewLayer([]lua.Customization{c}), LayerCustomization, c.Name})
	}
	byName := func(a, b NamedLayer) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortStableFunc(all, byName)
	webhooks := len(all)
	for i := range configurations {
		all = append(all, NamedLayer{webhook.NewWebhooks(configurations[i:i+1], nil), LayerWebhook, configurations[i].Name})
	}
	slices.SortStableFunc(all[webhooks:], byName)
	for _, layer := range builtin {
		by := LayerNative
		if _, is := layer.(*shipped.ThirdPartyKinds); is {
			by = LayerShipped
		}
		all = append(all, NamedLayer{layer, by, ""})
	}
	return all
}
