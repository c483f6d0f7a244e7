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

// AcceptedAgent is what an agent has that the hub let in.
type AcceptedAgent struct {
	// Cluster is the name of the ManagedCluster, Agent the agent's own.
	Cluster, Agent string
	// Hub is the way to the hub. Its certificate is renewed in place.
	Hub *connect.HubTransport
}

// MachineOptions of a HandshakeMachine.
type MachineOptions struct {
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
	Engage    func(ctx context.Context, admission AcceptedAgent) error
	Disengage func()
	// Rotated is called after the certificate was renewed or could not be; see
	// HandshakeMachine.RotationCondition. May be nil.
	Rotated func()
	// Clock defaults to the real one.
	Clock clock.Clock
	Log   logr.Logger
}

// HandshakeMachine brings the agent into the hub and keeps it there.
type HandshakeMachine struct {
	// Expiry is that of the client certificate for the hub.
	Expiry CertificateExpiry

	options  MachineOptions
	loop     *fleet.Loop
	reporter *joinReporter
	inbox    *inbox

	mu       sync.Mutex
	rotation *metav1.Condition

	// group has what runs beside the loop; only the loop uses what follows.
	group     sync.WaitGroup
	state     *joinState
	intake    *intake
	watches   *joinWatches
	announced *Announcement
}

// NewHandshakeMachine returns a HandshakeMachine that has not begun.
func NewHandshakeMachine(options MachineOptions) *HandshakeMachine {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	m := &HandshakeMachine{options: options}
	m.inbox = &inbox{kick: func() { m.loop.Kick() }}
	m.state = &joinState{facts: joinFacts{WantedName: options.ClusterName}, doubt: m.RecheckRights}
	m.intake = &intake{options: options, state: m.state, inbox: m.inbox}
	m.watches = &joinWatches{options: options, state: m.state, inbox: m.inbox, group: &m.group, running: map[string]*runningWatch{}}
	m.reporter = newReporter(options.Home, options.Namespace, options.Clock)
	m.loop = fleet.NewLoop(m.runHandshakeStep)
	m.loop.Clock = options.Clock
	m.loop.Failed = func(_ context.Context, err error) {
		options.Log.Info("The agent has not joined yet and tries again", "reason", stepReasonOf(err), "problem", err.Error())
	}
	return m
}

// RunHandshake works until ctx ends, and returns when the parts have ended.
func (m *HandshakeMachine) RunHandshake(ctx context.Context) {
	defer m.group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.group.Go(func() { m.reporter.runReporter(ctx) })
	m.watches.followHome(ctx)
	m.loop.Start(ctx)
	for slot := range m.watches.running {
		m.watches.stopWatch(slot)
	}
	if m.state.facts.Engaged != nil {
		m.options.Disengage()
	}
	if m.state.hub != nil {
		m.state.hub.hub.Close()
	}
}

// ObserveCluster tells the machine the ManagedCluster as the parts' cache has it;
// nil if it is gone. It returns at once.
func (m *HandshakeMachine) ObserveCluster(mc *clusterv1.ManagedCluster) {
	fact := clusterFactOf(mc, true)
	m.inbox.putIncoming(func(in *incomingFacts) { in.cluster = &fact })
}

// RecheckRights makes the machine ask the hub whether the agent has its rights still.
// It returns at once.
func (m *HandshakeMachine) RecheckRights() {
	m.inbox.putIncoming(func(in *incomingFacts) { in.refused = true })
}

// TrustEndpoint tells the machine that the hub at the endpoint publishes another CA, which
// verifies it. It returns at once.
func (m *HandshakeMachine) TrustEndpoint(endpoint connect.HubEndpoint) {
	m.inbox.putIncoming(func(in *incomingFacts) { in.published = &endpoint })
}

// RotationCondition returns how the latest renewal of the certificate ended, as a
// condition of the ManagedCluster, or nil if there was none.
func (m *HandshakeMachine) RotationCondition() *metav1.Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rotation.DeepCopy()
}

// CurrentStep tells where the handshake is, as it is written for the Klusterlet.
func (m *HandshakeMachine) CurrentStep() (reason, message string) { return m.reporter.currentStep() }

// runHandshakeStep is one round: look, decide, act.
func (m *HandshakeMachine) runHandshakeStep(ctx context.Context) (time.Duration, error) {
	if err := m.intake.gatherFacts(ctx); err != nil {
		m.reportError(ctx, err)
		return 0, err
	}
	m.Expiry.setExpiry(m.state.facts.Hub)
	d := decideNext(m.state.facts)
	if m.options.BootstrapFile != "" && !m.state.bootstrapInSecret {
		d.Again = min(d.Again, fileAgain)
	}
	m.watches.followDecision(ctx, d)
	if d.Reason != "" {
		m.reporter.setJoinStep(d.Reason, d.Message)
	}
	if d.Do == doNothing {
		return d.Again, nil
	}
	if err := m.performAction(ctx, d.Do); err != nil {
		m.reportError(ctx, err)
		return 0, err
	}
	m.loop.Kick() // what was done changed the facts
	return d.Again, nil
}

func (m *HandshakeMachine) reportError(ctx context.Context, err error) {
	var step *stepError
	if errors.As(err, &step) && ctx.Err() == nil {
		m.reporter.setJoinStep(step.reason, toSentence(step.Error()))
	}
}

func (m *HandshakeMachine) performAction(ctx context.Context, do joinAction) error {
	switch do {
	case doStartOver:
		return m.restartJoin(ctx)
	case doRegister:
		return m.registerCluster(ctx)
	case doRenew:
		return m.renewCertificate(ctx)
	case doStore:
		return m.storeCertificate(ctx)
	case doNote:
		return m.storeMembership(ctx)
	case doVerify:
		return m.verifyCredential(ctx)
	case doEngage:
		return m.engageParts(ctx)
	case doDisengage:
		return m.disengageParts()
	case doForget:
		return m.deletePendingKey(ctx)
	case doTrust:
		return m.trustPublishedCA(ctx)
	}
	return nil
}

func stepReasonOf(err error) string {
	var step *stepError
	if errors.As(err, &step) {
		return step.reason
	}
	return ""
}
