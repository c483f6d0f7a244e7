// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// changes follows whether the ClusterConnection changes in anything but its
// status, by its metadata: all of it is large, and mostly what the agent wrote
// itself. It is a watch.Handler.
type changes struct {
	kick func()
	stop context.CancelFunc
	// seen is the state that was seen last, nil if none was.
	seen atomic.Pointer[state]
	// refused says that the hub does not let the agent watch, as those of earlier
	// releases: then it reads from time to time.
	refused atomic.Bool
}

// state is what tells whether a ClusterConnection is another than before; it is
// empty if there is none.
type state struct {
	uid        types.UID
	generation int64
	countsPods bool
}

// asksForPods tells whether a ClusterConnection asks by its annotation what pods
// request.
func asksForPods(connection metav1.Object) bool {
	return connection.GetAnnotations()[fleetv1alpha1.AnnotationCountPods] != ""
}

// followChanges follows the ClusterConnection until it is stopped, refused, or ctx
// ends.
func followChanges(ctx context.Context, c *fleet.Connection, clk clock.Clock, kick func()) (*changes, error) {
	reader, err := metadata.NewForConfigAndClient(c.Hub.GetConfig(), c.Hub.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for the metadata of ClusterConnection %q: %w", c.Name, err)
	}
	f := &changes{kick: kick}
	ctx, f.stop = context.WithCancel(ctx)
	follower := watch.Watch[*metav1.PartialObjectMetadata]{
		Source:  watch.Metadata(reader, fleetv1alpha1.GroupVersion.WithResource("clusterconnections"), watch.Selector{Name: string(c.Name)}),
		Handler: f, Clock: clk,
	}
	c.Go(func() { follower.Run(ctx) })
	return f, nil
}

// since tells whether there was a change after the object was read; nobody knows
// of one if f is nil.
func (f *changes) since(read *fleetv1alpha1.ClusterConnection) bool {
	if f == nil {
		return false
	}
	seen := f.seen.Load()
	return seen != nil && (seen.uid != read.UID || seen.generation > read.Generation ||
		seen.generation == read.Generation && seen.countsPods != asksForPods(read))
}

func (f *changes) see(now state) {
	if before := f.seen.Swap(&now); before == nil || *before != now {
		f.kick()
	}
}

// Replace implements watch.Handler.
func (f *changes) Replace(objects []*metav1.PartialObjectMetadata, _ string) {
	if len(objects) == 0 {
		f.see(state{})
		return
	}
	f.Update(objects[0])
}

// Update implements watch.Handler.
func (f *changes) Update(object *metav1.PartialObjectMetadata) {
	f.see(state{object.UID, object.Generation, asksForPods(object)})
}

// Delete implements watch.Handler.
func (f *changes) Delete(*metav1.PartialObjectMetadata) { f.see(state{}) }

// Bookmark implements watch.Handler.
func (f *changes) Bookmark(string) {}

// Failed implements watch.Handler.
func (f *changes) Failed(err error) {
	if watch.Refused(err) {
		f.refused.Store(true)
		f.stop()
	}
}
