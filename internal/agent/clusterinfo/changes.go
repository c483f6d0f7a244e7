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

// connectionChanges follows whether the ClusterConnection changes in anything but its
// status, by its metadata: all of it is large, and mostly what the agent wrote
// itself. It is a watch.Handler.
type connectionChanges struct {
	kick func()
	stop context.CancelFunc
	// seen is the state that was seen last, nil if none was.
	seen atomic.Pointer[connectionState]
	// refused says that the hub does not let the agent watch, as those of earlier
	// releases: then it reads from time to time.
	refused atomic.Bool
}

// connectionState is what shows whether a ClusterConnection is another than before; it is
// empty if there is none.
type connectionState struct {
	uid        types.UID
	generation int64
	countsPods bool
}

// asksForPods reports whether a ClusterConnection asks by its annotation what pods
// request.
func asksForPods(connection metav1.Object) bool {
	return connection.GetAnnotations()[fleetv1alpha1.AnnotationCountPods] != ""
}

// followChanges follows the ClusterConnection until it is stopped, refused, or ctx
// ends.
func followChanges(ctx context.Context, c *fleet.Connection, clk clock.Clock, kick func()) (*connectionChanges, error) {
	reader, err := metadata.NewForConfigAndClient(c.Hub.GetConfig(), c.Hub.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for the metadata of ClusterConnection %q: %w", c.Name, err)
	}
	f := &connectionChanges{kick: kick}
	ctx, f.stop = context.WithCancel(ctx)
	follower := watch.Watch[*metav1.PartialObjectMetadata]{
		Source:  watch.MetadataSource(reader, fleetv1alpha1.GroupVersion.WithResource("clusterconnections"), watch.ObjectSelector{Name: string(c.Name)}),
		Handler: f, Clock: clk,
	}
	c.Go(func() { follower.RunReflector(ctx) })
	return f, nil
}

// changedSince reports whether there was a change after the object was read; nobody knows
// of one if f is nil.
func (f *connectionChanges) changedSince(read *fleetv1alpha1.ClusterConnection) bool {
	if f == nil {
		return false
	}
	seen := f.seen.Load()
	return seen != nil && (seen.uid != read.UID || seen.generation > read.Generation ||
		seen.generation == read.Generation && seen.countsPods != asksForPods(read))
}

func (f *connectionChanges) updateState(now connectionState) {
	if before := f.seen.Swap(&now); before == nil || *before != now {
		f.kick()
	}
}

// Replace implements watch.Handler.
func (f *connectionChanges) Replace(objects []*metav1.PartialObjectMetadata, _ string) {
	if len(objects) == 0 {
		f.updateState(connectionState{})
		return
	}
	f.Update(objects[0])
}

// Update implements watch.Handler.
func (f *connectionChanges) Update(object *metav1.PartialObjectMetadata) {
	f.updateState(connectionState{object.UID, object.Generation, asksForPods(object)})
}

// Delete implements watch.Handler.
func (f *connectionChanges) Delete(*metav1.PartialObjectMetadata) { f.updateState(connectionState{}) }

// Bookmark implements watch.Handler.
func (f *connectionChanges) Bookmark(string) {}

// Failed implements watch.Handler.
func (f *connectionChanges) Failed(err error) {
	if watch.IsRefused(err) {
		f.refused.Store(true)
		f.stop()
	}
}
