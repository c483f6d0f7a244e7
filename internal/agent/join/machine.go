// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// fileAgain is the time after which a bootstrap kubeconfig in a file is read
// again.
const fileAgain = 30 * time.Second

// Admission is what an agent has that the hub let in.
type Admission struct {
	// Cluster is the name of the ManagedCluster, Agent the agent's own.
	Cluster, Agent string
	// Hub is the way to the hub. Its certificate is renewed in place.
	Hub *connect.Hub
}

// Options of a Machine.
type Options struct {
	// Home is where the agent's own secrets are, Namespace where they are there.
	Home      client.WithWatch
	Namespace string
	// ClusterName is the name to join under. Defaults to the name in the hub
	// credential, or a new UUID.
	ClusterName string
	// BootstrapFile is a kubeconfig to use if there is no secret with one.
	BootstrapFile string
	// Announce returns what to say of the cluster. It is called until it
	// succeeds, and not at all if the ManagedCluster need not be created.
	Announce func(ctx context.Context) (Announcement, error)
	// ExpirationSeconds is the lifetime of client certificates to ask for.
	// Defaults to that of the signer.
	ExpirationSeconds int32
	// Engage starts the parts for the cluster, Disengage ends them and returns
	// when they have ended. A certificate that is renewed calls neither.
	Engage    func(ctx context.Context, admission Admission) error
	Disengage func()
	// Rotated is called after the certificate was renewed or could not be; see
	// Machine.Rotation. May be nil.
	Rotated func()
	// Clock defaults to the real one.
	Clock clock.Clock
	Log   logr.Logger
}

// Machine brings the agent into the hub and keeps it there.
type Machine struct {
	// Expiry is that of the client certificate for the hub.
	Expiry Expiry

	options  Options
	loop     *fleet.Loop
	reporter *reporter
	inbox    *inbox

	mu       sync.Mutex
	rotation *metav1.Condition

	// group has what runs beside the loop; only the loop uses what follows.
	group     sync.WaitGroup
	state     *state
	intake    *intake
	watches   *watches
	announced *Announcement
}

// New returns a Machine that has not begun.
func New(options Options) *Machine {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	m := &Machine{options: options}
	m.inbox = &inbox{kick: func() { m.loop.Kick() }}
	m.state = &state{facts: facts{WantedName: options.ClusterName}, doubt: m.Doubt}
	m.intake = &intake{options: options, state: m.state, inbox: m.inbox}
	m.watches = &watches{options: options, state: m.state, inbox: m.inbox, group: &m.group, running: map[string]*following{}}
	m.reporter = newReporter(options.Home, options.Namespace, options.Clock)
	m.loop = fleet.NewLoop(m.step)
	m.loop.Clock = options.Clock
	m.loop.Failed = func(_ context.Context, err error) {
		options.Log.Info("The agent has not joined yet and tries again", "reason", reasonOf(err), "problem", err.Error())
	}
	return m
}

// Run works until ctx ends, and returns when the parts have ended.
func (m *Machine) Run(ctx context.Context) {
	defer m.group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.group.Go(func() { m.reporter.run(ctx) })
	m.watches.followHome(ctx)
	m.loop.Start(ctx)
	for slot := range m.watches.running {
		m.watches.unfollow(slot)
	}
	if m.state.facts.Engaged != nil {
		m.options.Disengage()
	}
	if m.state.hub != nil {
		m.state.hub.hub.Close()
	}
}

// SeeCluster tells the machine the ManagedCluster as the parts' cache has it;
// nil if it is gone. It returns at once.
func (m *Machine) SeeCluster(mc *clusterv1.ManagedCluster) {
	fact := clusterFactOf(mc, true)
	m.inbox.see(func(in *incoming) { in.cluster = &fact })
}

// Doubt makes the machine ask the hub whether the agent has its rights still.
// It returns at once.
func (m *Machine) Doubt() { m.inbox.see(func(in *incoming) { in.refused = true }) }

// Trust tells the machine that the hub at the endpoint publishes another CA, which
// verifies it. It returns at once.
func (m *Machine) Trust(endpoint connect.Endpoint) {
	m.inbox.see(func(in *incoming) { in.published = &endpoint })
}

// Rotation returns how the latest renewal of the certificate ended, as a
// condition of the ManagedCluster, or nil if there was none.
func (m *Machine) Rotation() *metav1.Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rotation.DeepCopy()
}

// Step tells where the handshake is, as it is written for the Klusterlet.
func (m *Machine) Step() (reason, message string) { return m.reporter.current() }

// step is one round: look, decide, act.
func (m *Machine) step(ctx context.Context) (time.Duration, error) {
	if err := m.intake.take(ctx); err != nil {
		m.reportError(ctx, err)
		return 0, err
	}
	m.Expiry.note(m.state.facts.Hub)
	d := decide(m.state.facts)
	if m.options.BootstrapFile != "" && !m.state.bootstrapInSecret {
		d.Again = min(d.Again, fileAgain)
	}
	m.watches.follow(ctx, d)
	if d.Reason != "" {
		m.reporter.set(d.Reason, d.Message)
	}
	if d.Do == doNothing {
		return d.Again, nil
	}
	if err := m.perform(ctx, d.Do); err != nil {
		m.reportError(ctx, err)
		return 0, err
	}
	m.loop.Kick() // what was done changed the facts
	return d.Again, nil
}

func (m *Machine) reportError(ctx context.Context, err error) {
	var step *stepError
	if errors.As(err, &step) && ctx.Err() == nil {
		m.reporter.set(step.reason, sentence(step.Error()))
	}
}

func (m *Machine) perform(ctx context.Context, do action) error {
	switch do {
	case doStartOver:
		return m.startOver(ctx)
	case doRegister:
		return m.register(ctx)
	case doRenew:
		return m.renew(ctx)
	case doStore:
		return m.store(ctx)
	case doNote:
		return m.note(ctx)
	case doVerify:
		return m.verify(ctx)
	case doEngage:
		return m.engage(ctx)
	case doDisengage:
		return m.disengage()
	case doForget:
		return m.forget(ctx)
	case doTrust:
		return m.trust(ctx)
	}
	return nil
}

func reasonOf(err error) string {
	var step *stepError
	if errors.As(err, &step) {
		return step.reason
	}
	return ""
}
