// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// noStreams says that lists are not to be streamed.
type noStreams struct{}

// IsWatchListSemanticsUnSupported is how the reflector asks.
func (noStreams) IsWatchListSemanticsUnSupported() bool { return true }

// listWatch is where the reflector reads from.
func (s *session[T]) listWatch() cache.ListerWatcher {
	client := s.source.client
	if client == nil {
		client = noStreams{}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return s.listObjects(options)
		},
		WatchFuncWithContext: s.openWatch,
	}, client)
}

func (s *session[T]) listObjects(options metav1.ListOptions) (runtime.Object, error) {
	if s.source.from != "" && !s.seeded {
		s.seeded = true
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: s.source.from}}, nil
	}
	s.source.from = ""
	list, err := s.source.list(s.ctx, options)
	if err != nil {
		return nil, s.reportFailure("listing", err)
	}
	return list, nil
}

func (s *session[T]) openWatch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := s.source.watch(ctx, options)
	if err == nil {
		s.opened = s.clock.Now()
		s.refused = false
		s.polls = false
		s.refusedWatch = false
		s.deliverListed()
		return events, nil
	}
	if options.SendInitialEvents == nil { // else a list follows
		s.refusedWatch = IsRefused(err)
		if !s.refusedWatch {
			s.deliverListed() // as long as watches fail, lists have to do
		}
		_ = s.reportFailure("watching", err) // the handler has been told
	}
	// The kind of error is none of the reflector's business: it would wait for a
	// server that is away by itself, then without an eye on ctx, and resume the
	// watch. But who was told of a failure has to be told everything anew.
	return nil, fmt.Errorf("watching %s: %v", s.source.what, shortenError(err)) //nolint:errorlint // see above
}

// deliverListed tells the handler what was listed.
func (s *session[T]) deliverListed() {
	if s.listed != nil {
		s.handler.Replace(s.listed.objects, s.listed.resourceVersion)
		s.listed = nil
	}
}

// Replace takes in all that there is. What was streamed is watched already;
// what was listed is told when it is, but for a single object, which is read
// again and again where it may not be watched.
func (s *session[T]) Replace(items []any, resourceVersion string) error {
	if s.source.from != "" {
		return nil // the owner knows
	}
	s.listed = &listing[T]{resourceVersion: resourceVersion}
	for _, item := range items {
		object, err := s.decodeItem(item)
		if err != nil {
			return err
		}
		s.listed.objects = append(s.listed.objects, object)
	}
	if !s.opened.IsZero() || s.source.get != nil {
		s.deliverListed()
	}
	return nil
}

// decodeItem returns an item as what it has to be, without what nobody looks at.
func (s *session[T]) decodeItem(item any) (T, error) {
	if s.source.reduce != nil {
		item = s.source.reduce(item)
	}
	object, ok := item.(T)
	if !ok {
		return object, fmt.Errorf("watching %s: the server sent a %T", s.source.what, item)
	}
	object.SetManagedFields(nil)
	return object, nil
}

// Add takes in a new object.
func (s *session[T]) Add(item any) error { return s.Update(item) }

// Update takes in an object that has changed.
func (s *session[T]) Update(item any) error {
	object, err := s.decodeItem(item)
	if err == nil {
		s.handler.Update(object)
	}
	return err
}

// Delete takes in an object that is gone.
func (s *session[T]) Delete(item any) error {
	object, err := s.decodeItem(item)
	if err == nil {
		s.handler.Delete(object)
	}
	return err
}

// Bookmark takes in how far the watch is.
func (s *session[T]) Bookmark(resourceVersion string) error {
	s.handler.Bookmark(resourceVersion)
	return nil
}

// Resync does nothing: there is no copy to compare with.
func (s *session[T]) Resync() error { return nil }

// Transformer drops what nobody looks at before the reflector buffers it.
func (s *session[T]) Transformer() cache.TransformFunc {
	return func(item any) (any, error) { return s.decodeItem(item) }
}
