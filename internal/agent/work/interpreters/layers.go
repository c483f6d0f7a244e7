// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// Layer is a layer of a InterpreterChain that changes when users of the hub say something else.
type Layer interface {
	interpret.Layer
	// RevisionOf tells how often something else was said of a kind.
	RevisionOf(kind schema.GroupVersionKind) KindRevision
}

// KindRevision tells apart what users say of a kind from what they said before: a number
// changes when that does, and is 0 as long as they have never said anything.
type KindRevision struct {
	// Retention is of what of the objects is the cluster's.
	Retention uint64
	// Report is of what is reported of them.
	Report uint64
}

// InterpreterChain is what is known of what bindings send: what users of the hub say goes before
// what the agent knows itself. This is the one place where an agent puts layers
// together.
func (h *InterpreterHub) InterpreterChain(known interpret.Chain) interpret.Chain {
	var chain interpret.Chain
	for _, layer := range h.userLayers() {
		chain = append(chain, layer)
	}
	return append(chain, known...)
}

// userLayers are those of users, the first one first.
func (h *InterpreterHub) userLayers() []Layer {
	return []Layer{scriptLayer{h.customizations}, h.webhooks}
}

// RevisionOf sums up what the layers tell.
func (h *InterpreterHub) RevisionOf(kind schema.GroupVersionKind) (said KindRevision) {
	for _, layer := range h.userLayers() {
		of := layer.RevisionOf(kind)
		said.Retention += of.Retention
		said.Report += of.Report
	}
	return said
}

// scriptLayer is the layer of ResourceInterpreterCustomizations.
type scriptLayer struct{ *customized.DynamicKinds }

// RevisionOf is part of Layer.
func (s scriptLayer) RevisionOf(kind schema.GroupVersionKind) KindRevision {
	return KindRevision{
		Retention: s.ChangeRevision(kind, lua.Retention),
		Report:    s.ChangeRevision(kind, lua.StatusReflection, lua.HealthInterpretation),
	}
}
