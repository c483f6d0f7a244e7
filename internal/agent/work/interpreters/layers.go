// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// Layer is a layer of a Chain that changes when users of the hub say something else.
type Layer interface {
	interpret.Layer
	// Said tells how often something else was said of a kind.
	Said(kind schema.GroupVersionKind) Said
}

// Said tells apart what users say of a kind from what they said before: a number
// changes when that does, and is 0 as long as they have never said anything.
type Said struct {
	// Retention is of what of the objects is the cluster's.
	Retention uint64
	// Report is of what is reported of them.
	Report uint64
}

// Chain is what is known of what bindings send: what users of the hub say goes before
// what the agent knows itself. This is the one place where an agent puts layers
// together.
func (h *Hub) Chain(known interpret.Chain) interpret.Chain {
	var chain interpret.Chain
	for _, layer := range h.layers() {
		chain = append(chain, layer)
	}
	return append(chain, known...)
}

// layers are those of users, the first one first.
func (h *Hub) layers() []Layer { return []Layer{scripts{h.customizations}, h.webhooks} }

// Said sums up what the layers tell.
func (h *Hub) Said(kind schema.GroupVersionKind) (said Said) {
	for _, layer := range h.layers() {
		of := layer.Said(kind)
		said.Retention += of.Retention
		said.Report += of.Report
	}
	return said
}

// scripts is the layer of ResourceInterpreterCustomizations.
type scripts struct{ *customized.Kinds }

// Said is part of Layer.
func (s scripts) Said(kind schema.GroupVersionKind) Said {
	return Said{
		Retention: s.Changes(kind, lua.Retention),
		Report:    s.Changes(kind, lua.StatusReflection, lua.HealthInterpretation),
	}
}
