// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"runtime/debug"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// ClusterName is the name of a ManagedCluster, and of its namespace on the hub.
type ClusterName string

// Connection is what a part needs to work for one cluster. Its fields do not
// change; new credentials that the clients cannot take over in place come as
// a new Connection. Use it by pointer only.
type Connection struct {
	// Name of the cluster on the hub.
	Name ClusterName
	// AgentID tells this agent from another one that works for the same member
	// or had its name before. The Klusterlet operator gives it.
	AgentID string
	// Identify returns the UID of the cluster's namespace kube-system, which tells
	// it from all others, or "" if the agent may not know it. It may ask the
	// cluster until it has an answer. Nil is for an agent that does not know.
	Identify func(ctx context.Context) (string, error)
	// Predecessor is the ID of the agent that worked for the cluster before, whose
	// place this one takes. Empty if there was none.
	Predecessor string
	// HubHost is the URL of the hub's API server: as in the hub kubeconfig, or as
	// that of the first agent that worked for the cluster.
	HubHost string
	// HubCA returns the certificates that verify the hub's server now, as PEM; none are
	// those of the system. Nil is for an agent whose hub the operator connects it to.
	HubCA func() []byte
	// Hub is the hub as the agent may see it. Its cache holds only what parts
	// ask for; ask only for what lies in the namespace of the cluster.
	Hub cluster.Cluster
	// Spoke is the cluster itself.
	Spoke cluster.Cluster
	// Home is where the agent's own secrets live. It has no cache.
	Home client.Client
	// Panicked is told of a panic in a function that Go runs, from its goroutine. Who made the connection
	// has to end it then. Nil lets a panic end the process, which is right for an agent of one cluster.
	Panicked func(value any, stack []byte)

	running sync.WaitGroup
}

// ReadIdentity calls Identify.
func (c *Connection) ReadIdentity(ctx context.Context) (string, error) {
	if c.Identify == nil {
		return "", nil
	}
	return c.Identify(ctx)
}

// Go runs a function that works for the connection and returns soon after the
// context of the connection ended. The Registry waits for it before it engages
// the next connection of the same cluster. Call it from Part.Engage, or from a
// function that Go runs.
func (c *Connection) Go(run func()) {
	if c.Panicked == nil {
		c.running.Go(run)
		return
	}
	c.running.Go(func() {
		defer func() {
			if value := recover(); value != nil { // what one cluster says must not end the work for all
				c.Panicked(value, debug.Stack())
			}
		}()
		run()
	})
}

// GoSynced is Go for a function that reads through a cache: it runs once the
// informer or its handler has been told of everything that there was, and not
// at all if ctx ends before.
func (c *Connection) GoSynced(ctx context.Context, run func(), synced toolscache.DoneChecker) {
	c.Go(func() {
		if AwaitSynced(ctx, synced) {
			run()
		}
	})
}

// AwaitSynced returns true as soon as the informers or handlers have been told of
// everything that there was, and false when ctx ended before. Caches start at
// the same time as the parts, so a read before that may fail.
func AwaitSynced(ctx context.Context, checkers ...toolscache.DoneChecker) bool {
	for _, checker := range checkers {
		select {
		case <-ctx.Done():
			return false
		case <-checker.Done():
		}
	}
	return ctx.Err() == nil
}

// Part is one thing that an agent does for a cluster.
type Part interface {
	// Name is unique among the parts of an agent, lower case, for logs and probes.
	Name() string
	// Engage starts the work for the connection and returns. The work ends when
	// ctx does, which is the life of the connection; use Connection.Go for what
	// runs on. After an error the Registry calls Engage again later; whatever
	// the failed call started has to end by itself or be reused.
	Engage(ctx context.Context, c *Connection) error
}
