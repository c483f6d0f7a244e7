// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// reasonNothingSelected is the reason of the event on a policy that selects no
	// object of the hub.
	reasonNothingSelected = "NothingSelected"
	// reasonObjectsReserved is the reason of the event on a policy that selects objects
	// which are never sent.
	reasonObjectsReserved = "ObjectsReserved"
	// reasonSelectorsInvalid is the reason of the event on a policy with selectors that
	// count for nothing.
	reasonSelectorsInvalid = "SelectorsInvalid"
	// grace is how long the objects of a policy may come after it.
	grace = 30 * time.Second
	// recent is how old a policy is at most of which that is told when the
	// controller sees it for the first time: at a start it sees all of them.
	recent = 10 * time.Minute
)

// selectionReporter tells on a policy that it selects no object of the hub, and how many that
// are never sent, once for each generation of its spec.
type selectionReporter struct {
	templates finder
	clusters  func() view.Fleet
	events    *events.Recorder
	clock     clock.Clock

	mu   sync.Mutex
	seen map[types.NamespacedName]sight
}

// finder is templates.Templates.
type finder interface {
	Find(scopes []selector.SearchScope, selects func(*metav1.PartialObjectMetadata) bool) (keys []templates.Key, unknown []selector.SearchScope)
}

// sight is a policy as it was seen last.
type sight struct {
	uid        types.UID
	generation int64
	due        time.Time // when its objects would have come
	done       bool
}

// reportSelection records an event if a policy selects nothing. It returns how soon to ask
// again; 0 is never.
func (s *selectionReporter) reportSelection(p policy) time.Duration {
	if is, wait := s.isSelectionDue(p); !is {
		return wait
	}
	selectors, problems := selector.CompileSelectors(p.GetNamespace(), p.PropagationSpec().ResourceSelectors, field.NewPath("spec", "resourceSelectors"))
	if len(problems) > 0 { // admission has not refused it
		s.events.Eventf(p, nil, corev1.EventTypeWarning, reasonSelectorsInvalid, action, "these selectors select nothing until they are fixed: %s", problems.ToAggregate())
		return 0
	}
	none, reserved, why := s.inspectSelection(selectors)
	if none {
		s.events.Eventf(p, nil, corev1.EventTypeWarning, reasonNothingSelected, action,
			"no object of the hub matches spec.resourceSelectors: compare them with the names, labels and namespaces of the objects to be sent; objects that are created later are sent, too")
	}
	if reserved > 0 {
		s.events.Eventf(p, nil, corev1.EventTypeWarning, reasonObjectsReserved, action,
			"spec.resourceSelectors match %d objects that are not sent: %s; %s", reserved, why, claims.InsteadOfPolicy)
	}
	return 0
}

// isSelectionDue reports whether to look at what a policy selects, or how soon to ask again; 0 is never.
// Nobody waits while somebody looks.
func (s *selectionReporter) isSelectionDue(p policy) (is bool, wait time.Duration) {
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
		return false, 0
	}
	if wait := last.due.Sub(s.clock.Now()); wait > 0 {
		return false, wait
	}
	last.done = true
	s.seen[name] = last
	return true, 0
}

// inspectSelection reports whether no object is selected, how many are that are never sent, and of
// the first of these by its name why. Of what is not known, it says nothing.
func (s *selectionReporter) inspectSelection(selectors selector.Selectors) (none bool, reserved int, why string) {
	clusters := s.clusters()
	first := ""
	seen := map[string]bool{}
	found, unknown := s.templates.Find(selectors.SearchScopes(), func(object *metav1.PartialObjectMetadata) bool {
		if selectors.PriorityOf(object) == selector.None {
			return false
		}
		says := claims.ReservedReason(object.GroupVersionKind().GroupKind(), object, clusters)
		if name := object.Kind + " " + object.Namespace + "/" + object.Name; says != "" {
			if seen[name] = true; why == "" || name < first {
				first = name
				why = says
			}
		}
		return true
	})
	return len(found)+len(unknown) == 0, len(seen), why
}

// forgetPolicy forgets a policy that is gone.
func (s *selectionReporter) forgetPolicy(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, name)
}
