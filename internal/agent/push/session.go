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
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/cluster/projection"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/server/version"
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
	// refusalLasts is how long a cluster is said to answer too much after it did.
	// Who was refused an answer asks again at least that often.
	refusalLasts = 2 * time.Minute
)

// session is the life of one Push cluster. Only its loop uses the fields behind
// the mutex's block.
type session struct {
	agent *Agent
	name  string
	loop  *fleet.Loop
	// doubtful is set when a request failed, so that the cluster is probed soon.
	doubtful atomic.Bool

	mu     sync.Mutex
	secret *corev1.Secret
	// secretErr is why the Secret is not known, errUnread at the beginning.
	secretErr error

	endpoint   dial.Endpoint
	transport  *dial.Transport
	credential dial.Credential
	renewal    dial.Renewal
	// engaged says that the parts work for the cluster; failures is how many probes
	// in a row have failed.
	engaged  bool
	failures int
	// relapses say when the parts may work for the cluster again that was lost.
	relapses relapses
	// probed is when the last probe was, next when the next one is due.
	probed, next time.Time
	// outcome is what is told of the cluster; id is who it said to be.
	outcome outcome
	id      string
	// refusal is an answer that was not taken, and refused when the latest was.
	refusal *dial.LimitError
	refused time.Time
	// known is false until there is something to tell.
	known  bool
	gauge  gauge
	panics panics
}

// outcome is what is told of a cluster.
type outcome struct{ connected, credentials dial.Problem }

var errUnread = errors.New("it was not read yet")

func newSession(a *Agent, name string) *session {
	s := &session{agent: a, name: name, secretErr: errUnread}
	s.loop = fleet.NewLoop(s.contained)
	s.loop.Clock = a.options.Clock
	s.loop.Failed = func(_ context.Context, err error) {
		a.options.Log.Info("A Push cluster cannot be looked after and is tried again", "cluster", name, "problem", err.Error())
	}
	return s
}

// run looks after the cluster until ctx ends.
func (s *session) run(ctx context.Context) {
	s.loop.Start(ctx)
	s.drop()
}

// seeSecret is told of the Secret. An error of the hub does not make a token
// bad that is known.
func (s *session) seeSecret(secret *corev1.Secret, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !apierrors.IsForbidden(err) && s.secret != nil {
		return
	}
	s.secret = secret
	s.secretErr = err
	s.loop.Kick()
}

// pass looks at everything that is known of the cluster, acts on it and says
// so. It returns when to look again.
func (s *session) pass(ctx context.Context) (time.Duration, error) {
	connection, cluster, err := s.agent.read(ctx, s.name)
	if err != nil || connection == nil || connection.Spec.SyncMode != fleetv1alpha1.SyncModePush {
		return 0, err // the session is about to end
	}
	again, err := s.advance(ctx, connection, cluster)
	if err != nil || !s.known || ctx.Err() != nil {
		return 0, err
	}
	s.measure()
	return again, s.agent.report(ctx, connection, s.outcome, s.id)
}

// advance brings the cluster one step on.
func (s *session) advance(
	ctx context.Context, connection *fleetv1alpha1.ClusterConnection, cluster *clusterv1.ManagedCluster,
) (again time.Duration, err error) {
	if why := uninvited(s.name, cluster); !why.None() {
		s.drop()
		s.known = true
		s.outcome.connected = why
		return 0, nil
	}
	now := s.agent.options.Clock.Now()
	s.mu.Lock()
	secret := s.secret
	secretErr := s.secretErr
	s.mu.Unlock()
	if errors.Is(secretErr, errUnread) {
		return 0, nil // it comes at once, and kicks the loop
	}
	s.known = true
	found, bad := dial.ReadCredential(s.name+"/"+dial.SecretName(&connection.Spec), secret, secretErr, now)
	if !bad.None() {
		s.suspend(awaited(connection, bad))
		return 0, nil
	}
	if why := s.prepare(connection, found); !why.None() {
		s.drop()
		s.outcome.connected = why
		return 0, nil
	}
	if alone := s.settle(now); alone > 0 {
		return alone, nil
	}
	wait := s.next.Sub(now)
	if !s.serving() {
		wait = max(wait, s.relapses.next().Sub(now))
	}
	if wait <= 0 || s.due(now) {
		if wait, err = s.look(ctx, connection); err != nil || ctx.Err() != nil {
			return 0, err
		}
	}
	if s.failures == 0 && s.serving() {
		s.renew(ctx, secret)
		s.outcome.credentials = s.renewal.Problem()
	}
	return s.until(wait), nil
}

// awaited adds to the message about a Secret that is missing what the hub says of the
// one that it waits for, of which this one is to be a copy.
func awaited(connection *fleetv1alpha1.ClusterConnection, bad dial.Problem) dial.Problem {
	original := projection.Awaited(connection, dial.SecretName(&connection.Spec))
	if original != nil && bad.Reason == fleetv1alpha1.ClusterConnectionReasonSecretMissing {
		bad.Message += ", a copy of another one: " + original.Message
	}
	return bad
}

// uninvited says why the agent has nothing to do with a cluster.
func uninvited(name string, cluster *clusterv1.ManagedCluster) dial.Problem {
	switch {
	case cluster == nil:
		return dial.Problem{Reason: fleetv1alpha1.ClusterConnectionReasonManagedClusterMissing, Message: fmt.Sprintf("there is no ManagedCluster %q", name)}
	case !cluster.Spec.HubAcceptsClient:
		return dial.Problem{Reason: fleetv1alpha1.ClusterConnectionReasonNotAccepted, Message: "hubAcceptsClient of the ManagedCluster is not true"}
	case !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted):
		return dial.Problem{Reason: fleetv1alpha1.ClusterConnectionReasonNotAccepted, Message: "the hub has not created the namespace and the roles of the ManagedCluster yet"}
	}
	return dial.Problem{}
}

// prepare makes a new transport if the cluster is to be reached in another way
// than before, and otherwise only takes over the token. Either is probed at once.
func (s *session) prepare(connection *fleetv1alpha1.ClusterConnection, found dial.Credential) dial.Problem {
	wanted := dial.EndpointOf(&connection.Spec, found.CA)
	if s.transport != nil && s.endpoint.Equal(wanted) {
		if s.credential.Token != found.Token {
			s.transport.SetToken(found.Token)
			s.credential = found
			s.next = time.Time{}
			if !s.serving() { // somebody has mended it
				s.relapses = relapses{}
			}
		}
		return dial.Problem{}
	}
	transport, err := dial.New(wanted, dial.Options{
		Guard: s.agent.options.Guard, UserAgent: "capstan-push-agent/" + version.Get(),
		Doubt: func() {
			s.doubtful.Store(true)
			s.loop.Kick()
		},
		Delayed: s.agent.meter.delayed.WithLabelValues(s.agent.meter.label(s.name)).Inc,
	})
	if err != nil {
		return dial.Unusable(err)
	}
	s.drop()
	transport.SetToken(found.Token)
	s.transport = transport
	s.endpoint = wanted
	s.credential = found
	return dial.Problem{}
}

// due tells whether a doubt is reason to probe now.
func (s *session) due(now time.Time) bool {
	return s.doubtful.Load() && s.failures == 0 && now.Sub(s.probed) >= probePause
}

// until returns how long to wait: not beyond the end of the token or the time
// to renew it, and not long if there is a doubt.
func (s *session) until(wait time.Duration) time.Duration {
	now := s.agent.options.Clock.Now()
	if s.doubtful.Load() && s.failures == 0 {
		wait = min(wait, probePause-now.Sub(s.probed))
	}
	if !s.credential.Expires.IsZero() {
		wait = min(wait, s.credential.Expires.Sub(now))
	}
	if due := s.renewal.Due(s.credential); due.After(now) {
		wait = min(wait, due.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// serving reports whether the parts work for the cluster, and reach it.
func (s *session) serving() bool { return s.engaged && !s.transport.Blocked() }

// look probes the cluster and draws the conclusions. It returns when to probe
// again.
func (s *session) look(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (time.Duration, error) {
	s.doubtful.Store(false)
	found := s.transport.Probe(ctx)
	select {
	case <-ctx.Done(): // what was found may be that
		return 0, nil
	default:
	}
	if found.None() && !s.serving() {
		var err error
		if found, err = s.connect(ctx, connection); err != nil {
			return 0, err
		}
	}
	now := s.agent.options.Clock.Now()
	s.probed = now
	if found.None() {
		s.failures, s.next = 0, now.Add(probeEvery)
		s.outcome = outcome{connected: s.tooLarge(now)}
		return probeEvery, nil
	}
	s.failures++
	s.failed(found.Reason)
	wait := backoff.After(s.failures, backoff.Between(probeAgainMin, probeAgainMax))
	s.next = now.Add(wait)
	switch {
	case found.Reason == fleetv1alpha1.ClusterConnectionReasonUnauthorized:
		s.suspend(found)
	case !s.engaged || s.failures >= probesLost || s.transport.Blocked():
		s.transport.Block(errors.New(found.Message))
		s.outcome.connected = found
		if s.outcome.credentials.None() && !s.engaged {
			s.outcome.credentials = unchecked()
		}
	}
	return wait, nil
}

// tooLarge says which answer of a cluster that is well was not taken lately.
func (s *session) tooLarge(now time.Time) dial.Problem {
	if latest := s.transport.Refusal(); latest != nil {
		if s.refusal == nil { // one after the other would be a write of the hub each
			s.refusal = latest
		}
		s.refused = now
	}
	if s.refusal == nil || now.Sub(s.refused) > refusalLasts {
		s.refusal = nil
		return dial.Problem{}
	}
	return dial.Problem{
		Reason:  fleetv1alpha1.ClusterConnectionReasonAnswerTooLarge,
		Message: "the API server is well, but " + s.refusal.Error() + "; look at what answers there",
	}
}

func unchecked() dial.Problem {
	return dial.Problem{Reason: fleetv1alpha1.ClusterConnectionReasonNotChecked, Message: "the credential has not been checked against the cluster yet"}
}

// connect finds out who the cluster is and has the parts work for it.
func (s *session) connect(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (dial.Problem, error) {
	id, err := s.transport.Identify(ctx)
	if err != nil {
		return dial.Explain(err), nil
	}
	if found, err := s.agent.recognise(ctx, connection, id); err != nil || !found.None() {
		s.disengage()
		return found, err
	}
	if lacking := s.agent.define(ctx, s.name, s.transport); !lacking.None() {
		if lacking.Reason == fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing {
			s.disengage()
		}
		return lacking, nil
	}
	s.transport.Block(nil)
	if err := s.agent.engage(ctx, connection, s, id); err != nil {
		return dial.Problem{}, err
	}
	s.engaged = true
	s.id = id
	s.relapses.connect(s.agent.options.Clock.Now())
	return dial.Problem{}, nil
}

// suspend sends no more requests with a credential that is bad. The parts go
// on: they tell the hub that the cluster is not reached.
func (s *session) suspend(why dial.Problem) {
	if s.transport != nil {
		s.transport.Block(errors.New(why.Message))
	}
	s.outcome = outcome{
		credentials: why,
		connected:   dial.Problem{Reason: fleetv1alpha1.ClusterConnectionReasonCredentialsInvalid, Message: why.Message},
	}
	if s.failures == 0 {
		s.next = time.Time{} // the next credential is tried at once
	}
}

// disengage ends the work of the parts.
func (s *session) disengage() {
	if s.engaged {
		s.agent.registry.Disengage(fleet.ClusterName(s.name))
		s.engaged = false
	}
}

// drop ends everything that has to do with the present transport.
func (s *session) drop() {
	s.disengage()
	if s.transport != nil {
		s.transport.Close()
	}
	s.agent.release(s.name)
	s.transport = nil
	s.endpoint = dial.Endpoint{}
	s.credential = dial.Credential{}
	s.failures = 0
	s.next = time.Time{}
	s.probed = time.Time{}
	s.relapses = relapses{}
	s.refusal, s.outcome = nil, outcome{credentials: unchecked()}
}
