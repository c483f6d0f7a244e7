// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/agent/succession"
	"github.com/capstan-io/capstan/internal/agent/work/deliver"
	"github.com/capstan-io/capstan/internal/agent/work/executor"
	"github.com/capstan-io/capstan/internal/agent/work/forgotten"
	"github.com/capstan-io/capstan/internal/agent/work/interpreters"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/observe"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/removal"
	"github.com/capstan-io/capstan/internal/agent/work/runtime"
	"github.com/capstan-io/capstan/internal/agent/work/throttle"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/declared"
)

// cluster is what the part has for one connection: nothing in it outlives that but reports.
type cluster struct {
	ctx        context.Context // the connection's; ends passes that are under way
	connection *fleet.Connection
	options    *Options
	meter      *meter
	queue      workqueue.TypedRateLimitingInterface[Request]

	slots     *runtime.Slots
	waiters   runtime.Waiters
	leaving   runtime.Leaving
	denials   runtime.Denials
	postponed runtime.Postponed // works whose records are to be listed
	arrivals  *arrivals
	handover  *succession.Handover
	forgotten *forgotten.Keeper
	// interpreted is what users of the hub say.
	interpreted interpreted

	works     *runtime.Works
	ledger    *ledger.Ledger
	finder    plan.Finder
	guard     *executor.Guard
	inventory *inventory.Inventory
	deliverer *deliver.Deliverer
	remover   *removal.Remover
	observer  *observe.Observer
	reports   *throttle.Reports

	mu       sync.Mutex
	memories map[string]*memory // by work, or by record if there is no work
}

// memory is what is remembered of a work from pass to pass. Only the pass that
// is under way uses it, but for what says otherwise.
type memory struct {
	plan     *plan.Plan
	retries  runtime.Retries
	work     runtime.WorkMemory
	record   ledger.Memory
	observed observe.Memory
	reports  *throttle.Memory
	// leavingSince is when the deletion was first seen.
	leavingSince time.Time
	// deleting says that the work was deleted: what is under way may stop, and
	// interrupt, if there is one, stops it.
	deleting  atomic.Bool
	interrupt atomic.Pointer[context.CancelFunc]
	// state is what the work is counted as, and times are since when it waits.
	// Both are safe for concurrent use.
	state atomic.Uint32
	times times
}

// clients are those that a cluster needs beside the ones of its connection.
type clients struct {
	hub, spoke metadata.Interface
	discovery  *discovery.DiscoveryClient
}

func newClients(c *fleet.Connection) (made clients, err error) {
	config := c.Spoke.GetConfig()
	spoke := c.Spoke.GetHTTPClient()
	if made.spoke, err = metadata.NewForConfigAndClient(config, spoke); err != nil {
		return made, fmt.Errorf("making a metadata client for cluster %q: %w", c.Name, err)
	}
	if made.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, spoke); err != nil {
		return made, fmt.Errorf("making a discovery client for cluster %q: %w", c.Name, err)
	}
	if made.hub, err = metadata.NewForConfigAndClient(c.Hub.GetConfig(), c.Hub.GetHTTPClient()); err != nil {
		return made, fmt.Errorf("making a metadata client for the hub: %w", err)
	}
	return made, nil
}

// newCluster returns what the part has for a connection until ctx ends.
func newCluster(ctx context.Context, c *fleet.Connection, p *Part) (*cluster, error) {
	options := &p.options
	clients, err := newClients(c)
	if err != nil {
		return nil, err
	}
	works, err := compressed.Works(c.Hub.GetCache())
	if err != nil {
		return nil, fmt.Errorf("reading the works of cluster %q: %w", c.Name, err)
	}
	records, err := compressed.Records(c.Spoke.GetCache())
	if err != nil {
		return nil, fmt.Errorf("reading the records of cluster %q: %w", c.Name, err)
	}
	s := &cluster{ctx: ctx, connection: c, options: options, memories: map[string]*memory{}, handover: succession.NewHandover(c)}
	s.slots = p.workers.Slots(func(request Request) { s.queue.Add(request) })
	s.arrivals = newArrivals(ctx, clients.spoke, c.Go, func(work string) { s.queue.Add(s.request(work)) })
	s.works = &runtime.Works{
		Cached: works, Client: c.Hub.GetClient(), Reader: c.Hub.GetAPIReader(), Metadata: clients.hub, Namespace: string(c.Name),
	}
	s.inventory = inventory.New(inventory.Options{
		Client: clients.spoke, Go: c.Go, Changed: s.objectChanged, TypeChanged: s.typeChanged,
	})
	s.guard, err = executor.New(ctx, executor.Options{
		Config: c.Spoke.GetConfig(), Client: c.Spoke.GetHTTPClient(), Clock: options.Clock, Parallel: reviewsPerMember,
		Keep: options.KeepExecutorDecisions, Go: c.Go, Changed: s.permissionsChanged,
	})
	if err != nil {
		return nil, fmt.Errorf("watching the permissions of executors of cluster %q: %w", c.Name, err)
	}
	kinds := apply.NewKinds(clients.discovery.ServerResourcesForGroupVersion, options.Clock)
	member, err := apply.NewMember(apply.MemberOptions{
		Config: c.Spoke.GetConfig(), Client: c.Spoke.GetHTTPClient(), Parallel: writesPerMember, Memory: p.memory, Cluster: string(c.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	s.finder = plan.Finder{Find: kinds.Find, Rules: &p.rules, Kinds: options.Interpreter}
	s.ledger = ledger.New(ledger.Options{
		Life: ctx, Cached: records, Client: c.Spoke.GetClient(), Reader: c.Spoke.GetAPIReader(),
		Inventory: s.inventory, Member: member, Clock: options.Clock,
		HubHost: c.HubHost, AgentID: c.AgentID, Predecessor: c.Predecessor,
		Busy: s.busy, ListDelay: options.ListDelay, Postponed: s.postponed.Add,
	})
	s.deliverer = &deliver.Deliverer{
		Inventory: s.inventory, Member: member, Kinds: kinds, Ledger: s.ledger, Clock: options.Clock,
		Declared: declared.New(clients.discovery.RESTClient(), options.Clock, p.memory, string(c.Name)), Parallel: writesPerWork, ReadInterval: options.StatusSyncInterval,
	}
	s.remover = &removal.Remover{
		Inventory: s.inventory, Member: member, Kinds: kinds, Clock: options.Clock, Parallel: writesPerMember, Leaving: s.leaving.Set,
	}
	s.observer = &observe.Observer{
		Life: ctx, Inventory: s.inventory, Member: member, Clock: options.Clock,
		Feedback: options.Feedback, Interval: options.StatusSyncInterval, Parallel: writesPerWork,
		Objects: inventory.NewObjectWatcher(inventory.ObjectWatcherOptions{
			Client: clients.spoke, Go: c.Go, Max: options.MaxFeedbackWatch, Changed: s.unmanagedChanged,
		}),
	}
	s.forgotten, err = forgotten.New(ctx, forgotten.Options{
		Connection: c, Orphans: s.orphans, Log: options.Logger,
		Again: func(record *workv1.AppliedManifestWork) { s.queue.Add(s.requestOf(record)) },
	})
	return s, err
}

// customize begins to ask the users of the hub what they say of kinds.
func (s *cluster) customize(hubs *interpreters.Hubs) {
	s.interpreted.join(s.ctx, hubs, s.connection, func(work string) { s.queue.Add(s.request(work)) })
	s.finder.Bound, s.finder.Said = s.interpreted.hub.Chain(s.options.Interpreter), s.interpreted.hub.Said
	s.deliverer.Interpret = s.finder.Bound
}

// orphans returns our records whose works the hub does not have.
func (s *cluster) orphans(ctx context.Context) (orphans []*workv1.AppliedManifestWork, err error) {
	records, err := compressed.ListRecords(ctx, s.ledger.Cached)
	if err != nil {
		return nil, fmt.Errorf("listing the records of cluster %q: %w", s.connection.Name, err)
	}
	for i := range records {
		record := &records[i]
		there := false
		if !s.ledger.Cares(record) || record.DeletionTimestamp != nil {
			continue
		}
		if work, ofHub := s.ledger.SubjectOf(record); ofHub {
			there, err = s.works.Cached.Has(ctx, client.ObjectKey{Namespace: string(s.connection.Name), Name: work})
			if err != nil {
				return nil, fmt.Errorf("looking for the work of appliedmanifestwork %q: %w", record.Name, err)
			}
		}
		if !there {
			orphans = append(orphans, record)
		}
	}
	return orphans, nil
}

// request returns what to look at for a work.
func (s *cluster) request(work string) Request {
	return Request{Cluster: s.connection.Name, Work: work}
}

// requestFor returns what to look at when something of the record changed.
func (s *cluster) requestFor(record string) Request {
	if work, ok := s.ledger.Subject(record); ok {
		return s.request(work)
	}
	return Request{Cluster: s.connection.Name, Applied: record}
}

// requestOf returns what to look at when a record changed, which may be a keeper.
func (s *cluster) requestOf(record *workv1.AppliedManifestWork) Request {
	if work, ok := s.ledger.SubjectOf(record); ok {
		return s.request(work)
	}
	return Request{Cluster: s.connection.Name, Applied: record.Name}
}

// memory returns what is remembered of a request's work.
func (s *cluster) memory(request Request) *memory {
	name := cmp.Or(request.Work, request.Applied)
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.memories[name]
	if !ok {
		m = &memory{reports: s.reports.Memory(name)}
		s.memories[name] = m
	}
	return m
}

// remembered returns what is remembered of a request's work, nil if nothing is.
func (s *cluster) remembered(request Request) *memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memories[cmp.Or(request.Work, request.Applied)]
}

// forget drops what is remembered of a work that is gone, and of its record.
func (s *cluster) forget(work string) {
	s.observer.Forget(work)
	s.arrivals.wait(work, lack{})
	s.denials.Forget(work)
	s.waiters.Forget(work)
	s.interpreted.use(work, nil)
	s.reports.Forget(work)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.memories, work)
}

// busy tells whether many works wait, of whatever cluster.
func (s *cluster) busy() bool { return s.queue.Len() > waitingFew }

// catchUp brings back one of the works that can wait, once few wait, after a
// pass of a work is over.
func (s *cluster) catchUp(over string) {
	s.postponed.Done(over)
	if s.busy() {
		return
	}
	if work, ok := s.postponed.Take(); ok {
		s.queue.Add(s.request(work))
	}
}

// bind returns a context that ends with the connection, too.
func (s *cluster) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
