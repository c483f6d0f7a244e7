// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch

const (
	// definitionSettle is how long the API server gets to serve a kind that was defined.
	definitionSettle = time.Second
	// promptPause is the least time between two looks at the APIs because of changed
	// definitions, and between two reports of other APIs: a member cannot have the hub
	// written to at every change, and a new kind is told in less than ten seconds.
	promptPause = 5 * time.Second
)

// definitionChanges follows whether CustomResourceDefinitions of the member change, by their
// metadata. It keeps none of them. It is a watch.Handler.
type definitionChanges struct {
	kick func()
	stop context.CancelFunc
	// changed says that some have changed since takeChanged was called.
	changed atomic.Bool
	// refused says that the member does not let the agent watch: then the APIs are looked
	// at from time to time only.
	refused atomic.Bool
}

// followDefinitions follows the CustomResourceDefinitions until it is stopped, refused, or
// ctx ends.
func followDefinitions(ctx context.Context, c *fleet.Connection, clk clock.Clock, kick func()) (*definitionChanges, error) {
	reader, err := metadata.NewForConfigAndClient(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for the CustomResourceDefinitions of cluster %q: %w", c.Name, err)
	}
	f := &definitionChanges{kick: kick}
	ctx, f.stop = context.WithCancel(ctx)
	follower := watch.Watch[*metav1.PartialObjectMetadata]{
		Source:  watch.IdentitySource(reader, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), watch.ObjectSelector{}),
		Handler: f, Clock: clk,
	}
	c.Go(func() { follower.RunReflector(dial.ReducedContext(ctx)) })
	return f, nil
}

// takeChanged reports whether some have changed since it was called last.
func (f *definitionChanges) takeChanged() bool { return f != nil && f.changed.Swap(false) }

func (f *definitionChanges) markChanged() {
	if !f.changed.Swap(true) {
		f.kick()
	}
}

// Replace implements watch.Handler.
func (f *definitionChanges) Replace([]*metav1.PartialObjectMetadata, string) { f.markChanged() }

// Update implements watch.Handler.
func (f *definitionChanges) Update(*metav1.PartialObjectMetadata) { f.markChanged() }

// Delete implements watch.Handler.
func (f *definitionChanges) Delete(*metav1.PartialObjectMetadata) { f.markChanged() }

// Bookmark implements watch.Handler.
func (f *definitionChanges) Bookmark(string) {}

// Failed implements watch.Handler.
func (f *definitionChanges) Failed(err error) {
	if watch.IsRefused(err) {
		f.refused.Store(true)
		f.stop()
	}
}

// discoverySchedule says when to look at the APIs of the member. It is pure.
type discoverySchedule struct {
	// every is the time between regular looks, and next when the next one is due.
	every time.Duration
	next  time.Time
	// promptAt is when to look because definitions have changed, zero if they have not.
	promptAt time.Time
	// prompted is when that was done last.
	prompted time.Time
}

// scheduleAfterChange says that definitions have changed.
func (p *discoverySchedule) scheduleAfterChange(now time.Time) {
	if !p.promptAt.IsZero() {
		return
	}
	p.promptAt = now.Add(definitionSettle)
	if earliest := p.prompted.Add(promptPause); p.promptAt.Before(earliest) {
		p.promptAt = earliest
	}
}

// nextDiscovery returns when to look next.
func (p *discoverySchedule) nextDiscovery() time.Time {
	if !p.promptAt.IsZero() && p.promptAt.Before(p.next) {
		return p.promptAt
	}
	return p.next
}

// scheduleNextDiscovery says that the APIs were looked at. If that is worth another look soon, as it failed
// or the API server may be behind with what was defined, that is the next one.
func (p *discoverySchedule) scheduleNextDiscovery(now time.Time, again bool) {
	prompted := !p.promptAt.IsZero() && !now.Before(p.promptAt)
	p.next = now.Add(p.every)
	if again || prompted {
		p.next = now.Add(min(p.every, discoverAgain))
	}
	if prompted {
		p.promptAt = time.Time{}
		p.prompted = now
	}
}
