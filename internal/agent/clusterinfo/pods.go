// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/agent/clusterinfo/requests"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// What a pod requests is in its spec, so the metadata is not enough.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch

// podsPause is the least time between two reports of what pods request: in a busy
// cluster that always changes.
const podsPause = 30 * time.Second

// podRequests follows what the pods of the member request. It is a watch.Handler.
type podRequests struct {
	kick func()
	stop context.CancelFunc
	// names are of the pods that were read and not taken in yet. Only the watch uses them.
	names requests.ResourceNames

	// taken is what is reported, and takeAt when it may change again. Only the loop
	// uses them.
	taken  *requests.SumsSnapshot
	takeAt time.Time

	mu   sync.Mutex
	sums requests.ClusterSums
	// known says that the sums are of all pods, changed that they are not those that
	// were taken last, and refused that the agent may not list pods.
	known, changed, refused bool
}

// followPods follows the pods until it is stopped or ctx ends. Those that have
// finished are not asked for.
func followPods(ctx context.Context, c *fleet.Connection, clk clock.Clock, kick func()) (*podRequests, error) {
	reader, err := client.NewWithWatch(c.Spoke.GetConfig(), client.Options{
		HTTPClient: c.Spoke.GetHTTPClient(), Scheme: c.Spoke.GetScheme(), Mapper: c.Spoke.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("making a client for the pods of cluster %q: %w", c.Name, err)
	}
	unfinished := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	p := &podRequests{kick: kick}
	ctx, p.stop = context.WithCancel(dial.ReducedContext(ctx))
	follower := watch.Watch[*requests.PodRequest]{
		Source: watch.ReducedSource(reader, &corev1.PodList{}, unfinished, p.names.PodRequestOf), Handler: p, Clock: clk,
	}
	c.Go(func() { follower.RunReflector(ctx) })
	return p, nil
}

// takeSums returns the sums that are to be reported, nil if they are not known, and
// when they may change, zero if nothing changed.
func (p *podRequests) takeSums(now time.Time) (taken *requests.SumsSnapshot, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.changed {
		return p.taken, 0
	}
	if wait := p.takeAt.Sub(now); wait > 0 && p.known && p.taken != nil {
		return p.taken, wait
	}
	p.taken = nil
	p.changed = false
	if p.known {
		p.taken, p.takeAt = p.sums.TakeSnapshot(), now.Add(podsPause)
	}
	return p.taken, 0
}

// isForbidden reports whether the agent may not list pods.
func (p *podRequests) isForbidden() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// applyChange changes what is known, and kicks the loop if that has seen all changes
// before.
func (p *podRequests) applyChange(do func() (changed bool)) {
	if p.markPodsChanged(do) {
		p.kick()
	}
}

// markPodsChanged changes what is known, and returns true if the loop does not know yet that something changed.
func (p *podRequests) markPodsChanged(do func() (changed bool)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := do() && !p.changed
	p.changed = p.changed || news
	return news
}

// Replace implements watch.Handler.
func (p *podRequests) Replace(all []*requests.PodRequest, _ string) {
	p.names.ForgetNames()
	p.applyChange(func() bool {
		p.sums.ReplacePods(all)
		p.known = true
		p.refused = false
		return true
	})
}

// Update implements watch.Handler.
func (p *podRequests) Update(pod *requests.PodRequest) {
	p.names.ForgetNames()
	p.applyChange(func() bool { return p.sums.SetPod(pod) })
}

// Delete implements watch.Handler.
func (p *podRequests) Delete(pod *requests.PodRequest) {
	p.names.ForgetNames()
	p.applyChange(func() bool { return p.sums.DeletePod(pod.UID) })
}

// Bookmark implements watch.Handler.
func (p *podRequests) Bookmark(string) {}

// Failed implements watch.Handler. What is known stays until there is something
// better, unless the pods are none of the agent's business.
func (p *podRequests) Failed(err error) {
	p.names.ForgetNames()
	if !watch.IsRefused(err) {
		return
	}
	p.applyChange(func() bool {
		before := p.refused
		p.sums = requests.ClusterSums{}
		p.known = false
		p.refused = true
		return !before
	})
}
