// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=clusterclaims,verbs=get;list;watch
// +kubebuilder:rbac:urls=/livez;/healthz;/version,verbs=get

const (
	// settle is how long a change on the member waits for further ones.
	settle = 50 * time.Millisecond
	// syncPatience is how long the first report waits for the member's caches.
	syncPatience = 2 * time.Second
	syncPoll     = 2 * time.Millisecond
)

// StatusPart reports the status of each cluster.
type StatusPart struct {
	// Claims reports ClusterClaims, by ClaimRules.
	Claims     bool
	ClaimRules ClaimRules
	// Properties reports ClusterProperties among the claims (feature gate
	// ClusterProperty).
	Properties bool
	// Rotation returns the condition ClusterCertificateRotated, or nil if there
	// is nothing to say. May be nil.
	Rotation func() *metav1.Condition
	// Failed is told of a report that failed; it is tried again. May be nil.
	Failed func(ctx context.Context, err error)
	// Clock defaults to the real one.
	Clock clock.Clock

	kicks    fleet.Kicks
	spacings fleet.KeptState[*reportThrottle]
}

// Name implements fleet.Part.
func (p *StatusPart) Name() string { return "clusterstatus" }

// Kick makes the part look at Rotation again.
func (p *StatusPart) Kick() { p.kicks.KickAll() }

// Engage implements fleet.Part.
func (p *StatusPart) Engage(ctx context.Context, c *fleet.Connection) error {
	clk := p.Clock
	if clk == nil {
		clk = clock.RealClock{}
	}
	server, err := newAPIServer(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient())
	if err != nil {
		return err
	}
	s := &statusReporter{part: p, connection: c, clock: clk, server: server}
	s.spacing = p.spacings.StateOf(ctx, clk, c.Name, newReportThrottle)
	loop := fleet.NewLoop(s.reportStatus)
	loop.Clock = clk
	loop.Failed = p.Failed
	loop.Settle = settle
	kick := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { loop.Kick() }, UpdateFunc: func(any, any) { loop.Kick() }, DeleteFunc: func(any) { loop.Kick() },
	}
	if _, s.cluster, err = addInformerHandler(ctx, c.Hub.GetCache(), &clusterv1.ManagedCluster{}, kick); err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	if s.nodes, _, err = addInformerHandler(ctx, c.Spoke.GetCache(), &corev1.Node{}, kick); err != nil {
		return fmt.Errorf("watching the nodes of cluster %q: %w", c.Name, err)
	}
	if p.Claims {
		s.facts = append(s.facts, &factSource{kind: &clusterv1alpha1.ClusterClaim{}, list: &clusterv1alpha1.ClusterClaimList{}})
	}
	if p.Claims && p.Properties {
		s.facts = append(s.facts, &factSource{kind: &aboutv1alpha1.ClusterProperty{}, list: &aboutv1alpha1.ClusterPropertyList{}})
	}
	s.watchFacts = func(f *factSource) error {
		f.informer, _, err = addInformerHandler(ctx, c.Spoke.GetCache(), f.kind, kick)
		return err
	}
	p.kicks.AddLoop(ctx, loop)
	c.Go(func() { loop.Start(ctx) })
	return nil
}

// addInformerHandler adds the handler to the informer for the type, and does not wait for
// it to be in sync.
func addInformerHandler(
	ctx context.Context, from cache.Cache, obj client.Object, handler toolscache.ResourceEventHandler,
) (cache.Informer, toolscache.ResourceEventHandlerRegistration, error) {
	informer, err := from.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, err
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, nil, err
	}
	return informer, registration, nil
}
