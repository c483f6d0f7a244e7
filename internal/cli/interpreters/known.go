// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters finds out who interprets the objects of a kind, as the hub
// does: customizations first, and then what comes with Capstan.
package interpreters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/interpret/users"
)

// Source is somebody who says what objects of a kind mean.
type Source struct {
	// Layer is customization, webhook, shipped or native.
	Layer string `json:"layer"`
	// Name is that of a customization, or of the configuration of a webhook.
	Name string `json:"name,omitempty"`
	// Operations are those of the kind that it answers.
	Operations []Operation `json:"operations"`
}

// String returns the source as people call it.
func (s Source) String() string {
	switch s.Layer {
	case users.LayerCustomization:
		return "ResourceInterpreterCustomization " + s.Name
	case users.LayerWebhook:
		return "ResourceInterpreterWebhookConfiguration " + s.Name
	}
	return "Capstan (" + s.Layer + ")"
}

// FormatSources says who answers what.
func FormatSources(all []Source) string {
	told := make([]string, 0, len(all))
	for _, s := range all {
		names := make([]string, 0, len(s.Operations))
		for _, o := range s.Operations {
			names = append(names, string(o))
		}
		told = append(told, fmt.Sprintf("%s: %s", s, strings.Join(names, ", ")))
	}
	return strings.Join(told, "; ")
}

// KnownInterpreters are all who say what objects mean, in the order in which they are asked.
type KnownInterpreters struct {
	// layers has one for each customization, since who says something has a name.
	layers []users.NamedLayer
	// chain asks all but webhooks: they are the hub's, which may reach where the user
	// does not, and are sent objects.
	chain interpret.Chain
}

// NewKnownInterpreters returns the customizations and, with what comes with Capstan, all others.
func NewKnownInterpreters(customizations []configv1alpha1.ResourceInterpreterCustomization, now func() time.Time, others bool) *KnownInterpreters {
	var builtin interpret.Chain
	if others {
		builtin = shipped.BuiltinChain()
	}
	return newInterpreters(customizations, nil, now, builtin)
}

func newInterpreters(customizations []configv1alpha1.ResourceInterpreterCustomization, webhooks []configv1alpha1.ResourceInterpreterWebhookConfiguration, now func() time.Time, builtin interpret.Chain) *KnownInterpreters {
	said := users.NewUserInterpreters(now, nil)
	said.SetInterpreters(customizations, nil)
	return &KnownInterpreters{layers: users.NamedLayers(customizations, webhooks, now, builtin), chain: said.Chain(builtin)}
}

// ReadInterpreters reads who says something on the hub. If the user may not, unread says so, as
// the object of "You may not read", and it does not count. A hub without the kinds
// has none.
func ReadInterpreters(ctx context.Context, c client.Client, now func() time.Time) (k *KnownInterpreters, unread string, err error) {
	all, err := Customizations(ctx, c)
	hidden := apierrors.IsForbidden(err)
	if err != nil && !hidden {
		return nil, "", err
	}
	webhooks, err := hub.ListAllPages(ctx, c, func(l *configv1alpha1.ResourceInterpreterWebhookConfigurationList) []configv1alpha1.ResourceInterpreterWebhookConfiguration {
		return l.Items
	})
	if err != nil && !apierrors.IsForbidden(err) && !isKindAbsent(err) {
		return nil, "", err
	}
	k = newInterpreters(all, webhooks, now, shipped.BuiltinChain())
	switch unseen := apierrors.IsForbidden(err); {
	case hidden && unseen:
		unread = "ResourceInterpreterCustomizations and ResourceInterpreterWebhookConfigurations"
	case hidden:
		unread = "ResourceInterpreterCustomizations"
	case unseen:
		unread = "ResourceInterpreterWebhookConfigurations"
	default:
		return k, "", nil
	}
	return k, unread + " (kinds are interpreted here as without them)", nil
}

// isKindAbsent reports whether the hub does not serve a kind.
func isKindAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// Customizations are those of the hub.
func Customizations(ctx context.Context, c client.Client) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
	all, err := hub.ListAllPages(ctx, c, func(l *configv1alpha1.ResourceInterpreterCustomizationList) []configv1alpha1.ResourceInterpreterCustomization {
		return l.Items
	})
	if isKindAbsent(err) {
		return nil, nil
	}
	return all, err
}

// Chain is what interprets objects.
func (k *KnownInterpreters) Chain() interpret.Chain { return k.chain }

// SourcesFor returns who answers the operations of a kind. What nobody answers follows from
// conventions of all kinds.
func (k *KnownInterpreters) SourcesFor(kind schema.GroupVersionKind) []Source {
	var all []Source
	taken := map[Operation]bool{}
	for _, l := range k.layers {
		known := l.Operations(kind)
		source := Source{Layer: l.By, Name: l.Name}
		for _, d := range operationDefinitions() {
			// What an object depends on all customizations say together.
			shared := d.operation == InterpretDependency && source.Layer == users.LayerCustomization
			if d.has(known) && (!taken[d.operation] || shared) {
				source.Operations = append(source.Operations, d.operation)
			}
		}
		for _, o := range source.Operations {
			taken[o] = true
		}
		if len(source.Operations) > 0 {
			all = append(all, source)
		}
	}
	return all
}

// answeringWebhook returns the configuration of the webhook that answers an operation of a
// kind on the hub, "" if it is none.
func (k *KnownInterpreters) answeringWebhook(o Operation, kind schema.GroupVersionKind) string {
	for _, source := range k.SourcesFor(kind) {
		if source.Layer == users.LayerWebhook && slices.Contains(source.Operations, o) {
			return source.Name
		}
	}
	return ""
}

// UnaskedNote says which of the operations webhooks answer on the hub, whom nobody asks
// here: what follows from the answers is told as without them. It is "" if there are
// none.
func (k *KnownInterpreters) UnaskedNote(kind schema.GroupVersionKind, operations ...Operation) string {
	var all []string
	for _, o := range operations {
		if name := k.answeringWebhook(o, kind); name != "" {
			all = append(all, fmt.Sprintf("%s (ResourceInterpreterWebhookConfiguration %s)", o, name))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("The hub asks a webhook for %s of %s, which is not asked here: this is as without it.", strings.Join(all, " and "), kind.Kind)
}
