// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/packed"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/fleet"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// site is what the part has for one connection: nothing in it outlives that.
type site struct {
	ctx        context.Context // the connection's; ends passes that are under way
	connection *fleet.Connection
	options    *Options
	hubHash    string
	hub        metadata.Interface
	member     *apply.Member
	kinds      *apply.Kinds
	inventory  *inventory.Inventory
	arrivals   *arrivals
	guard      *executor.Guard
	lookout    *inventory.ObjectWatcher
	rules      *rules.Cache
	packer     *packed.Packer // for what the caches have
	queue      workqueue.TypedRateLimitingInterface[Request]

	mu       sync.Mutex
	inFlight int
	parked   []Request // wait for one in flight to end
	states   map[string]*state
	// leaving are the owners whose objects are all on their way out: of these
	// only the last one that goes is of interest.
	leaving map[types.UID]struct{}
	// waiting are the works that want an object which they do not own yet.
	waiting map[apply.Object]map[string]struct{}
	// denials are the works whose executor lacks a permission, and how often in
	// a row it did.
	denials map[string]int
}

// state is what is remembered of a work from pass to pass. Only the pass that
// is under way uses it, but for the atomic fields.
type state struct {
	plan *plan
	// failures is how many passes in a row left something to try again soon.
	failures int
	// lackingSince is when the first of these passes was.
	lackingSince time.Time
	// leavingSince is when the deletion was first seen.
	leavingSince time.Time
	// requested is when objects were asked to go; the record is the one without a name.
	requested map[apply.Object]time.Time
	// keeper is what is remembered of the keeper of the work's objects, if any.
	keeper *state
	// claimed and denied are when this agent claimed the record of another agent,
	// and when that one denied it.
	claimed, denied time.Time
	// listAt is when the record's list of objects is to be written, if it is not
	// up to date.
	listAt time.Time
	// listRoom is how many bytes that list may have if the member takes less than
	// it should; 0 if that is not so.
	listRoom int
	// finished and dropped are a work and a record whose finalizer we removed;
	// caches may still have them.
	finished, dropped types.UID

	// work and record are as last written, until the caches have caught up. The
	// work lacks what its status does not need.
	work   atomic.Pointer[workv1.ManifestWork]
	record atomic.Pointer[workv1.AppliedManifestWork]
	// written is the resourceVersion of the work after our last write.
	written atomic.Pointer[string]
	// observing is nil unless the work asks something about its objects.
	observing atomic.Pointer[observing]
	// deleting says that the work was deleted: what is under way may stop, and
	// interrupt, if there is one, stops it.
	deleting  atomic.Bool
	interrupt atomic.Pointer[context.CancelFunc]
}

func newSite(ctx context.Context, c *fleet.Connection, options *Options, cache *rules.Cache) (*site, error) {
	client, err := metadata.NewForConfigAndClient(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a metadata client for cluster %q: %w", c.Name, err)
	}
	bodies, err := dynamic.NewForConfigAndClient(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for whole objects of cluster %q: %w", c.Name, err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(c.Spoke.GetConfig(), c.Spoke.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a discovery client for cluster %q: %w", c.Name, err)
	}
	hub, err := metadata.NewForConfigAndClient(c.Hub.GetConfig(), c.Hub.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a metadata client for the hub: %w", err)
	}
	packer, err := packed.New()
	if err != nil {
		return nil, fmt.Errorf("making what opens cached objects of cluster %q: %w", c.Name, err)
	}
	hash := sha256.Sum256([]byte(c.HubHost))
	s := &site{
		ctx: ctx, connection: c, options: options,
		hubHash: hex.EncodeToString(hash[:]),
		hub:     hub,
		packer:  packer,
		member:  apply.NewMember(client, bodies, writesPerMember),
		kinds:   apply.NewKinds(discoverer.ServerResourcesForGroupVersion, options.Clock),
		states:  map[string]*state{},
		rules:   cache,
		leaving: map[types.UID]struct{}{},
		waiting: map[apply.Object]map[string]struct{}{},
		denials: map[string]int{},
	}
	s.arrivals = newArrivals(ctx, client, c.Go, func(work string) { s.queue.Add(Request{Cluster: c.Name, Work: work}) })
	s.inventory = inventory.New(inventory.Options{
		Client: client, Go: c.Go, Changed: s.objectChanged, TypeChanged: s.typeChanged,
	})
	s.guard, err = executor.New(ctx, executor.Options{
		Config: c.Spoke.GetConfig(), Client: c.Spoke.GetHTTPClient(), Clock: options.Clock, Parallel: reviewsPerMember,
		Keep: options.KeepExecutorDecisions, Go: c.Go, Changed: s.permissionsChanged,
	})
	if err != nil {
		return nil, fmt.Errorf("watching over the executors of cluster %q: %w", c.Name, err)
	}
	s.lookout = inventory.NewObjectWatcher(inventory.ObjectWatcherOptions{
		Client: client, Go: c.Go, Max: options.MaxFeedbackWatch, Changed: s.sightChanged,
	})
	return s, nil
}

// enter takes a place among the works of this cluster that are in hand. If
// there is none, the request comes again when one is free.
func (s *site) enter(request Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight < s.options.WorkersPerCluster {
		s.inFlight++
		return true
	}
	if !slices.Contains(s.parked, request) {
		s.parked = append(s.parked, request)
	}
	return false
}

func (s *site) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if len(s.parked) > 0 {
		s.queue.Add(s.parked[0])
		s.parked = s.parked[1:]
	}
}

// state returns what is remembered of a work.
func (s *site) state(work string) *state {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.states[work]
	if !ok {
		st = &state{}
		s.states[work] = st
	}
	return st
}

// forget drops what is remembered of a work that is gone, and of its record.
func (s *site) forget(work string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookout.Use(s.ctx, work, nil)
	delete(s.states, work)
	s.arrivals.wait(work, lack{})
	delete(s.denials, work)
	for object, works := range s.waiting {
		delete(works, work)
		if len(works) == 0 {
			delete(s.waiting, object)
		}
	}
}

func (s *site) setLeaving(owner types.UID, leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leaving {
		s.leaving[owner] = struct{}{}
		return
	}
	delete(s.leaving, owner)
}

// await makes a work come again when an object that it does not own changes.
func (s *site) await(work string, object apply.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[object] == nil {
		s.waiting[object] = map[string]struct{}{}
	}
	s.waiting[object][work] = struct{}{}
}

// recordName returns the name of the AppliedManifestWork of a work.
func (s *site) recordName(work string) string { return s.hubHash + "-" + work }

// request returns what to look at when something of the record changed.
func (s *site) request(record string) Request {
	if work, ok := strings.CutPrefix(record, s.hubHash+"-"); ok {
		return Request{Cluster: s.connection.Name, Work: work}
	}
	return Request{Cluster: s.connection.Name, Applied: record}
}

// objectChanged is called by the inventory.
func (s *site) objectChanged(change inventory.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change.Minor {
		for _, owner := range change.Owners {
			s.observed(s.request(owner.Name), change.Object)
		}
		return
	}
	for _, owner := range change.Owners {
		if _, leaving := s.leaving[owner.UID]; leaving && change.Gone && s.inventory.Owns(owner.UID) > 0 {
			continue
		}
		s.queue.Add(s.request(owner.Name))
	}
	for work := range s.waiting[change.Object] {
		s.queue.Add(Request{Cluster: s.connection.Name, Work: work})
	}
	delete(s.waiting, change.Object)
	if change.Object.Resource == "customresourcedefinitions" {
		s.arrivals.came(change.Object.Resource, change.Object.Name)
	}
}

// sightChanged is called by the object watcher, whose users are works.
func (s *site) sightChanged(object apply.Object, works []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, work := range works {
		s.observed(Request{Cluster: s.connection.Name, Work: work}, object)
	}
}

// observed makes a work come again if it observes the object that changed, as
// soon as its pace allows. Call it with the lock held.
func (s *site) observed(request Request, object apply.Object) {
	st := s.states[request.Work]
	if st == nil {
		return
	}
	if wait, observes := st.observing.Load().wait(object, s.options.Clock.Now()); observes {
		s.queue.AddAfter(request, wait)
	}
}

// typeChanged is called by the inventory, whose users are records.
func (s *site) typeChanged(_ schema.GroupResource, records []string) {
	for _, record := range records {
		s.queue.Add(s.request(record))
	}
}

// bind returns a context that ends with the connection, too.
func (s *site) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// newest returns the one of two states of an object that was written later:
// what we wrote may be ahead of the cache.
func newest[T metav1.Object](cached, written T) T {
	if order, err := resourceversion.CompareResourceVersion(written.GetResourceVersion(), cached.GetResourceVersion()); err == nil && order > 0 {
		return written
	}
	return cached
}

// ahead returns the work as the cache has it, or with the status that was
// written if the cache does not have that yet.
func (st *state) ahead(cached, written *workv1.ManifestWork) *workv1.ManifestWork {
	if written == nil || written.UID != cached.UID || newest(cached, written) == cached {
		st.work.CompareAndSwap(written, nil) // the cache has caught up
		return cached
	}
	if written.Generation != cached.Generation {
		return cached // what we wrote was about a later generation; its event is to come
	}
	merged := *cached
	merged.Status, merged.ResourceVersion = written.Status, written.ResourceVersion
	return &merged
}

// managerOf returns the field manager of the work with the record. It is not
// the same for two works, so that what one lets go of, the other keeps.
func managerOf(record string) string {
	sum := sha256.Sum256([]byte(record))
	return workv1.DefaultFieldManager + "-" + hex.EncodeToString(sum[:8])
}
