// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long anything that is awaited may take.
const patience = 5 * time.Minute

// stream is a watch that one waits at. One that the server ends is resumed.
type stream[T client.Object] struct {
	client  client.WithWatch
	list    client.ObjectList
	options client.ListOptions
	watcher watch.Interface
}

// open begins to watch.
func open[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (*stream[T], error) {
	s := &stream[T]{client: c, list: list}
	s.options.ApplyOptions(options)
	s.options.Raw = &metav1.ListOptions{}
	return s, s.resume(ctx)
}

func (s *stream[T]) resume(ctx context.Context) (err error) {
	if s.watcher, err = s.client.Watch(ctx, s.list, &s.options); err != nil {
		return fmt.Errorf("watching %T: %w", s.list, err)
	}
	return nil
}

func (s *stream[T]) close() { s.watcher.Stop() }

// await returns when it saw the first event for which the function is true.
func (s *stream[T]) await(ctx context.Context, good func(watch.EventType, T) bool) (time.Time, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case event, ok := <-s.watcher.ResultChan():
			object, known := event.Object.(T)
			switch {
			case !ok:
				if err := s.resume(ctx); err != nil {
					return time.Time{}, err
				}
			case !known:
				return time.Time{}, fmt.Errorf("watching %T: %w", s.list, apierrors.FromObject(event.Object))
			default:
				s.options.Raw.ResourceVersion = object.GetResourceVersion()
				if good(event.Type, object) {
					return time.Now(), nil
				}
			}
		case <-limit.C:
			return time.Time{}, fmt.Errorf("what was awaited of %T did not come in %s", s.list, patience)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// sight is when something was seen, or why not.
type sight struct {
	at  time.Time
	err error
}

// later awaits in the background.
func (s *stream[T]) later(ctx context.Context, good func(watch.EventType, T) bool) <-chan sight {
	seen := make(chan sight, 1)
	go func() {
		at, err := s.await(ctx, good)
		seen <- sight{at, err}
	}()
	return seen
}
