// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

// How long the Registry waits before it tries to engage a part again. The
// time doubles from the first to the last.
const (
	RetryAfterMin = 20 * time.Millisecond
	RetryAfterMax = time.Minute
)

// RegistryOptions of a Registry.
type RegistryOptions struct {
	// Parts to engage for each connection. Their names differ.
	Parts []Part
	// Owns says whether this process works for a cluster, for agents that share
	// a fleet. Defaults to all clusters.
	Owns func(ClusterName) bool
	// Failed is told of a part or a cache that failed. It has to return soon. A
	// part is tried again. Defaults to telling nobody; CheckEngaged tells it too.
	Failed func(ctx context.Context, name ClusterName, what string, err error)
	// Clock defaults to the real one.
	Clock clock.Clock
}

// Registry holds the connections of this process and engages the parts for
// each. It is safe for concurrent use.
type Registry struct {
	options RegistryOptions

	mu      sync.Mutex
	closed  bool
	engaged map[ClusterName]*engagement
}

// engagement is a connection and the state of its parts.
type engagement struct {
	connection *Connection
	cancel     context.CancelFunc

	mu     sync.Mutex
	failed map[string]error // by part; a part that has not engaged yet has errNotYet
}

var errNotYet = errors.New("has not started yet")

// ErrNotOwned says that another process works for the cluster.
var ErrNotOwned = errors.New("another replica of the agent serves this cluster")

// NewRegistry returns a Registry without connections.
func NewRegistry(options RegistryOptions) *Registry {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Owns == nil {
		options.Owns = func(ClusterName) bool { return true }
	}
	if options.Failed == nil {
		options.Failed = func(context.Context, ClusterName, string, error) {}
	}
	return &Registry{options: options, engaged: map[ClusterName]*engagement{}}
}

// Owns reports whether this process works for the cluster.
func (r *Registry) Owns(name ClusterName) bool { return r.options.Owns(name) }

// Engage starts the caches of the connection and engages all parts for it,
// until ctx ends or the cluster is disengaged. A connection that is engaged
// for the same cluster is ended first, and waited for. Engage does not wait
// for the parts; those that fail are tried again.
func (r *Registry) Engage(ctx context.Context, c *Connection) error {
	if !r.Owns(c.Name) {
		return fmt.Errorf("engaging cluster %q: %w", c.Name, ErrNotOwned)
	}
	r.Disengage(c.Name)
	ctx, cancel := context.WithCancel(ctx)
	e := &engagement{connection: c, cancel: cancel, failed: map[string]error{}}
	for _, part := range r.options.Parts {
		e.failed[part.Name()] = errNotYet
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.engaged[c.Name]; taken || r.closed {
		cancel()
		return fmt.Errorf("engaging cluster %q: the agent is stopping or has already engaged it", c.Name)
	}
	r.engaged[c.Name] = e
	r.startCache(ctx, e, "hub cache", c.Hub)
	r.startCache(ctx, e, "spoke cache", c.Spoke)
	for _, part := range r.options.Parts {
		c.Go(func() { r.engagePart(ctx, e, part) })
	}
	return nil
}

// Disengage ends the connection of a cluster and returns when everything that
// was started by Connection.Go and the caches have ended.
func (r *Registry) Disengage(name ClusterName) {
	r.mu.Lock()
	e, found := r.engaged[name]
	delete(r.engaged, name)
	r.mu.Unlock()
	if found {
		e.cancel()
		e.connection.running.Wait()
	}
}

// Close disengages all clusters and refuses new ones.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for _, name := range r.EngagedClusters() {
		r.Disengage(name)
	}
}

// EngagedClusters returns the sorted names of the clusters that are engaged.
func (r *Registry) EngagedClusters() []ClusterName {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]ClusterName, 0, len(r.engaged))
	for name := range r.engaged {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckEngaged returns nil if all parts of a cluster are engaged, and otherwise what
// holds them up. A cluster that is not engaged is an error.
func (r *Registry) CheckEngaged(name ClusterName) error {
	r.mu.Lock()
	e, found := r.engaged[name]
	r.mu.Unlock()
	if !found {
		return fmt.Errorf("cluster %q is not connected", name)
	}
	return e.checkParts(name)
}

func (e *engagement) checkParts(name ClusterName) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	parts := make([]string, 0, len(e.failed))
	for part := range e.failed {
		parts = append(parts, part)
	}
	slices.Sort(parts)
	var errs []error
	for _, part := range parts {
		errs = append(errs, fmt.Errorf("cluster %q: %s: %w", name, part, e.failed[part]))
	}
	return errors.Join(errs...)
}

func (e *engagement) setFailure(what string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		delete(e.failed, what)
		return
	}
	e.failed[what] = err
}

// startCache runs the cache of one side. Caches end without an error, unless they
// were started before.
func (r *Registry) startCache(ctx context.Context, e *engagement, what string, side cluster.Cluster) {
	if side == nil {
		return
	}
	e.connection.Go(func() {
		if err := side.Start(ctx); err != nil && ctx.Err() == nil {
			e.setFailure(what, err)
			r.options.Failed(ctx, e.connection.Name, what, err)
		}
	})
}

// engagePart engages one part, again and again until it succeeds.
func (r *Registry) engagePart(ctx context.Context, e *engagement, part Part) {
	retry := backoff.ExponentialBetween(RetryAfterMin, RetryAfterMax)
	for {
		err := part.Engage(ctx, e.connection)
		if ctx.Err() != nil {
			return
		}
		e.setFailure(part.Name(), err)
		if err == nil {
			return
		}
		r.options.Failed(ctx, e.connection.Name, part.Name(), err)
		if !backoff.SleepContext(ctx, r.options.Clock, retry.Step()) {
			return
		}
	}
}
