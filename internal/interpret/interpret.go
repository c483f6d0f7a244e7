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
// but those of CustomOperations fails, however odd the object is.
type Operations struct {
	// Health judges an object by what its kind says beyond the conventions of
	// Chain.AssessHealth.
	Health func(object map[string]any) health.Health
	// Deletion judges an object that is being deleted.
	Deletion func(object map[string]any) health.Health
	// Values are the well-known values of the object, in their order.
	Values func(object map[string]any) []WellKnownValue
	// Complete reports whether the object has done what it is for, with success or
	// without, and says so in a sentence. Only kinds that end have it.
	Complete func(object map[string]any) (done bool, message string)

	// Replicas returns how many pods the object asks for and what each needs, nil
	// if that is nothing. Only kinds that have replicas have it.
	Replicas func(object map[string]any) (replicas int32, needs *Requirements)
	// Components returns the parts of the object that have pods of their own, in
	// the order of the object. Only kinds with several pod templates have it.
	Components func(object map[string]any) []Component
	// Revise returns the object with another number of pods. What it returns shares
	// with the object what is the same, as with the three operations that follow.
	Revise func(object map[string]any, replicas int32) map[string]any
	// Completions returns how many pods have to succeed in all, if that is set.
	Completions func(object map[string]any) (completions int32, has bool)
	// ReviseCompletions returns the object with another such number.
	ReviseCompletions func(object map[string]any, completions int32) map[string]any
	// Indexed reports whether each pod that has to succeed has an index of its own, from 0
	// on. Only kinds with GetCompletions have it.
	Indexed func(object map[string]any) bool
	// Prune returns the object without what its kind has of the cluster where the
	// object is. What all kinds have is taken out after it: it may read managedFields.
	Prune func(object map[string]any) map[string]any
	// Reflect returns what of the status is reported, nil if that is nothing. Of
	// kinds that do not have it, it is all of the status.
	Reflect func(object map[string]any) map[string]any
	// Verdict reports whether the object does what it is for: Healthy, Unhealthy or
	// Unknown.
	Verdict func(object map[string]any) string
	// Aggregate returns the status of a template by what clusters report, which are
	// sorted by name; nil if it gets none. Of kinds that do not have it, statuses
	// of the usual shape are aggregated.
	Aggregate func(template map[string]any, items []ClusterItem) map[string]any
	// Dependencies are the objects that the object needs beside it.
	Dependencies func(object map[string]any) []Dependency
	// Retained are the paths of fields that are the cluster's once the object
	// exists there.
	Retained func(manifest map[string]any) [][]string

	// Custom are the operations of somebody else. They go before all others.
	Custom CustomOperations
}

// WellKnownValue is a well-known value of an object; nil if the object does not have it.
type WellKnownValue struct {
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
		known = known.withFallback(layer.Operations(kind))
	}
	return known
}

// withFallback adds the operations that are missing.
func (o Operations) withFallback(other Operations) Operations {
	o.Health = firstPresent(o.Health, other.Health, o.Health != nil)
	o.Deletion = firstPresent(o.Deletion, other.Deletion, o.Deletion != nil)
	o.Values = firstPresent(o.Values, other.Values, o.Values != nil)
	o.Complete = firstPresent(o.Complete, other.Complete, o.Complete != nil)
	o.Replicas = firstPresent(o.Replicas, other.Replicas, o.Replicas != nil)
	o.Components = firstPresent(o.Components, other.Components, o.Components != nil)
	o.Revise = firstPresent(o.Revise, other.Revise, o.Revise != nil)
	o.Completions = firstPresent(o.Completions, other.Completions, o.Completions != nil)
	o.ReviseCompletions = firstPresent(o.ReviseCompletions, other.ReviseCompletions, o.ReviseCompletions != nil)
	o.Indexed = firstPresent(o.Indexed, other.Indexed, o.Indexed != nil)
	o.Prune = firstPresent(o.Prune, other.Prune, o.Prune != nil)
	o.Reflect = firstPresent(o.Reflect, other.Reflect, o.Reflect != nil)
	o.Verdict = firstPresent(o.Verdict, other.Verdict, o.Verdict != nil)
	o.Aggregate = firstPresent(o.Aggregate, other.Aggregate, o.Aggregate != nil)
	o.Dependencies = firstPresent(o.Dependencies, other.Dependencies, o.Dependencies != nil)
	o.Retained = firstPresent(o.Retained, other.Retained, o.Retained != nil)
	o.Custom = o.Custom.WithFallback(other.Custom)
	return o
}

// firstPresent returns the first of two if it is there; functions cannot be compared.
func firstPresent[F any](a, b F, there bool) F {
	if there {
		return a
	}
	return b
}
