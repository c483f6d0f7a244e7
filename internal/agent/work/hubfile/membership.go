// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubfile

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/agent/succession"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/watch"
	"github.com/capstan-io/capstan/internal/server/options"
)

const (
	// refusalPatience is how long the hub has to refuse what it allowed before
	// the agent believes it: one that starts may not know the roles for a moment.
	refusalPatience = 5 * time.Second
	// checkTimeout is how long the hub may take to say what the agent may do.
	checkTimeout = 10 * time.Second
)

// acceptance is what the hub says of the cluster.
type acceptance int

const (
	acceptanceUnknown acceptance = iota
	accepted
	notAccepted
	deleted
)

// membership keeps the cluster engaged while the hub accepts it.
type membership struct {
	options *FollowerOptions
	cluster string
	hub     *connect.HubTransport
	client  client.WithWatch
	cancel  context.CancelFunc
	running sync.WaitGroup
	// changed has an element after something was seen.
	changed chan struct{}

	mu   sync.Mutex
	seen clusterObservation
	// replaced says that another agent took this one's place since syncEngagement looked.
	replaced bool

	// Only the KubeconfigFollower's goroutine uses what follows.
	engaged bool
	told    bool // that the cluster is engaged
	checks  int
	checkAt time.Time
	denied  syncProblem // what the last check found
}

// clusterObservation is what was last seen of the ManagedCluster.
type clusterObservation struct {
	acceptance acceptance
	// succeeded says that another agent works for the cluster now.
	succeeded bool
	// err is why it is not known whether that still holds; nil if it does.
	err error
	// refused is since when the hub refuses to tell; zero if it does not.
	refused time.Time
}

func newMembership(options *FollowerOptions, hub *connect.HubTransport, cluster string) (*membership, error) {
	c, err := connect.HubClient(hub.ClientConfig())
	if err != nil {
		return nil, err
	}
	return &membership{
		options: options, cluster: cluster, hub: hub, client: c,
		cancel: func() {}, changed: make(chan struct{}, 1),
	}, nil
}

// followCluster begins to watch the ManagedCluster, until closeMembership.
func (m *membership) followCluster(ctx context.Context) {
	ctx, m.cancel = context.WithCancel(ctx)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: m.cluster}}
	run := watch.Watch[*clusterv1.ManagedCluster]{
		Source:  watch.SingleSource(m.client, mc, &clusterv1.ManagedClusterList{}, ""),
		Handler: watch.SingleHandler[*clusterv1.ManagedCluster](m.observeCluster), Clock: m.options.Clock,
	}
	m.running.Go(func() { run.RunReflector(ctx) })
}

// certificateRenewed makes the most of a new certificate: a hub that refused the old one
// is asked again at once.
func (m *membership) certificateRenewed(ctx context.Context) {
	m.mu.Lock()
	well := m.seen.err == nil
	m.mu.Unlock()
	m.checks = 0
	m.checkAt = time.Time{}
	if well {
		return
	}
	m.cancel()
	m.running.Wait()
	m.followCluster(ctx)
}

// closeMembership ends the watch and the connection.
func (m *membership) closeMembership() {
	m.cancel()
	m.running.Wait()
	m.disengageCluster()
}

func (m *membership) disengageCluster() {
	if m.engaged {
		m.options.Registry.Disengage(fleet.ClusterName(m.cluster))
	}
	m.engaged = false
	m.told = false
}

// observeCluster takes in the ManagedCluster, nil if there is none, or why it is not known.
func (m *membership) observeCluster(mc *clusterv1.ManagedCluster, err error) {
	m.mu.Lock()
	before := m.seen
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		if m.seen.err = err; m.seen.refused.IsZero() {
			m.seen.refused = m.options.Clock.Now()
		}
	case err != nil:
		m.seen.err = err
		m.seen.refused = time.Time{} // away: nothing is known to have changed
	case mc == nil:
		m.seen = clusterObservation{acceptance: deleted}
	case mc.Spec.HubAcceptsClient:
		m.seen = clusterObservation{acceptance: accepted, succeeded: succession.HasSuccessor(mc, m.options.AgentID)}
		m.replaced = m.replaced || m.seen.succeeded && !before.succeeded
	default:
		m.seen = clusterObservation{acceptance: notAccepted}
	}
	same := before.acceptance == m.seen.acceptance && before.err == nil && m.seen.err == nil && !m.replaced
	m.mu.Unlock()
	if same {
		return // most changes of a ManagedCluster are none of its acceptance
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// syncEngagement engages or disengages the cluster as the hub wants it. It returns when to
// call it again, zero for "when something was seen", and why works are not
// applied.
func (m *membership) syncEngagement(ctx context.Context) (again time.Duration, why syncProblem) {
	m.mu.Lock()
	seen := m.seen
	replaced := m.replaced
	m.replaced = false
	m.mu.Unlock()
	if replaced {
		m.leaveHub() // and find out whether it may work still
	}
	if !seen.refused.IsZero() {
		left := seen.refused.Add(refusalPatience).Sub(m.options.Clock.Now())
		if m.engaged && left > 0 {
			return left, syncProblem{}
		}
		m.leaveHub()
		return 0, m.explainRefusal(seen.err)
	}
	switch seen.acceptance {
	case accepted:
		return m.engageWhenPermitted(ctx)
	case notAccepted:
		m.leaveHub()
		return 0, syncProblem{kind: "notAccepted", text: fmt.Sprintf(
			"the hub does not accept ManagedCluster %q (spec.hubAcceptsClient is false); applied objects are left unchanged", m.cluster)}
	case deleted:
		m.leaveHub()
		return 0, syncProblem{kind: "deleted", text: fmt.Sprintf("ManagedCluster %q does not exist on the hub", m.cluster)}
	case acceptanceUnknown:
	}
	if seen.err != nil {
		return 0, syncProblem{kind: "away", text: fmt.Sprintf("reading ManagedCluster %q on the hub: %v", m.cluster, seen.err)}
	}
	return 0, syncProblem{}
}

func (m *membership) explainRefusal(err error) syncProblem {
	if apierrors.IsUnauthorized(err) {
		return syncProblem{kind: "unauthorized", text: fmt.Sprintf(
			"the hub rejects the client certificate; the registration agent has to get a new one: %v", err)}
	}
	return syncProblem{kind: "forbidden", text: fmt.Sprintf(
		"the agent may not read ManagedCluster %q and retries rarely; the hub's registration controller grants this permission: %v",
		m.cluster, err)}
}

// leaveHub ends the connection; the next one is checked for at once.
func (m *membership) leaveHub() {
	m.disengageCluster()
	m.checks = 0
	m.checkAt = time.Time{}
	m.denied = syncProblem{}
}

// engageWhenPermitted engages the cluster as soon as the agent may read its works.
func (m *membership) engageWhenPermitted(ctx context.Context) (again time.Duration, why syncProblem) {
	if m.engaged {
		return 0, syncProblem{}
	}
	if left := m.checkAt.Sub(m.options.Clock.Now()); left > 0 {
		return left, m.denied
	}
	err := m.checkWorkAccess(ctx)
	if err == nil {
		err = m.engageCluster(ctx)
	}
	if err == nil {
		m.denied = syncProblem{}
		return 0, syncProblem{}
	}
	m.checks++
	pause := connect.PermissionPause(m.checks)
	m.checkAt = m.options.Clock.Now().Add(pause)
	if pause > time.Second { // rights that follow the acceptance soon are not worth a word
		m.denied = syncProblem{kind: "cannotWork", text: err.Error()}
	}
	return pause, m.denied
}

// checkWorkAccess returns an error as long as the works cannot be read.
func (m *membership) checkWorkAccess(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := m.client.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(m.cluster), client.Limit(1)); err != nil {
		return fmt.Errorf("the hub accepts the cluster, but its works cannot be read: %w", err)
	}
	return nil
}

// engageCluster makes a new connection: caches cannot be used again.
func (m *membership) engageCluster(ctx context.Context) error {
	config := options.LimitRequests(rest.CopyConfig(m.hub.ClientConfig()), m.options.QPS, m.options.Burst)
	hub, err := connect.HubCluster(config, m.cluster)
	if err != nil {
		return err
	}
	own := rest.CopyConfig(m.options.Member)
	if err := dial.ConfirmNotFound(own, ""); err != nil {
		return err
	}
	member, err := connect.MemberCluster(own)
	if err != nil {
		return err
	}
	connection := &fleet.Connection{
		Name: fleet.ClusterName(m.cluster), AgentID: m.options.AgentID, HubHost: m.hub.CurrentEndpoint().Server,
		Hub: hub, Spoke: member,
	}
	if err := succession.TakeOverConnection(ctx, connection); err != nil {
		return err
	}
	err = m.options.Registry.Engage(ctx, connection)
	m.engaged = err == nil
	return err
}
