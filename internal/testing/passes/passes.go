// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passes reports which objects the controllers of a manager have reconciled
// since a moment, so that a test that nothing happens can wait until it would have.
package passes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// begun is what controller-runtime logs when a pass begins, and over is how all of its
// messages begin when the pass has ended: successful, to be done again, or with an error.
// That of one to be done again after a time begins with requeued, which the time follows.
const (
	begun    = "Reconciling"
	over     = "Reconcile"
	requeued = "Reconcile done, requeueing after "
)

// Passes counts the passes of the controllers of one manager, by what controller-runtime
// logs about them. It is safe for concurrent use.
type Passes struct {
	mu    sync.Mutex
	began map[reconciledObject]int
	ended map[reconciledObject]int
	after map[reconciledObject]time.Duration // how long after its last pass an object is to be reconciled again
}

// reconciledObject is one that a controller reconciles.
type reconciledObject struct {
	controller string
	name       types.NamespacedName
}

// NewPasses returns a Passes of a manager that has not begun.
func NewPasses() *Passes {
	return &Passes{began: map[reconciledObject]int{}, ended: map[reconciledObject]int{}, after: map[reconciledObject]time.Duration{}}
}

// NewLogger returns the logger that the manager has to have. Nothing that it gets is
// printed.
func (p *Passes) NewLogger() logr.Logger { return logr.New(&sink{passes: p}) }

// MissingSince returns a function that returns those of the objects, of now on, that the
// controller has not reconciled in a pass which began after this call and has ended.
// An object is reconciled by one worker at a time, so passes end in their order.
func (p *Passes) MissingSince(controller string, names ...types.NamespacedName) (missing func() []types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := make(map[types.NamespacedName]int, len(names))
	for _, name := range names {
		before[name] = p.began[reconciledObject{controller, name}]
	}
	return func() []types.NamespacedName {
		p.mu.Lock()
		defer p.mu.Unlock()
		var missing []types.NamespacedName
		for _, name := range names {
			if p.ended[reconciledObject{controller, name}] <= before[name] {
				missing = append(missing, name)
			}
		}
		return missing
	}
}

// PutOff returns the objects, as CONTROLLER NAMESPACE/NAME, whose last pass has left something for another one
// that is to come within a time: a controller that spaces its writes has not made all of them yet.
func (p *Passes) PutOff(within time.Duration) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for of, after := range p.after {
		if after <= within {
			all = append(all, fmt.Sprintf("%s %s", of.controller, of.name))
		}
	}
	slices.Sort(all)
	return all
}

func (p *Passes) countPass(o reconciledObject, id, message string) {
	if o.controller == "" || o.name.Name == "" || id == "" {
		return // it is not about a pass
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case message == begun:
		p.began[o]++
	case strings.HasPrefix(message, over):
		p.ended[o]++
		delete(p.after, o)
		if wait, is := strings.CutPrefix(message, requeued); is {
			if after, err := time.ParseDuration(wait); err == nil {
				p.after[o] = after
			}
		}
	}
}

// sink is the logger of a manager, of a controller, or of a pass.
type sink struct {
	passes *Passes
	about  reconciledObject
	id     string // of the pass
}

// Init implements logr.LogSink.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(int) bool { return true }

// Info implements logr.LogSink.
func (s *sink) Info(_ int, message string, _ ...any) { s.passes.countPass(s.about, s.id, message) }

// Error implements logr.LogSink.
func (s *sink) Error(_ error, message string, _ ...any) { s.passes.countPass(s.about, s.id, message) }

// WithName implements logr.LogSink.
func (s *sink) WithName(string) logr.LogSink { return s }

// WithValues implements logr.LogSink.
func (s *sink) WithValues(pairs ...any) logr.LogSink {
	with := *s
	for i := 0; i+1 < len(pairs); i += 2 {
		value := fmt.Sprint(pairs[i+1])
		switch pairs[i] {
		case "controller":
			with.about.controller = value
		case "namespace":
			with.about.name.Namespace = value
		case "name":
			with.about.name.Name = value
		case "reconcileID":
			with.id = value
		}
	}
	return &with
}
