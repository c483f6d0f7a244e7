// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeat reports to the hub that the agent is alive: it renews the
// Lease managed-cluster-lease in the cluster's namespace, with one request each
// time. It stops when the ManagedCluster is gone, as the connection ends then.
package heartbeat

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

const (
	// durationDefault is spec.leaseDurationSeconds of a ManagedCluster whose is
	// not known.
	durationDefault = 60 * time.Second
	// jitter is the share of the duration that is added by chance, so that the
	// agents of a fleet do not beat together.
	jitter = 0.1
)

// LeasePart renews the lease of each cluster.
type LeasePart struct {
	// Clock defaults to the real one.
	Clock clock.Clock
	// Failed is told of a heartbeat that failed; it is tried again. May be nil.
	Failed func(ctx context.Context, err error)
}

// Name implements fleet.Part.
func (p *LeasePart) Name() string { return "heartbeat" }

// Engage implements fleet.Part.
func (p *LeasePart) Engage(ctx context.Context, c *fleet.Connection) error {
	heart := newLeaseRenewer(c, p.Clock)
	loop := fleet.NewLoop(heart.renewLease)
	loop.Failed = p.Failed
	if p.Clock != nil {
		loop.Clock = p.Clock
	}
	informer, err := c.Hub.GetCache().GetInformer(ctx, &clusterv1.ManagedCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	see := func(obj any) {
		if every := heartbeatInterval(obj); heart.every.Swap(int64(every)) != int64(every) {
			loop.Kick()
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, after any) { see(after) }}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	c.Go(func() { loop.Start(ctx) })
	return nil
}

// leaseRenewer beats for one cluster.
type leaseRenewer struct {
	cluster string
	reader  client.Reader // not cached
	client  client.Client
	clock   clock.Clock
	lease   *coordinationv1.Lease // as the hub has it after the last beat
	// every is the time between two beats in nanoseconds. It is not worth
	// waiting for: the first beat comes before the ManagedCluster is known.
	every atomic.Int64
}

func newLeaseRenewer(c *fleet.Connection, clk clock.Clock) *leaseRenewer {
	if clk == nil {
		clk = clock.RealClock{}
	}
	h := &leaseRenewer{cluster: string(c.Name), reader: c.Hub.GetAPIReader(), client: c.Hub.GetClient(), clock: clk}
	h.every.Store(int64(durationDefault))
	return h
}

// renewLease renews the lease and returns when to do it again. The lease is read
// only the first time, and after somebody else changed it.
func (h *leaseRenewer) renewLease(ctx context.Context) (time.Duration, error) {
	if h.lease == nil {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: h.cluster, Name: clusterv1.LeaseName}
		if err := h.reader.Get(ctx, key, lease); err != nil {
			return 0, fmt.Errorf("reading the lease %s: %w", key, err)
		}
		h.lease = lease
	}
	renewed := h.lease.DeepCopy()
	renewed.Spec.RenewTime = &metav1.MicroTime{Time: h.clock.Now()}
	h.lease = nil // read it again after an error
	if err := h.client.Update(ctx, renewed); err != nil {
		if apierrors.IsConflict(err) {
			return time.Millisecond, nil // somebody else wrote: read it and try again
		}
		return 0, fmt.Errorf("renewing the lease %s/%s: %w", renewed.Namespace, renewed.Name, err)
	}
	h.lease = renewed
	return wait.Jitter(time.Duration(h.every.Load()), jitter), nil
}

// heartbeatInterval returns the time between two heartbeats of a cluster.
func heartbeatInterval(obj any) time.Duration {
	mc, ok := obj.(*clusterv1.ManagedCluster)
	if !ok || mc.Spec.LeaseDurationSeconds <= 0 {
		return durationDefault
	}
	return time.Duration(mc.Spec.LeaseDurationSeconds) * time.Second
}
