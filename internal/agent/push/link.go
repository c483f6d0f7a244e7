// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/fleet"
)

const (
	// probeEvery is the time between probes of a cluster that is well.
	probeEvery = 20 * time.Second
	// probeAgainMin and probeAgainMax bound the time between probes of one that is
	// not; it doubles.
	probeAgainMin = time.Second
	probeAgainMax = 10 * time.Second
	// probePause is the least time between two probes, whatever is in doubt.
	probePause = 200 * time.Millisecond
	// probesLost is how many probes in a row have to fail until a cluster that was
	// well counts as lost.
	probesLost = 2
)

// link is the life of one Push cluster. Only its loop uses the fields behind
// the mutex's block.
type link struct {
	agent *Agent
	name  string
	loop  *fleet.Loop
	// doubtful is set when a request failed, so that the cluster is probed soon.
	doubtful atomic.Bool

	mu     sync.Mutex
	secret *corev1.Secret
	// secretErr is why the Secret is not known, errUnread at the beginning.
	secretErr error

	target     target
	way        *way
	credential credential
	renewal    renewal
	// engaged says that the parts work for the cluster; failures is how many probes
	// in a row have failed.
	engaged  bool
	failures int
	// probed is when the last probe was, next when the next one is due.
	probed, next time.Time
	// outcome is what is told of the cluster; id is who it said to be.
	outcome outcome
	id      string
	// known is false until there is something to tell.
	known bool
}

// outcome is what is told of a cluster.
type outcome struct{ connected, credentials finding }

var errUnread = errors.New("it was not read yet")

func newLink(a *Agent, name string) *link {
	l := &link{agent: a, name: name, secretErr: errUnread}
	l.loop = fleet.NewLoop(l.pass)
	l.loop.Clock = a.options.Clock
	l.loop.Failed = func(_ context.Context, err error) {
		a.options.Log.Info("A Push cluster cannot be looked after and is tried again", "cluster", name, "problem", err.Error())
	}
	return l
}

// run looks after the cluster until ctx ends.
func (l *link) run(ctx context.Context) {
	l.loop.Start(ctx)
	l.drop()
}

// seeSecret is told of the Secret. An error of the hub does not make a token
// bad that is known.
func (l *link) seeSecret(secret *corev1.Secret, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !apierrors.IsForbidden(err) && l.secret != nil {
		return
	}
	l.secret, l.secretErr = secret, err
	l.loop.Kick()
}

// pass looks at everything that is known of the cluster, acts on it and says
// so. It returns when to look again.
func (l *link) pass(ctx context.Context) (time.Duration, error) {
	connection, cluster, err := l.agent.read(ctx, l.name)
	if err != nil || connection == nil || connection.Spec.SyncMode != fleetv1alpha1.SyncModePush {
		return 0, err // the link is about to end
	}
	again, err := l.advance(ctx, connection, cluster)
	if err != nil || !l.known || ctx.Err() != nil {
		return 0, err
	}
	return again, l.agent.report(ctx, connection, l.outcome, l.id)
}

// advance brings the cluster one step on.
func (l *link) advance(
	ctx context.Context, connection *fleetv1alpha1.ClusterConnection, cluster *clusterv1.ManagedCluster,
) (again time.Duration, err error) {
	if why := uninvited(l.name, cluster); !why.well() {
		l.drop()
		l.known = true
		l.outcome.connected = why
		return 0, nil
	}
	now := l.agent.options.Clock.Now()
	l.mu.Lock()
	secret, secretErr := l.secret, l.secretErr
	l.mu.Unlock()
	if errors.Is(secretErr, errUnread) {
		return 0, nil // it comes at once, and kicks the loop
	}
	l.known = true
	found, bad := readCredential(l.name+"/"+secretName(&connection.Spec), secret, secretErr, now)
	if !bad.well() {
		l.suspend(bad)
		return 0, nil
	}
	if why := l.prepare(connection, found); !why.well() {
		l.drop()
		l.outcome.connected = why
		return 0, nil
	}
	wait := l.next.Sub(now)
	if wait <= 0 || l.due(now) {
		if wait, err = l.look(ctx, connection); err != nil || ctx.Err() != nil {
			return 0, err
		}
	}
	if l.engaged && l.failures == 0 && l.way.blocked.Load() == nil {
		l.renew(ctx, secret)
		l.outcome.credentials = l.renewal.problem
	}
	return l.until(wait), nil
}

// uninvited says why the agent has nothing to do with a cluster.
func uninvited(name string, cluster *clusterv1.ManagedCluster) finding {
	switch {
	case cluster == nil:
		return finding{fleetv1alpha1.ClusterConnectionReasonManagedClusterMissing, fmt.Sprintf("there is no ManagedCluster %q", name)}
	case !cluster.Spec.HubAcceptsClient:
		return finding{fleetv1alpha1.ClusterConnectionReasonNotAccepted, "hubAcceptsClient of the ManagedCluster is not true"}
	case !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted):
		return finding{fleetv1alpha1.ClusterConnectionReasonNotAccepted, "the hub has not made the namespace and the roles of the ManagedCluster yet"}
	}
	return finding{}
}

func invalid(err error) finding {
	var forbidden *ForbiddenAddressError
	if errors.As(err, &forbidden) {
		return finding{fleetv1alpha1.ClusterConnectionReasonForbiddenAddress, err.Error()}
	}
	return finding{fleetv1alpha1.ClusterConnectionReasonInvalidEndpoint, err.Error()}
}

// prepare makes a new way if the cluster is to be reached in another way than
// before, and otherwise only takes over the token. Either is probed at once.
func (l *link) prepare(connection *fleetv1alpha1.ClusterConnection, found credential) finding {
	wanted := targetOf(&connection.Spec, found.ca)
	if l.way != nil && l.target.equal(wanted) {
		if l.credential.token != found.token {
			l.way.setToken(found.token)
			l.credential, l.next = found, time.Time{}
		}
		return finding{}
	}
	way, err := newWay(wanted, l.agent.options.Guard, func() {
		l.doubtful.Store(true)
		l.loop.Kick()
	})
	if err != nil {
		return invalid(err)
	}
	l.drop()
	way.setToken(found.token)
	l.way, l.target, l.credential = way, wanted, found
	return finding{}
}

// due tells whether a doubt is reason to probe now.
func (l *link) due(now time.Time) bool {
	return l.doubtful.Load() && l.failures == 0 && now.Sub(l.probed) >= probePause
}

// until returns how long to wait: not beyond the end of the token or the time
// to renew it, and not long if there is a doubt.
func (l *link) until(wait time.Duration) time.Duration {
	now := l.agent.options.Clock.Now()
	if l.doubtful.Load() && l.failures == 0 {
		wait = min(wait, probePause-now.Sub(l.probed))
	}
	if !l.credential.expires.IsZero() {
		wait = min(wait, l.credential.expires.Sub(now))
	}
	if due := l.renewal.due(l.credential); due.After(now) {
		wait = min(wait, due.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// look probes the cluster and draws the conclusions. It returns when to probe
// again.
func (l *link) look(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (time.Duration, error) {
	l.doubtful.Store(false)
	found := l.way.probe(ctx)
	select {
	case <-ctx.Done(): // what was found may be that
		return 0, nil
	default:
	}
	if found.well() && (!l.engaged || l.way.blocked.Load() != nil) {
		var err error
		if found, err = l.connect(ctx, connection); err != nil {
			return 0, err
		}
	}
	now := l.agent.options.Clock.Now()
	l.probed = now
	if found.well() {
		l.failures, l.next = 0, now.Add(probeEvery)
		l.outcome = outcome{}
		return probeEvery, nil
	}
	l.failures++
	wait := min(probeAgainMin<<min(l.failures-1, 10), probeAgainMax)
	l.next = now.Add(wait)
	switch {
	case found.reason == fleetv1alpha1.ClusterConnectionReasonUnauthorized:
		l.suspend(found)
	case !l.engaged || l.failures >= probesLost || l.way.blocked.Load() != nil:
		l.way.block(errors.New(found.message))
		l.outcome.connected = found
		if l.outcome.credentials.well() && !l.engaged {
			l.outcome.credentials = unchecked()
		}
	}
	return wait, nil
}

func unchecked() finding {
	return finding{fleetv1alpha1.ClusterConnectionReasonNotChecked, "the cluster was not reached with this credential yet"}
}

// connect finds out who the cluster is and has the parts work for it.
func (l *link) connect(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (finding, error) {
	id, err := l.way.identify(ctx)
	if err != nil {
		return explain(err), nil
	}
	if found, err := l.agent.recognise(ctx, connection, id); err != nil || !found.well() {
		l.disengage()
		return found, err
	}
	l.way.block(nil)
	if err := l.agent.engage(ctx, connection, l.way, id); err != nil {
		return finding{}, err
	}
	l.engaged, l.id = true, id
	return finding{}, nil
}

// suspend sends no more requests with a credential that is bad. The parts go
// on: they tell the hub that the cluster is not reached.
func (l *link) suspend(why finding) {
	if l.way != nil {
		l.way.block(errors.New(why.message))
	}
	l.outcome = outcome{
		credentials: why,
		connected:   finding{fleetv1alpha1.ClusterConnectionReasonCredentialsInvalid, why.message},
	}
	if l.failures == 0 {
		l.next = time.Time{} // the next credential is tried at once
	}
}

// disengage ends the work of the parts.
func (l *link) disengage() {
	if l.engaged {
		l.agent.registry.Disengage(fleet.ClusterName(l.name))
		l.engaged = false
	}
}

// drop ends everything that has to do with the present way.
func (l *link) drop() {
	l.disengage()
	if l.way != nil {
		l.way.close()
	}
	l.agent.release(l.name)
	l.way, l.target, l.credential = nil, target{}, credential{}
	l.failures, l.next, l.probed = 0, time.Time{}, time.Time{}
	l.outcome = outcome{credentials: unchecked()}
}
