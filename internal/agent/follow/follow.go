// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

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

// CheckMin and CheckMax bound the time between two questions to the hub whether
// a right has come that should come soon.
const (
	CheckMin = 10 * time.Millisecond
	CheckMax = 30 * time.Second
)

// CheckPause returns the time until the next question when n were asked.
func CheckPause(n int) time.Duration {
	pause := CheckMin
	for range n {
		if pause = pause * 17 / 10; pause >= CheckMax {
			return CheckMax
		}
	}
	return pause
}

// How an object is asked for again. A watch that ends well is resumed at once.
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

// Object tells the state of one object, and each change of it, by watching it.
// Where the object may be read but not watched, it is read again and again.
type Object struct {
	Client client.WithWatch
	Object client.Object     // its namespace and name, and its type
	List   client.ObjectList // of its type
	Clock  clock.Clock
	// From is the resourceVersion of the object as the caller knows it already,
	// which saves the first read. May be empty.
	From string
	// See is told of the object, or nil if there is none, or why that is not
	// known. It has to return at once.
	See func(obj client.Object, err error)
}

// errWatchEnded says that a watch ended in the way that watches end.
var errWatchEnded = errors.New("the watch has ended")

// Run returns when ctx ends.
func (f *Object) Run(ctx context.Context) {
	poll, resume := backoff(pollMin, pollMax), backoff(resumeMin, resumeMax)
	for ctx.Err() == nil {
		started := f.Clock.Now()
		err := f.watch(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, errWatchEnded):
			if f.Clock.Since(started) >= watchLifetimeMin {
				poll, resume = backoff(pollMin, pollMax), backoff(resumeMin, resumeMax)
				continue
			}
		case apierrors.IsForbidden(err):
			for range pollsPerWatch {
				f.get(ctx)
				f.sleep(ctx, poll.Step())
			}
			continue
		default:
			f.See(nil, err)
		}
		f.sleep(ctx, resume.Step())
	}
}

// watch reads the object, unless it is known, and tells its changes until the
// watch ends. The error is never nil.
func (f *Object) watch(ctx context.Context) error {
	options := []client.ListOption{
		client.InNamespace(f.Object.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", f.Object.GetName())},
	}
	if f.From == "" {
		list, _ := f.List.DeepCopyObject().(client.ObjectList)
		if err := f.Client.List(ctx, list, options...); err != nil {
			return err
		}
		if err := f.tell(list); err != nil {
			return err
		}
		f.From = list.GetResourceVersion()
	}
	options = append(options, &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: f.From, AllowWatchBookmarks: true,
	}})
	watcher, err := f.Client.Watch(ctx, f.List, options...)
	if err != nil {
		f.From = ""
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if err := f.event(event); err != nil {
			f.From = ""
			return err
		}
	}
	return errWatchEnded
}

func (f *Object) event(event watch.Event) error {
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	obj, ok := event.Object.(client.Object)
	if !ok {
		return nil
	}
	f.From = obj.GetResourceVersion()
	switch event.Type {
	case watch.Added, watch.Modified:
		f.See(obj, nil)
	case watch.Deleted:
		f.See(nil, nil)
	}
	return nil
}

// tell tells what a list of at most one object says.
func (f *Object) tell(list client.ObjectList) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		f.See(nil, nil)
		return nil
	}
	obj, _ := items[0].(client.Object)
	f.See(obj, nil)
	return nil
}

// get reads the object once and tells what it found.
func (f *Object) get(ctx context.Context) {
	obj, _ := f.Object.DeepCopyObject().(client.Object)
	err := f.Client.Get(ctx, client.ObjectKeyFromObject(f.Object), obj)
	switch {
	case apierrors.IsNotFound(err):
		f.See(nil, nil)
	case err != nil && ctx.Err() == nil:
		f.See(nil, err)
	case err == nil:
		f.See(obj, nil)
	}
}

func (f *Object) sleep(ctx context.Context, d time.Duration) {
	timer := f.Clock.NewTimer(d)
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
