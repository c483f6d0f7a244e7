// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taskgroup runs functions at the same time as errgroup does, and brings a panic of one of them to
// whoever waits for them: there it can be contained, while in a goroutine of its own it ends the process.
//
// It contains no panic itself.
package taskgroup

import (
	"context"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"
)

// PanicGroup is a group of functions that run at the same time. Do not use the zero value.
type PanicGroup struct {
	group *errgroup.Group

	mu       sync.Mutex
	panicked error
}

// NewLimitedGroup returns a group of which so many functions run at a time.
func NewLimitedGroup(limit int) *PanicGroup {
	g := &PanicGroup{group: &errgroup.Group{}}
	g.group.SetLimit(limit)
	return g
}

// WithContext returns a group without a limit, and a context that ends with the first error or panic, or
// when Wait returns.
func WithContext(ctx context.Context) (*PanicGroup, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	return &PanicGroup{group: group}, ctx
}

// Go runs a function, once there is room for it.
func (g *PanicGroup) Go(run func() error) {
	g.group.Go(func() (err error) {
		defer func() {
			if value := recover(); value != nil {
				message, stack := DescribePanic(value, debug.Stack())
				err = &panicError{message: message, stack: stack}
				g.mu.Lock()
				defer g.mu.Unlock()
				g.panicked = err
			}
		}()
		return run()
	})
}

// Wait returns the first error once all functions have returned. It panics if one of them did, with an
// error that has the stack of that; DescribePanic tells them apart.
func (g *PanicGroup) Wait() error {
	err := g.group.Wait()
	if g.panicked != nil {
		panic(g.panicked)
	}
	return err
}
