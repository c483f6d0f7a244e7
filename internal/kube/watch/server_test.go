// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server with objects of one type. It does not stream lists.
type server struct {
	// idle is how long a watch may be silent until something in between ends it,
	// with an error if cut is one; zero is for ever.
	idle time.Duration
	cut  *apierrors.StatusError

	mu      sync.Mutex
	version int
	objects map[string]*metav1.PartialObjectMetadata
	log     []watch.Event
	changed chan struct{} // closed with the next change
	// refuseGet, refuseList and refuseWatch are answered if they are not nil.
	refuseGet, refuseList, refuseWatch error
	lists, watches, gets               []time.Time
}

func newServer() *server {
	return &server{version: 1, objects: map[string]*metav1.PartialObjectMetadata{}, changed: make(chan struct{})}
}

// write writes an object, or deletes it.
func (s *server) write(kind watch.EventType, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, ResourceVersion: strconv.Itoa(s.version),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
	s.objects[name] = object
	if kind == watch.Deleted {
		delete(s.objects, name)
	}
	s.log = append(s.log, watch.Event{Type: kind, Object: object})
	close(s.changed)
	s.changed = make(chan struct{})
}

// refuse sets what is answered to gets, lists and watches.
func (s *server) refuse(get, list, watching error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuseGet, s.refuseList, s.refuseWatch = get, list, watching
}

// requests returns when each list, watch and get came, and begins to count anew.
func (s *server) requests() (lists, watches, gets []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, watches, gets = s.lists, s.watches, s.gets
	s.lists, s.watches, s.gets = nil, nil, nil
	return lists, watches, gets
}

// source is that of all objects.
func (s *server) source() ObjectSource[*metav1.PartialObjectMetadata] {
	return ObjectSource[*metav1.PartialObjectMetadata]{
		what: "things", example: &metav1.PartialObjectMetadata{}, list: s.list, watch: s.watch,
	}
}

// single is the source of the object with the name, of which the owner knows
// the resourceVersion.
func (s *server) single(name, resourceVersion string) ObjectSource[*metav1.PartialObjectMetadata] {
	source := s.source()
	source.from = resourceVersion
	source.get = func(context.Context) (*metav1.PartialObjectMetadata, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gets = append(s.gets, time.Now())
		if s.refuseGet != nil {
			return nil, s.refuseGet
		}
		if found, ok := s.objects[name]; ok {
			return found.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
	}
	return source
}

func (s *server) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = append(s.lists, time.Now())
	if s.refuseList != nil {
		return nil, s.refuseList
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object.DeepCopy())
	}
	return list, nil
}

func (s *server) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, time.Now())
	if s.refuseWatch != nil {
		return nil, s.refuseWatch
	}
	from, _ := strconv.Atoi(options.ResourceVersion)
	events := make(chan watch.Event)
	stopped := watch.NewProxyWatcher(events)
	go s.send(ctx, stopped, events, from)
	return stopped, nil
}

// send sends what came after a version, until the watch is stopped or cut.
func (s *server) send(ctx context.Context, w *watch.ProxyWatcher, events chan<- watch.Event, from int) {
	defer close(events)
	for {
		s.mu.Lock()
		var next []watch.Event
		for _, event := range s.log {
			object, _ := event.Object.(*metav1.PartialObjectMetadata)
			if version, _ := strconv.Atoi(object.ResourceVersion); version > from {
				next = append(next, watch.Event{Type: event.Type, Object: object.DeepCopy()})
				from = version
			}
		}
		changed := s.changed
		s.mu.Unlock()
		for _, event := range next {
			select {
			case events <- event:
			case <-w.StopChan():
				return
			}
		}
		var idle <-chan time.Time
		if s.idle > 0 {
			idle = time.After(s.idle)
		}
		select {
		case <-changed:
		case <-idle:
			if s.cut != nil {
				status := s.cut.Status()
				select {
				case events <- watch.Event{Type: watch.Error, Object: &status}:
				case <-w.StopChan():
				}
			}
			return
		case <-w.StopChan():
			return
		case <-ctx.Done():
			return
		}
	}
}
