// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"errors"
	"strings"
	"time"
)

// CustomOperations are operations that somebody else than Capstan says: by a script or by a
// webhook. Each can fail, and then nobody knows the answer: that of another layer
// would be one to a different question. An error is a *CustomError, whoever says it.
type CustomOperations struct {
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
	// Verdict reports whether the object does what it is for.
	Verdict func(object map[string]any) (string, error)
	// Aggregate returns the status of a template by what clusters report, which are
	// sorted by name; nil if it gets none.
	Aggregate func(template map[string]any, items []ClusterItem) (map[string]any, error)
	// Dependencies are the objects that the object needs beside it.
	Dependencies func(object map[string]any) ([]Dependency, error)
}

// WithFallback adds the operations that are missing.
func (c CustomOperations) WithFallback(other CustomOperations) CustomOperations {
	c.Replicas = firstPresent(c.Replicas, other.Replicas, c.Replicas != nil)
	c.Components = firstPresent(c.Components, other.Components, c.Components != nil)
	c.Revise = firstPresent(c.Revise, other.Revise, c.Revise != nil)
	c.Retain = firstPresent(c.Retain, other.Retain, c.Retain != nil)
	c.Reflect = firstPresent(c.Reflect, other.Reflect, c.Reflect != nil)
	c.Verdict = firstPresent(c.Verdict, other.Verdict, c.Verdict != nil)
	c.Aggregate = firstPresent(c.Aggregate, other.Aggregate, c.Aggregate != nil)
	c.Dependencies = firstPresent(c.Dependencies, other.Dependencies, c.Dependencies != nil)
	return c
}

// CustomError is why an operation of CustomOperations has no answer.
type CustomError struct {
	// By is who was asked, by kind and name.
	By string
	// Operation is what was asked for.
	Operation string
	Err       error
	// Remedy is what to do about it, as a sentence.
	Remedy string
	// Again is when to ask again, if there may be an answer then although nothing
	// has changed on the hub; or else 0.
	Again time.Duration
}

func (e *CustomError) Error() string { return e.By + ", " + e.Operation + ": " + e.Err.Error() }
func (e *CustomError) Unwrap() error { return e.Err }

// ErrorSentences returns an error of customizations as sentences: who was asked for what, what
// is wrong, and what to do about it.
func ErrorSentences(err error) string {
	several, is := err.(interface{ Unwrap() []error })
	if is {
		var texts []string
		for _, one := range several.Unwrap() {
			texts = append(texts, ErrorSentences(one))
		}
		return strings.Join(texts, " ")
	}
	text := strings.TrimSuffix(err.Error(), ".") + "."
	if custom := (*CustomError)(nil); errors.As(err, &custom) && custom.Remedy != "" {
		text += " " + custom.Remedy
	}
	return text
}

// RetryDelayOf returns when to ask again, if an error is one of customizations that may be
// over then although nothing has changed on the hub; or else 0. An error of several
// is over when the last one is.
func RetryDelayOf(err error) time.Duration {
	var again time.Duration
	if err == nil {
		return 0
	}
	if several, is := err.(interface{ Unwrap() []error }); is {
		for _, one := range several.Unwrap() {
			again = max(again, RetryDelayOf(one))
		}
		return again
	}
	if custom := (*CustomError)(nil); errors.As(err, &custom) {
		again = custom.Again
	}
	return again
}
