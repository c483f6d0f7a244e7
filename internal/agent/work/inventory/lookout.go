// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"github.com/capstan-io/capstan/internal/apply"
)

const (
	// lookoutAgainMin and lookoutAgainMax bound the time between two attempts to
	// watch an object; it doubles.
	lookoutAgainMin = 200 * time.Millisecond
	lookoutAgainMax = 30 * time.Second
	// lookoutLasted is how long a watch has to last to count as a success.
	lookoutLasted = time.Minute
)

// Target is an object to watch, in a version.
type Target struct {
	Object  apply.Object
	Version string
}

// LookoutOptions are those of a Lookout.
type LookoutOptions struct {
	Client metadata.Interface
	// Go runs a function until the lookout's context ends.
	Go func(func())
	// Max is how many objects are watched at a time.
	Max int
	// Changed is told of changes, with the users of the object, from several
	// goroutines. It has to return soon.
	Changed func(object apply.Object, users []string)
}

// Lookout watches the metadata of single objects that are not managed. It
// bounds how many these are, since each costs a watch. It is safe for
// concurrent use.
type Lookout struct {
	options LookoutOptions

	mu     sync.Mutex
	sights map[apply.Object]*sight
	uses   map[string][]apply.Object // by user
}

// sight is an object that is watched.
type sight struct {
	Target
	users  map[string]struct{}
	cancel context.CancelFunc
	// known says that resourceVersion is right; it is empty if there is no object.
	known           bool
	resourceVersion string
}

// NewLookout returns a lookout that watches nothing yet.
func NewLookout(options LookoutOptions) *Lookout {
	return &Lookout{options: options, sights: map[apply.Object]*sight{}, uses: map[string][]apply.Object{}}
}

// Use makes the targets the ones of the user: those that nobody watched yet are
// watched from now on, as far as the limit allows, until ctx ends, and those
// that nobody uses any more are not. The ctx is that of the lookout, not of a
// call.
func (l *Lookout) Use(ctx context.Context, user string, targets []Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var wanted []apply.Object
	for _, target := range targets {
		s, ok := l.sights[target.Object]
		if !ok {
			if len(l.sights) >= l.options.Max {
				continue
			}
			s = l.start(ctx, target)
			l.sights[target.Object] = s
		}
		s.users[user] = struct{}{}
		wanted = append(wanted, target.Object)
	}
	for _, object := range l.uses[user] {
		if slices.Contains(wanted, object) {
			continue
		}
		s := l.sights[object]
		delete(s.users, user)
		if len(s.users) == 0 {
			s.cancel()
			delete(l.sights, object)
		}
	}
	delete(l.uses, user)
	if len(wanted) > 0 {
		l.uses[user] = wanted
	}
}

// Get returns the resourceVersion of an object, empty if there is no such
// object. Known is false if the object is not watched, or not yet.
func (l *Lookout) Get(object apply.Object) (resourceVersion string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.sights[object]
	if !ok || !s.known {
		return "", false
	}
	return s.resourceVersion, true
}

func (l *Lookout) start(ctx context.Context, target Target) *sight {
	ctx, cancel := context.WithCancel(ctx)
	s := &sight{Target: target, users: map[string]struct{}{}, cancel: cancel}
	l.options.Go(func() {
		for wait := lookoutAgainMin; ; wait = min(2*wait, lookoutAgainMax) {
			began := time.Now()
			if err := l.follow(ctx, s); err != nil {
				l.set(ctx, s, false, "") // whoever asks reads it now and then
			}
			if time.Since(began) > lookoutLasted {
				wait = lookoutAgainMin
			}
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	})
	return s
}

// follow lists the object and watches it until the server ends that.
func (l *Lookout) follow(ctx context.Context, s *sight) error {
	var client metadata.ResourceInterface = l.options.Client.Resource(s.resource())
	if s.Object.Namespace != "" {
		client = l.options.Client.Resource(s.resource()).Namespace(s.Object.Namespace)
	}
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", s.Object.Name).String()}
	list, err := client.List(ctx, options)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", s.Object, err)
	}
	options.ResourceVersion = list.ResourceVersion
	events, err := client.Watch(ctx, options)
	if err != nil {
		return fmt.Errorf("watching %s: %w", s.Object, err)
	}
	defer events.Stop()
	resourceVersion := ""
	if len(list.Items) > 0 {
		resourceVersion = list.Items[0].ResourceVersion
	}
	l.set(ctx, s, true, resourceVersion)
	for event := range events.ResultChan() {
		seen, ok := event.Object.(*metav1.PartialObjectMetadata)
		switch {
		case !ok: // an error; what there is now, the next list tells
			return nil
		case event.Type == watch.Deleted:
			l.set(ctx, s, true, "")
		default:
			l.set(ctx, s, true, seen.ResourceVersion)
		}
	}
	return nil
}

func (l *Lookout) set(ctx context.Context, s *sight, known bool, resourceVersion string) {
	l.mu.Lock()
	changed := s.known != known || s.resourceVersion != resourceVersion
	s.known, s.resourceVersion = known, resourceVersion
	users := slices.Sorted(maps.Keys(s.users))
	l.mu.Unlock()
	if changed && ctx.Err() == nil {
		l.options.Changed(s.Object, users)
	}
}

func (t Target) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: t.Object.Group, Version: t.Version, Resource: t.Object.Resource}
}
