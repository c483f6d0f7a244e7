// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/events"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// reasonNothingSelected is the reason of the event on a policy that selects no
	// object of the hub.
	reasonNothingSelected = "NothingSelected"
	// grace is how long the objects of a policy may come after it.
	grace = 30 * time.Second
	// recent is how old a policy is at most of which that is told when the
	// controller sees it for the first time: at a start it sees all of them.
	recent = 10 * time.Minute
)

// selected tells on a policy that it selects no object of the hub, once for each
// generation of its spec.
type selected struct {
	templates finder
	events    *events.Recorder
	clock     clock.Clock

	mu   sync.Mutex
	seen map[types.NamespacedName]sight
}

// finder is templates.Templates.
type finder interface {
	Find(scopes []selector.Scope, selects func(*metav1.PartialObjectMetadata) bool) (keys []templates.Key, unknown []selector.Scope)
}

// sight is a policy as it was seen last.
type sight struct {
	uid        types.UID
	generation int64
	due        time.Time // when its objects would have come
	done       bool
}

// tell records an event if a policy selects nothing. It returns how soon to ask
// again; 0 is never.
func (s *selected) tell(p policy) time.Duration {
	name := client.ObjectKeyFromObject(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.seen[name]
	if last.uid != p.GetUID() || last.generation != p.GetGeneration() {
		known = known && last.uid == p.GetUID()
		last = sight{
			uid: p.GetUID(), generation: p.GetGeneration(), due: s.clock.Now().Add(grace),
			done: !known && s.clock.Since(p.GetCreationTimestamp().Time) > recent,
		}
		s.seen[name] = last
	}
	if last.done {
		return 0
	}
	if wait := last.due.Sub(s.clock.Now()); wait > 0 {
		return wait
	}
	last.done = true
	s.seen[name] = last
	if s.none(p) {
		s.events.Eventf(p, nil, corev1.EventTypeWarning, reasonNothingSelected, action,
			"no object of the hub matches spec.resourceSelectors: compare them with the names, labels and namespaces of the objects that are to be sent; those that come later are sent, too")
	}
	return 0
}

// none tells whether no object is selected. Of what is not known, it says nothing.
func (s *selected) none(p policy) bool {
	selectors, problems := selector.Compile(p.GetNamespace(), p.PropagationSpec().ResourceSelectors, nil)
	if len(problems) > 0 {
		return false
	}
	found, unknown := s.templates.Find(selectors.Scopes(), func(object *metav1.PartialObjectMetadata) bool {
		return selectors.Priority(object) != selector.None
	})
	return len(found)+len(unknown) == 0
}

// forget forgets a policy that is gone.
func (s *selected) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, name)
}
