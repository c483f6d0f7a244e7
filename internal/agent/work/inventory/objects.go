// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// WatchTarget is an object to watch, in a version.
type WatchTarget struct {
	Object  apply.ObjectRef
	Version string
}

// ObjectWatcherOptions are those of an ObjectWatcher.
type ObjectWatcherOptions struct {
	Client metadata.Interface
	// Go runs a function until the watcher's context ends.
	Go func(func())
	// Max is how many objects are watched at a time.
	Max int
	// Changed is told of changes, with the users of the object, from several
	// goroutines. It has to return soon.
	Changed func(object apply.ObjectRef, users []string)
}

// ObjectWatcher watches the metadata of single objects that are not managed. It
// bounds how many these are, since each costs a watch. It is safe for
// concurrent use.
type ObjectWatcher struct {
	options ObjectWatcherOptions

	mu      sync.Mutex
	watched map[apply.ObjectRef]*objectWatch
	uses    watch.UseCounter[apply.ObjectRef]
}

// objectWatch is the watch of one object and what it found. The mutex of the
// watcher guards it.
type objectWatch struct {
	watcher *ObjectWatcher
	object  apply.ObjectRef
	cancel  context.CancelFunc

	stopped bool // what the watch still says is not wanted
	// known says that resourceVersion is right; it is empty if there is no object.
	known           bool
	resourceVersion string
}

// NewObjectWatcher returns a watcher that watches nothing yet.
func NewObjectWatcher(options ObjectWatcherOptions) *ObjectWatcher {
	return &ObjectWatcher{options: options, watched: map[apply.ObjectRef]*objectWatch{}}
}

// UseTargets makes the targets the ones of the user: those that nobody watched yet are
// watched from now on, as far as the limit allows, until ctx ends, and those
// that nobody uses any more are not. The ctx is that of the watcher, not of a
// call.
func (o *ObjectWatcher) UseTargets(ctx context.Context, user string, targets []WatchTarget) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var wanted []apply.ObjectRef
	for _, target := range targets {
		if _, ok := o.watched[target.Object]; !ok {
			if len(o.watched) >= o.options.Max {
				continue
			}
			o.watched[target.Object] = o.startWatch(ctx, target)
		}
		wanted = append(wanted, target.Object)
	}
	_, last := o.uses.SetUses(user, wanted...)
	for _, object := range last {
		w := o.watched[object]
		w.stopped = true
		w.cancel()
		delete(o.watched, object)
	}
}

// Get returns the resourceVersion of an object, empty if there is no such
// object. Known is false if the object is not watched, or not yet.
func (o *ObjectWatcher) Get(object apply.ObjectRef) (resourceVersion string, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, ok := o.watched[object]
	if !ok || !w.known {
		return "", false
	}
	return w.resourceVersion, true
}

func (o *ObjectWatcher) startWatch(ctx context.Context, target WatchTarget) *objectWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &objectWatch{watcher: o, object: target.Object, cancel: cancel}
	resource := schema.GroupVersionResource{Group: target.Object.Group, Version: target.Version, Resource: target.Object.Resource}
	run := watch.Watch[*metav1.PartialObjectMetadata]{
		Source: watch.IdentitySource(o.options.Client, resource, watch.ObjectSelector{
			Namespace: target.Object.Namespace, Name: target.Object.Name,
		}),
		Handler: w,
	}
	o.options.Go(func() { run.RunReflector(dial.ReducedContext(ctx)) })
	return w
}

// Replace takes in the object, if there is one.
func (w *objectWatch) Replace(found []*metav1.PartialObjectMetadata, _ string) {
	resourceVersion := ""
	if len(found) > 0 {
		resourceVersion = found[0].ResourceVersion
	}
	w.setVersion(true, resourceVersion)
}

// Update takes in that the object has changed.
func (w *objectWatch) Update(seen *metav1.PartialObjectMetadata) {
	w.setVersion(true, seen.ResourceVersion)
}

// Delete takes in that the object is gone.
func (w *objectWatch) Delete(*metav1.PartialObjectMetadata) { w.setVersion(true, "") }

// Bookmark takes in nothing: only the object's own version is of interest.
func (w *objectWatch) Bookmark(string) {}

// Failed takes in that the object is not known: whoever asks reads it now and
// then.
func (w *objectWatch) Failed(error) { w.setVersion(false, "") }

func (w *objectWatch) setVersion(known bool, resourceVersion string) {
	o := w.watcher
	o.mu.Lock()
	changed := !w.stopped && (w.known != known || w.resourceVersion != resourceVersion)
	w.known = known
	w.resourceVersion = resourceVersion
	users := o.uses.UsersOf(w.object)
	o.mu.Unlock()
	if changed {
		o.options.Changed(w.object, users)
	}
}
