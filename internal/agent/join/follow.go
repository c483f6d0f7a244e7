// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How a follower asks again. A watch that ends well is resumed at once.
const (
	// pollMin and pollMax bound the time between two requests where the agent may
	// get an object but not watch it (strict bootstrap profile).
	pollMin = 50 * time.Millisecond
	pollMax = 15 * time.Second
	// pollsPerWatch is the number of requests after which the agent looks whether
	// it may watch now.
	pollsPerWatch = 20
	// resumeMin and resumeMax bound the time before a watch that failed is tried
	// again.
	resumeMin = 200 * time.Millisecond
	resumeMax = 30 * time.Second
	// watchLifetimeMin is how long a watch has to live to count as a success.
	watchLifetimeMin = 5 * time.Second
)

// follower tells the state of one object, and each change of it, by watching
// it. Where the object may be read but not watched, it is read again and again.
type follower struct {
	client client.WithWatch
	object client.Object     // its namespace and name, and its type
	list   client.ObjectList // of its type
	clock  clock.Clock
	// from is the resourceVersion of the object as the caller knows it already,
	// which saves the first read. May be empty.
	from string
	// see is told of the object, or nil if there is none, or why that is not
	// known. It has to return at once.
	see func(obj client.Object, err error)
}

// errWatchEnded says that a watch ended in the way that watches end.
var errWatchEnded = errors.New("the watch has ended")

// run returns when ctx ends.
func (f *follower) run(ctx context.Context) {
	poll, resume := backoff(pollMin, pollMax), backoff(resumeMin, resumeMax)
	for ctx.Err() == nil {
		started := f.clock.Now()
		err := f.watch(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, errWatchEnded):
			if f.clock.Since(started) >= watchLifetimeMin {
				resume = backoff(resumeMin, resumeMax)
				continue
			}
		case apierrors.IsForbidden(err):
			for range pollsPerWatch {
				f.get(ctx)
				f.sleep(ctx, poll.Step())
			}
			continue
		default:
			f.see(nil, err)
		}
		f.sleep(ctx, resume.Step())
	}
}

// watch reads the object, unless it is known, and tells its changes until the
// watch ends. The error is never nil.
func (f *follower) watch(ctx context.Context) error {
	options := []client.ListOption{
		client.InNamespace(f.object.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", f.object.GetName())},
	}
	if f.from == "" {
		list, _ := f.list.DeepCopyObject().(client.ObjectList)
		if err := f.client.List(ctx, list, options...); err != nil {
			return err
		}
		if err := f.tell(list); err != nil {
			return err
		}
		f.from = list.GetResourceVersion()
	}
	options = append(options, &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: f.from, AllowWatchBookmarks: true,
	}})
	watcher, err := f.client.Watch(ctx, f.list, options...)
	if err != nil {
		f.from = ""
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if err := f.event(event); err != nil {
			f.from = ""
			return err
		}
	}
	return errWatchEnded
}

func (f *follower) event(event watch.Event) error {
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	obj, ok := event.Object.(client.Object)
	if !ok {
		return nil
	}
	f.from = obj.GetResourceVersion()
	switch event.Type {
	case watch.Added, watch.Modified:
		f.see(obj, nil)
	case watch.Deleted:
		f.see(nil, nil)
	}
	return nil
}

// tell tells what a list of at most one object says.
func (f *follower) tell(list client.ObjectList) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		f.see(nil, nil)
		return nil
	}
	obj, _ := items[0].(client.Object)
	f.see(obj, nil)
	return nil
}

// get reads the object once and tells what it found.
func (f *follower) get(ctx context.Context) {
	obj, _ := f.object.DeepCopyObject().(client.Object)
	err := f.client.Get(ctx, client.ObjectKeyFromObject(f.object), obj)
	switch {
	case apierrors.IsNotFound(err):
		f.see(nil, nil)
	case err != nil && ctx.Err() == nil:
		f.see(nil, err)
	case err == nil:
		f.see(obj, nil)
	}
}

func (f *follower) sleep(ctx context.Context, d time.Duration) {
	timer := f.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// backoff doubles from shortest to longest, with a little chance in it.
func backoff(shortest, longest time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: shortest, Factor: 1.7, Jitter: 0.1, Steps: 30, Cap: longest}
}
