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
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

// engagedCluster is what the part has for one connection: nothing in it outlives that but reports.
type engagedCluster struct {
	ctx        context.Context // the connection's; ends passes that are under way
	connection *fleet.Connection
	options    *PartOptions
	meter      *deliveryMetrics
	times      *budget.OwnerTimes
	queue      workqueue.TypedRateLimitingInterface[Request]

	slots     *runtime.ClusterSlots
	waiters   runtime.ObjectWaiters
	leaving   runtime.LeavingOwners
	denials   runtime.ExecutorDenials
	postponed runtime.PostponedWorks // works whose records are to be listed
	arrivals  *arrivalWatcher
	handover  *succession.HandoverFollower
	forgotten *forgotten.MissingWorksKeeper
	// interpreted is what users of the hub say.
	interpreted interpretedWorks

	works     *runtime.HubWorks
	ledger    *ledger.Ledger
	finder    plan.KindFinder
	guard     *executor.PermissionGuard
	inventory *inventory.Inventory
	deliverer *deliver.Deliverer
	remover   *removal.ObjectRemover
	observer  *observe.MemberObserver
	reports   *throttle.ReportThrottle

	mu       sync.Mutex
	memories map[string]*passMemory // by work, or by record if there is no work
}

// passMemory is what is remembered of a work from pass to pass. Only the pass that
// is under way uses it, but for what says otherwise.
type passMemory struct {
	plan     *plan.Plan
	retries  runtime.RetryBackoff
	work     runtime.WorkMemory
	record   ledger.RecordMemory
	observed observe.ObservationMemory
	// leavingSince is when the deletion was first seen.
	leavingSince time.Time
	// deleting says that the work was deleted: what is under way may stop, and
	// interrupt, if there is one, stops it.
	deleting  atomic.Bool
	interrupt atomic.Pointer[context.CancelFunc]
	// state is what the work is counted as, and times are since when it waits.
	// Both are safe for concurrent use.
	state atomic.Uint32
	times latencyTimes
}

// clusterClients are those that a cluster needs beside the ones of its connection.
type clusterClients struct {
	hub, spoke metadata.Interface
	discovery  *discovery.DiscoveryClient
}

func newClusterClients(c *fleet.Connection) (made clusterClients, err error) {
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

// newEngagedCluster returns what the part has for a connection until ctx ends.
func newEngagedCluster(ctx context.Context, c *fleet.Connection, p *ManifestWorkPart) (*engagedCluster, error) {
	options := &p.options
	clients, err := newClusterClients(c)
	if err != nil {
		return nil, err
	}
	works, err := compressed.NewWorkStore(c.Hub.GetCache())
	if err != nil {
		return nil, fmt.Errorf("reading the works of cluster %q: %w", c.Name, err)
	}
	records, err := compressed.NewRecordStore(c.Spoke.GetCache())
	if err != nil {
		return nil, fmt.Errorf("reading the records of cluster %q: %w", c.Name, err)
	}
	s := &engagedCluster{ctx: ctx, connection: c, options: options, times: p.times, memories: map[string]*passMemory{}, handover: succession.NewHandoverFollower(c)}
	s.slots = p.workers.SlotsFor(func(request Request) { s.queue.Add(request) }, func(request Request) string { return s.ownerOf(ctx, request) })
	s.arrivals = newArrivalWatcher(ctx, clients.spoke, c.Go, func(work string) { s.queue.Add(s.workRequest(work)) })
	s.works = &runtime.HubWorks{
		Cached: works, Client: c.Hub.GetClient(), Reader: c.Hub.GetAPIReader(), Metadata: clients.hub, Namespace: string(c.Name),
	}
	s.inventory = inventory.NewInventory(inventory.WatchOptions{
		Client: clients.spoke, Go: c.Go, Changed: s.objectChanged, TypeChanged: s.typeChanged,
	})
	s.guard, err = executor.NewPermissionGuard(ctx, executor.GuardOptions{
		Config: c.Spoke.GetConfig(), Client: c.Spoke.GetHTTPClient(), Clock: options.Clock, Parallel: reviewsPerMember,
		Keep: options.KeepExecutorDecisions, Go: c.Go, Changed: s.permissionsChanged,
	})
	if err != nil {
		return nil, fmt.Errorf("watching the permissions of executors of cluster %q: %w", c.Name, err)
	}
	kinds := apply.NewKindResolver(clients.discovery.ServerResourcesForGroupVersion, options.Clock)
	member, err := apply.NewMember(apply.MemberOptions{
		Config: c.Spoke.GetConfig(), Client: c.Spoke.GetHTTPClient(), Parallel: writesPerMember, Memory: p.answers, Cluster: string(c.Name),
	})
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	s.finder = plan.KindFinder{Find: kinds.FindResource, Rules: &p.rules, Kinds: options.Interpreter, Manifests: p.manifests}
	s.ledger = ledger.NewLedger(ledger.RecordLedgerOptions{
		Life: ctx, Cached: records, Client: c.Spoke.GetClient(), Reader: c.Spoke.GetAPIReader(),
		Inventory: s.inventory, Member: member, Clock: options.Clock,
		HubHost: c.HubHost, AgentID: c.AgentID, Predecessor: c.Predecessor,
		Busy: s.isQueueBusy, ListDelay: options.ListDelay, Postponed: s.postponed.PostponeWork,
	})
	s.deliverer = &deliver.Deliverer{
		Inventory: s.inventory, Member: member, Kinds: kinds, Ledger: s.ledger, Clock: options.Clock,
		Declared: declared.NewSchemaFields(clients.discovery.RESTClient(), options.Clock, p.answers, string(c.Name)), Manifests: p.manifests,
		Parallel: writesPerWork, ReadInterval: options.StatusSyncInterval,
	}
	s.remover = &removal.ObjectRemover{
		Inventory: s.inventory, Member: member, Kinds: kinds, Clock: options.Clock, Parallel: writesPerMember, Leaving: s.leaving.SetLeaving,
	}
	s.observer = &observe.MemberObserver{
		Life: ctx, Inventory: s.inventory, Member: member, Clock: options.Clock,
		Feedback: options.Feedback, Interval: options.StatusSyncInterval, Parallel: writesPerWork,
		Objects: inventory.NewObjectWatcher(inventory.ObjectWatcherOptions{
			Client: clients.spoke, Go: c.Go, Max: options.MaxFeedbackWatch, Changed: s.unmanagedChanged,
		}),
	}
	s.forgotten, err = forgotten.NewMissingWorksKeeper(ctx, forgotten.KeeperOptions{
		Connection: c, Orphans: s.orphanedRecords, Log: options.Logger,
		Again: func(record *workv1.AppliedManifestWork) { s.queue.Add(s.requestOf(record)) },
	})
	return s, err
}

// joinInterpreters begins to ask the users of the hub what they say of kinds.
func (s *engagedCluster) joinInterpreters(hubs *interpreters.HubRegistry) {
	s.interpreted.joinHubs(s.ctx, hubs, s.connection, func(work string) { s.queue.Add(s.workRequest(work)) })
	s.finder.Bound, s.finder.Said = s.interpreted.hub.InterpreterChain(s.options.Interpreter), s.interpreted.hub.RevisionOf
	s.deliverer.Interpret = s.finder.Bound
}

// orphanedRecords returns our records whose works the hub does not have.
func (s *engagedCluster) orphanedRecords(ctx context.Context) (orphans []*workv1.AppliedManifestWork, err error) {
	records, err := compressed.ListRecords(ctx, s.ledger.Cached)
	if err != nil {
		return nil, fmt.Errorf("listing the records of cluster %q: %w", s.connection.Name, err)
	}
	for i := range records {
		record := &records[i]
		there := false
		if !s.ledger.GovernsRecord(record) || record.DeletionTimestamp != nil {
			continue
		}
		if work, ofHub := s.ledger.SubjectWorkOf(record); ofHub {
			there, err = s.works.Cached.HasObject(ctx, client.ObjectKey{Namespace: string(s.connection.Name), Name: work})
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

// ownerOf returns who has the work of a request, "" for nobody in particular.
func (s *engagedCluster) ownerOf(ctx context.Context, request Request) string {
	if request.Work == "" { // it is about a record
		return ""
	}
	work, err := s.works.Cached.GetMarks(ctx, client.ObjectKey{Namespace: string(s.connection.Name), Name: request.Work})
	if err != nil { // which whoever reads the work finds out
		return ""
	}
	return plan.WorkOwner(work)
}

// workRequest returns what to look at for a work.
func (s *engagedCluster) workRequest(work string) Request {
	return Request{Cluster: s.connection.Name, Work: work}
}

// requestFor returns what to look at when something of the record changed.
func (s *engagedCluster) requestFor(record string) Request {
	if work, ok := s.ledger.SubjectWork(record); ok {
		return s.workRequest(work)
	}
	return Request{Cluster: s.connection.Name, Applied: record}
}

// requestOf returns what to look at when a record changed, which may be a keeper.
func (s *engagedCluster) requestOf(record *workv1.AppliedManifestWork) Request {
	if work, ok := s.ledger.SubjectWorkOf(record); ok {
		return s.workRequest(work)
	}
	return Request{Cluster: s.connection.Name, Applied: record.Name}
}

// memoryOf returns what is remembered of a request's work.
func (s *engagedCluster) memoryOf(request Request) *passMemory {
	name := cmp.Or(request.Work, request.Applied)
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.memories[name]
	if !ok {
		m = &passMemory{}
		s.memories[name] = m
	}
	return m
}

// existingMemory returns what is remembered of a request's work, nil if nothing is.
func (s *engagedCluster) existingMemory(request Request) *passMemory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memories[cmp.Or(request.Work, request.Applied)]
}

// forgetWork drops what is remembered of a work that is gone, and of its record.
func (s *engagedCluster) forgetWork(work string) {
	s.observer.ForgetWork(work)
	s.arrivals.setUnmetNeeds(work, unmetNeeds{})
	s.denials.ForgetWork(work)
	s.waiters.ForgetWork(work)
	s.interpreted.useKinds(work, nil)
	s.reports.ForgetWork(work)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.memories, work)
}

// isQueueBusy reports whether many works wait, of whatever cluster.
func (s *engagedCluster) isQueueBusy() bool { return s.queue.Len() > waitingFew }

// requeuePostponed brings back one of the works that can wait, once few wait, after a
// pass of a work is over.
func (s *engagedCluster) requeuePostponed(over string) {
	s.postponed.MarkDone(over)
	if s.isQueueBusy() {
		return
	}
	if work, ok := s.postponed.TakeNext(); ok {
		s.queue.Add(s.workRequest(work))
	}
}

// bindContext returns a context that ends with the connection, too.
func (s *engagedCluster) bindContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
