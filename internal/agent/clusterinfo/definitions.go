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

// definitions follows whether CustomResourceDefinitions of the member change, by their
// metadata. It keeps none of them. It is a watch.Handler.
type definitions struct {
	kick func()
	stop context.CancelFunc
	// changed says that some have changed since take was called.
	changed atomic.Bool
	// refused says that the member does not let the agent watch: then the APIs are looked
	// at from time to time only.
	refused atomic.Bool
}

// followDefinitions follows the CustomResourceDefinitions until it is stopped, refused, or
// ctx ends.
func followDefinitions(ctx context.Context, c *fleet.Connection, clk clock.Clock, kick func()) (*definitions, error) {
	reader, err := metadata.NewForConfigAndClient(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for the CustomResourceDefinitions of cluster %q: %w", c.Name, err)
	}
	f := &definitions{kick: kick}
	ctx, f.stop = context.WithCancel(ctx)
	follower := watch.Watch[*metav1.PartialObjectMetadata]{
		Source:  watch.Identities(reader, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), watch.Selector{}),
		Handler: f, Clock: clk,
	}
	c.Go(func() { follower.Run(dial.Reduced(ctx)) })
	return f, nil
}

// take tells whether some have changed since it was called last.
func (f *definitions) take() bool { return f != nil && f.changed.Swap(false) }

func (f *definitions) change() {
	if !f.changed.Swap(true) {
		f.kick()
	}
}

// Replace implements watch.Handler.
func (f *definitions) Replace([]*metav1.PartialObjectMetadata, string) { f.change() }

// Update implements watch.Handler.
func (f *definitions) Update(*metav1.PartialObjectMetadata) { f.change() }

// Delete implements watch.Handler.
func (f *definitions) Delete(*metav1.PartialObjectMetadata) { f.change() }

// Bookmark implements watch.Handler.
func (f *definitions) Bookmark(string) {}

// Failed implements watch.Handler.
func (f *definitions) Failed(err error) {
	if watch.Refused(err) {
		f.refused.Store(true)
		f.stop()
	}
}

// pace says when to look at the APIs of the member. It is pure.
type pace struct {
	// every is the time between regular looks, and next when the next one is due.
	every time.Duration
	next  time.Time
	// promptAt is when to look because definitions have changed, zero if they have not.
	promptAt time.Time
	// prompted is when that was done last.
	prompted time.Time
}

// change says that definitions have changed.
func (p *pace) change(now time.Time) {
	if !p.promptAt.IsZero() {
		return
	}
	p.promptAt = now.Add(definitionSettle)
	if earliest := p.prompted.Add(promptPause); p.promptAt.Before(earliest) {
		p.promptAt = earliest
	}
}

// at returns when to look next.
func (p *pace) at() time.Time {
	if !p.promptAt.IsZero() && p.promptAt.Before(p.next) {
		return p.promptAt
	}
	return p.next
}

// looked says that the APIs were looked at. If that is worth another look soon, as it failed
// or the API server may be behind with what was defined, that is the next one.
func (p *pace) looked(now time.Time, again bool) {
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
