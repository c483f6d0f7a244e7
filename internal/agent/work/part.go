// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/interpreters"
	"github.com/capstan-io/capstan/internal/agent/work/runtime"
	"github.com/capstan-io/capstan/internal/agent/work/throttle"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/server/tracing"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// Defaults of PartOptions, and limits that have no option.
const (
	// DefaultWorkers is how many works are in hand at a time.
	DefaultWorkers = 16
	// DefaultStatusSyncInterval is how often objects that are only read are read.
	DefaultStatusSyncInterval = 10 * time.Second
	// DefaultEvictionGracePeriod is how long objects stay that no agent takes care of.
	DefaultEvictionGracePeriod = time.Hour
	// DefaultListDelay is after how long a record lists what was applied while
	// many works wait.
	DefaultListDelay = 10 * time.Second
	// DefaultMaxFeedbackWatch is how many objects are watched that are only read.
	DefaultMaxFeedbackWatch = 50
	// EvictionNever is a grace period that means never.
	EvictionNever = 100 * 365 * 24 * time.Hour

	// reporter is the name by which the agent records Events about works.
	reporter = "work-agent"
	// waitingFew is how many works may wait in the queue before what can wait does.
	waitingFew = 8
	// writesPerMember is how many requests to one member are under way at a time.
	writesPerMember = 32
	// writesPerWork is how many of them are for one work, so that a big one does
	// not hold up the others.
	writesPerWork = 8
	// reviewsPerMember is how many questions to one member about the rights of
	// executors are under way at a time.
	reviewsPerMember = 32
)

// PartOptions of a ManifestWorkPart.
type PartOptions struct {
	Logger logr.Logger
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Workers is how many works are in hand at a time. Defaults to DefaultWorkers.
	Workers int
	// WorkersPerCluster is how many of them are of one cluster at most, as long as
	// others do not need them. Defaults to Workers.
	WorkersPerCluster int
	// StatusSyncInterval is how often objects are read of whose changes nothing
	// tells: those with updateStrategy ReadOnly, and of types that may not be
	// watched. Defaults to DefaultStatusSyncInterval.
	StatusSyncInterval time.Duration
	// ListDelay is the longest time after which the status of an AppliedManifestWork
	// lists what was applied while many works wait; otherwise it does before the hub
	// hears of it. Defaults to DefaultListDelay.
	ListDelay time.Duration
	// EvictionGracePeriod is how long objects stay on a member after their
	// ManifestWork vanished without a deletion, or the agent moved to another
	// hub. Defaults to DefaultEvictionGracePeriod; EvictionNever or more is never.
	EvictionGracePeriod time.Duration
	// KeepExecutorDecisions makes the part keep what executors may do, until
	// roles or bindings change, instead of asking before each write (feature gate
	// ExecutorValidatingCaches).
	KeepExecutorDecisions bool
	// Interpreter knows kinds. Defaults to what Capstan knows by itself.
	Interpreter interpret.Chain
	// Feedback is how fields are reported.
	Feedback feedback.ValueOptions
	// MaxFeedbackWatch is how many objects with updateStrategy ReadOnly are watched
	// for feedbackScrapeType Watch, in each cluster. The others are read every
	// StatusSyncInterval. Defaults to DefaultMaxFeedbackWatch; less than 0 is none.
	MaxFeedbackWatch int
	// Tracer traces deliveries; nil does not.
	Tracer *tracing.Tracer
	// WebhookGuard says at which addresses webhooks of interpreters may be called. Nil
	// lets all be: an agent in a cluster is no way into the hub.
	WebhookGuard *dial.AddressGuard
	// Health reports the health of the objects of all works, not only of those
	// that ask for it.
	Health bool
}

// Request names something to look at.
type Request = runtime.WorkRequest

// ManifestWorkPart is the fleet.Part for works. Start has to be called for it to work.
type ManifestWorkPart struct {
	options    PartOptions
	controller controller.TypedController[Request]
	workers    *runtime.WorkerPool
	meter      *deliveryMetrics
	// answers and manifests are what these take of all clusters while they are decoded. Who has some of the second may
	// wait for the first, so these are two.
	answers, manifests *decoding.Memory
	// times are how long the expressions of each owner of works take.
	times *budget.OwnerTimes

	mu       sync.Mutex
	clusters map[fleet.ClusterName]*engagedCluster
	queue    workqueue.TypedRateLimitingInterface[Request] // nil before Start
	// rules are shared between works that have the same, of whatever cluster, and what
	// users of a hub say between all of its clusters.
	rules rules.RuleSetCache
	hubs  *interpreters.HubRegistry
	// reports are the limits of clusters, which outlive their connections.
	reports fleet.KeptState[*throttle.ReportThrottle]
}

// NewManifestWorkPart returns the part.
func NewManifestWorkPart(options PartOptions) (*ManifestWorkPart, error) {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Interpreter == nil {
		options.Interpreter = shipped.BuiltinChain()
	}
	options.Workers = cmp.Or(options.Workers, DefaultWorkers)
	options.WorkersPerCluster = cmp.Or(options.WorkersPerCluster, options.Workers)
	options.StatusSyncInterval = cmp.Or(options.StatusSyncInterval, DefaultStatusSyncInterval)
	options.ListDelay = cmp.Or(options.ListDelay, DefaultListDelay)
	options.MaxFeedbackWatch = cmp.Or(options.MaxFeedbackWatch, DefaultMaxFeedbackWatch)
	options.EvictionGracePeriod = cmp.Or(options.EvictionGracePeriod, DefaultEvictionGracePeriod)
	p := &ManifestWorkPart{
		options: options, clusters: map[fleet.ClusterName]*engagedCluster{},
		workers: runtime.NewWorkerPool(options.Workers, options.WorkersPerCluster), meter: newDeliveryMetrics(options.Clock),
		answers: decoding.NewMemory(options.Clock), manifests: decoding.NewMemory(options.Clock), times: budget.NewOwnerTimes(options.Clock),
		hubs: interpreters.NewHubRegistry(options.Logger, options.Clock, options.WebhookGuard),
	}
	anyName := true
	c, err := controller.NewTypedUnmanaged("work", controller.TypedOptions[Request]{
		SkipNameValidation:      &anyName,
		MaxConcurrentReconciles: options.Workers,
		Reconciler:              p,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Request](runtime.RetryMin, runtime.RetryMax),
		NewQueue:                p.newQueue,
		Logger:                  options.Logger,
		LogConstructor: func(request *Request) logr.Logger {
			logger := options.Logger.WithValues("part", "work")
			if request != nil {
				logger = logger.WithValues("cluster", request.Cluster, "work", cmp.Or(request.Work, request.Applied))
			}
			return logger
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller for works: %w", err)
	}
	p.controller = c
	return p, nil
}

// Name is part of fleet.Part.
func (p *ManifestWorkPart) Name() string { return "work" }

// Start works for the clusters that are engaged until ctx ends. Clusters can
// be engaged before and after it is called.
func (p *ManifestWorkPart) Start(ctx context.Context) error {
	if err := p.controller.Start(ctx); err != nil {
		return fmt.Errorf("working on manifestworks: %w", err)
	}
	return nil
}

// NeedLeaderElection tells a manager that only the leader works.
func (p *ManifestWorkPart) NeedLeaderElection() bool { return true }

// Engage is part of fleet.Part.
func (p *ManifestWorkPart) Engage(ctx context.Context, c *fleet.Connection) error {
	s, err := newEngagedCluster(ctx, c, p)
	if err != nil {
		return err
	}
	s.reports = p.reports.StateOf(ctx, p.options.Clock, c.Name, func() *throttle.ReportThrottle { return throttle.NewReportThrottle(p.options.Clock) })
	s.reports.ForgetUnused()
	s.meter = p.meter
	s.deliverer.Corrected = p.meter.corrections.Inc
	recorder := events.NewRecorder(c.Hub.GetEventRecorder(reporter)).WithLogger(p.options.Logger).WithDropCounter(p.meter.dropped)
	s.deliverer.Adopted = func(work *workv1.ManifestWork, note string) {
		recorder.Eventf(work, nil, corev1.EventTypeNormal, "ObjectAdopted", "Adopt", "%s", note)
	}
	started := make(chan struct{})
	err = p.controller.Watch(source.TypedFunc[Request](
		func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
			s.queue = queue
			close(started)
			return nil
		}))
	if err != nil {
		return fmt.Errorf("watching the works of cluster %q: %w", c.Name, err)
	}
	c.Go(func() {
		select {
		case <-started:
		case <-ctx.Done():
			return
		}
		s.joinInterpreters(p.hubs)
		defer s.interpreted.leaveHub()
		p.addCluster(s)
		defer p.removeCluster(s)
		s.watchWorks(ctx)
	})
	return nil
}

func (p *ManifestWorkPart) addCluster(s *engagedCluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clusters[s.connection.Name] = s
}

func (p *ManifestWorkPart) removeCluster(s *engagedCluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusters[s.connection.Name] == s {
		delete(p.clusters, s.connection.Name)
	}
}

func (p *ManifestWorkPart) clusterOf(name fleet.ClusterName) *engagedCluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clusters[name]
}
