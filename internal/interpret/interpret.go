// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret/health"
)

// Operations are what is known of a kind. An operation that is nil is not known
// of it: who needs it asks for that, and does without.
//
// Objects are as they are decoded from JSON. No operation changes one, and none
// fails, however odd the object is.
type Operations struct {
	// Health judges an object by what its kind says beyond the conventions of
	// Chain.Health.
	Health func(object map[string]any) health.Health
	// Deletion judges an object that is being deleted.
	Deletion func(object map[string]any) health.Health
	// Values are the well-known values of the object, in their order.
	Values func(object map[string]any) []Value
	// Complete tells whether the object has done what it is for, with success or
	// without, and says so in a sentence. Only kinds that end have it.
	Complete func(object map[string]any) (done bool, message string)
}

// Value is a well-known value of an object; nil if the object does not have it.
type Value struct {
	Name  string
	Value any
}

// Layer knows some kinds.
type Layer interface {
	// Operations returns what the layer knows of a kind, which may be nothing.
	Operations(kind schema.GroupVersionKind) Operations
}

// Chain asks layers, the most particular one first. The empty chain knows
// nothing but the conventions of all kinds.
type Chain []Layer

// Operations returns what is known of a kind. Each operation is that of the
// first layer that has it.
func (c Chain) Operations(kind schema.GroupVersionKind) Operations {
	var known Operations
	for _, layer := range c {
		known = known.or(layer.Operations(kind))
	}
	return known
}

// or adds the operations that are missing.
func (o Operations) or(other Operations) Operations {
	if o.Health == nil {
		o.Health = other.Health
	}
	if o.Deletion == nil {
		o.Deletion = other.Deletion
	}
	if o.Values == nil {
		o.Values = other.Values
	}
	if o.Complete == nil {
		o.Complete = other.Complete
	}
	return o
}
