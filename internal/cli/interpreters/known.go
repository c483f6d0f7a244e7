// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters knows who says what the objects of a kind mean, as the hub
// does: customizations first, and then what comes with Capstan.
package interpreters

import (
	"cmp"
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
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

// The layers of interpretation.
const (
	layerCustomization = "customization"
	layerShipped       = "shipped"
	layerNative        = "native"
)

// Source is somebody who says what objects of a kind mean.
type Source struct {
	// Layer is customization, shipped or native.
	Layer string `json:"layer"`
	// Name is that of a customization.
	Name string `json:"name,omitempty"`
	// Operations are those of the kind that it answers.
	Operations []Operation `json:"operations"`
}

// String returns the source as people call it.
func (s Source) String() string {
	if s.Layer == layerCustomization {
		return "ResourceInterpreterCustomization " + s.Name
	}
	return "Capstan (" + s.Layer + ")"
}

// Sources says who answers what.
func Sources(all []Source) string {
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

// layer is one that is asked, with how it is called.
type layer struct {
	source Source
	layer  interpret.Layer
}

// Known are all who say what objects mean, in the order in which they are asked.
type Known struct {
	// layers has one for each customization, since who says something has a name.
	layers []layer
	chain  interpret.Chain
}

// shippedWithCapstan are the layers that come with Capstan. All hubs have them.
func shippedWithCapstan() []layer {
	return []layer{
		{Source{Layer: layerShipped}, shipped.New()},
		{Source{Layer: layerNative}, native.New()},
	}
}

// Of returns the customizations and, with what comes with Capstan, all others.
func Of(customizations []configv1alpha1.ResourceInterpreterCustomization, now func() time.Time, others bool) *Known {
	k, machine := &Known{}, lua.New(now)
	all := make([]lua.Customization, 0, len(customizations))
	for i := range customizations {
		if !customizations[i].DeletionTimestamp.IsZero() {
			continue
		}
		c := customized.Of(&customizations[i])
		all = append(all, c)
		k.layers = append(k.layers, layer{Source{Layer: layerCustomization, Name: c.Name}, machine.Layer([]lua.Customization{c})})
	}
	slices.SortStableFunc(k.layers, func(a, b layer) int { return cmp.Compare(a.source.Name, b.source.Name) })
	k.chain = interpret.Chain{machine.Layer(all)}
	if others {
		for _, l := range shippedWithCapstan() {
			k.layers, k.chain = append(k.layers, l), append(k.chain, l.layer)
		}
	}
	return k
}

// Read reads the customizations of the hub. If the user may not, unread says so, as
// the object of "You may not read", and they do not count. A hub without the kind
// has none.
func Read(ctx context.Context, c client.Client, now func() time.Time) (k *Known, unread string, err error) {
	all, err := Customizations(ctx, c)
	if apierrors.IsForbidden(err) {
		return Of(nil, now, true), "ResourceInterpreterCustomizations (kinds are interpreted here as without them)", nil //nolint:contextcheck // scripts run later, and have a time limit of their own
	}
	if err != nil {
		return nil, "", err
	}
	return Of(all, now, true), "", nil //nolint:contextcheck // scripts run later, and have a time limit of their own
}

// Customizations are those of the hub.
func Customizations(ctx context.Context, c client.Client) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
	all, err := hub.List(ctx, c, func(l *configv1alpha1.ResourceInterpreterCustomizationList) []configv1alpha1.ResourceInterpreterCustomization {
		return l.Items
	})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	return all, err
}

// Chain is what interprets objects.
func (k *Known) Chain() interpret.Chain { return k.chain }

// By returns who answers the operations of a kind. What nobody answers follows from
// conventions of all kinds.
func (k *Known) By(kind schema.GroupVersionKind) []Source {
	var all []Source
	taken := map[Operation]bool{}
	for _, l := range k.layers {
		known, source := l.layer.Operations(kind), l.source
		for _, d := range definitions() {
			// What an object depends on all customizations say together.
			shared := d.operation == InterpretDependency && source.Layer == layerCustomization
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
