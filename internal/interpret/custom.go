// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

// Custom are operations that somebody else than Capstan says: by a script or by a
// webhook. Each can fail, and then nobody knows the answer: that of another layer
// would be one to a different question. An error says what was asked for, where
// the script or the webhook is, and what is wrong.
type Custom struct {
	// Replicas returns how many pods the object asks for and what each needs, nil
	// if that is nothing.
	Replicas func(object map[string]any) (replicas int32, needs *Requirements, err error)
	// Components are the parts of the object with pods of their own.
	Components func(object map[string]any) ([]Component, error)
	// Revise returns the object with another number of pods.
	Revise func(object map[string]any, replicas int32) (map[string]any, error)
	// Retain returns what to apply of an object, by the one that is in the cluster.
	Retain func(desired, observed map[string]any) (map[string]any, error)
	// Reflect returns what of the status is reported, nil if that is nothing.
	Reflect func(object map[string]any) (map[string]any, error)
	// Verdict tells whether the object does what it is for.
	Verdict func(object map[string]any) (string, error)
	// Aggregate returns the status of a template by what clusters report, which are
	// sorted by name; nil if it gets none.
	Aggregate func(template map[string]any, items []Item) (map[string]any, error)
	// Dependencies are the objects that the object needs beside it.
	Dependencies func(object map[string]any) ([]Dependency, error)
}

// Or adds the operations that are missing.
func (c Custom) Or(other Custom) Custom {
	c.Replicas = first(c.Replicas, other.Replicas, c.Replicas != nil)
	c.Components = first(c.Components, other.Components, c.Components != nil)
	c.Revise = first(c.Revise, other.Revise, c.Revise != nil)
	c.Retain = first(c.Retain, other.Retain, c.Retain != nil)
	c.Reflect = first(c.Reflect, other.Reflect, c.Reflect != nil)
	c.Verdict = first(c.Verdict, other.Verdict, c.Verdict != nil)
	c.Aggregate = first(c.Aggregate, other.Aggregate, c.Aggregate != nil)
	c.Dependencies = first(c.Dependencies, other.Dependencies, c.Dependencies != nil)
	return c
}
