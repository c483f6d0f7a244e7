// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/agent/nodes"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:urls=/api;/apis,verbs=get

const (
	// settle is how long a change waits for further ones, and writePause the least
	// time from a report to one that tells of no other APIs.
	settle     = 500 * time.Millisecond
	writePause = 10 * time.Second
	// firstPatience is how long the first report waits to be complete.
	firstPatience = 5 * time.Second
	// discoverEvery is the time between two looks at the APIs of the member, and
	// discoverAgain after one that failed, or that came of a changed definition.
	discoverEvery = time.Minute
	discoverAgain = 5 * time.Second
	// readEvery is the time between two looks at what the hub has, so that what
	// somebody removed there comes back.
	readEvery = 15 * time.Minute
	// absentMin and absentMax bound the time until the next look at a hub that has
	// no ClusterConnection for us. It doubles.
	absentMin = time.Second
	absentMax = time.Hour
)

// InfoPart reports what each cluster is and has.
type InfoPart struct {
	// DiscoverEvery is the time between two looks at the APIs of the member, unless its
	// CustomResourceDefinitions change. Defaults to a minute.
	DiscoverEvery time.Duration
	// Failed is told of a report that failed; it is tried again. May be nil.
	Failed func(ctx context.Context, err error)
	// Clock defaults to the real one.
	Clock clock.Clock

	spacings fleet.KeptState[*reportThrottle]
}

// Name implements fleet.Part.
func (p *InfoPart) Name() string { return "clusterinfo" }

// Engage implements fleet.Part.
func (p *InfoPart) Engage(ctx context.Context, c *fleet.Connection) error {
	r := &infoReporter{connection: c, clock: p.Clock, pace: discoverySchedule{every: p.DiscoverEvery}}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	r.spacing = p.spacings.StateOf(ctx, r.clock, c.Name, newReportThrottle)
	if r.pace.every == 0 {
		r.pace.every = discoverEvery
	}
	r.firstBy = r.clock.Now().Add(firstPatience)
	var err error
	if r.apis, err = newAPIDiscovery(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient()); err != nil {
		return err
	}
	loop := fleet.NewLoop(r.reportInfo)
	r.kick = loop.Kick
	loop.Clock = r.clock
	loop.Failed = p.Failed
	loop.Settle = settle
	if r.nodes, err = c.Spoke.GetCache().GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching the nodes of cluster %q: %w", c.Name, err)
	}
	_, err = r.nodes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { loop.Kick() }, DeleteFunc: func(any) { loop.Kick() },
		UpdateFunc: func(before, after any) {
			b, _ := before.(*corev1.Node)
			a, _ := after.(*corev1.Node)
			if b == nil || a == nil || !nodes.EqualForSummary(b, a) {
				loop.Kick()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching the nodes of cluster %q: %w", c.Name, err)
	}
	clusters, err := c.Hub.GetCache().GetInformer(ctx, &clusterv1.ManagedCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	registration, err := clusters.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { loop.Kick() },
		UpdateFunc: func(before, after any) {
			if kubernetesVersionOf(before) != kubernetesVersionOf(after) {
				loop.Kick()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	c.GoSynced(ctx, func() { loop.Start(ctx) }, registration.HasSyncedChecker())
	return nil
}

// kubernetesVersionOf returns the version of Kubernetes that a ManagedCluster tells.
func kubernetesVersionOf(obj any) string {
	if mc, ok := obj.(*clusterv1.ManagedCluster); ok {
		return mc.Status.Version.Kubernetes
	}
	return ""
}
