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
	"github.com/capstan-io/capstan/internal/agent/reportlimit"
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
	relapses reconnectBackoff
	// probed is when the last probe was, next when the next one is due.
	probed, next time.Time
	// outcome is what is told of the cluster; id is who it said to be.
	outcome sessionOutcome
	id      string
	// reports are the writes of that to the hub.
	reports *reportlimit.ReportLimit
	// refusal is an answer that was not taken, and refused when the latest was.
	refusal *dial.LimitError
	refused time.Time
	// known is false until there is something to tell.
	known  bool
	gauge  sessionGauge
	panics sessionPanics
}

// sessionOutcome is what is told of a cluster.
type sessionOutcome struct{ connected, credentials dial.ConnectionProblem }

var errUnread = errors.New("it was not read yet")

func newSession(a *Agent, name string) *session {
	s := &session{agent: a, name: name, secretErr: errUnread, reports: newReportLimit()}
	s.loop = fleet.NewLoop(s.runContainedPass)
	s.loop.Clock = a.options.Clock
	s.loop.Failed = func(_ context.Context, err error) {
		a.options.Log.Info("A Push cluster cannot be served and is tried again", "cluster", name, "problem", err.Error())
	}
	return s
}

// runSession looks after the cluster until ctx ends.
func (s *session) runSession(ctx context.Context) {
	s.loop.Start(ctx)
	s.dropTransport()
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

// reconcileSession looks at everything that is known of the cluster, acts on it and says
// so. It returns when to look again.
func (s *session) reconcileSession(ctx context.Context) (time.Duration, error) {
	connection, cluster, err := s.agent.readCluster(ctx, s.name)
	if err != nil || connection == nil || connection.Spec.SyncMode != fleetv1alpha1.SyncModePush {
		return 0, err // the session is about to end
	}
	again, err := s.advanceConnection(ctx, connection, cluster)
	if err != nil || !s.known || ctx.Err() != nil {
		return 0, err
	}
	s.measureOutcome()
	later, err := s.reportOutcome(ctx, connection)
	if later > 0 && (again == 0 || later < again) {
		again = later
	}
	return again, err
}

// advanceConnection brings the cluster one step on.
func (s *session) advanceConnection(
	ctx context.Context, connection *fleetv1alpha1.ClusterConnection, cluster *clusterv1.ManagedCluster,
) (again time.Duration, err error) {
	if why := acceptanceProblem(s.name, cluster); !why.IsNone() {
		s.dropTransport()
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
	if !bad.IsNone() {
		s.suspendRequests(describeAwaited(connection, bad))
		return 0, nil
	}
	if why := s.prepareTransport(connection, found); !why.IsNone() {
		s.dropTransport()
		s.outcome.connected = why
		return 0, nil
	}
	if alone := s.settleAfterPanic(now); alone > 0 {
		return alone, nil
	}
	wait := s.next.Sub(now)
	if !s.isServing() {
		wait = max(wait, s.relapses.nextConnect().Sub(now))
	}
	if wait <= 0 || s.probeDue(now) {
		if wait, err = s.probeCluster(ctx, connection); err != nil || ctx.Err() != nil {
			return 0, err
		}
	}
	if s.failures == 0 && s.isServing() {
		s.renewToken(ctx, secret)
		s.outcome.credentials = s.renewal.LatestProblem()
	}
	return s.nextWait(wait), nil
}

// describeAwaited adds to the message about a Secret that is missing what the hub says of the
// one that it waits for, of which this one is to be a copy.
func describeAwaited(connection *fleetv1alpha1.ClusterConnection, bad dial.ConnectionProblem) dial.ConnectionProblem {
	original := projection.AwaitedSecretFor(connection, dial.SecretName(&connection.Spec))
	if original != nil && bad.Reason == fleetv1alpha1.ClusterConnectionReasonSecretMissing {
		bad.Message += ", a copy of another one: " + original.Message
	}
	return bad
}

// acceptanceProblem says why the agent has nothing to do with a cluster.
func acceptanceProblem(name string, cluster *clusterv1.ManagedCluster) dial.ConnectionProblem {
	switch {
	case cluster == nil:
		return dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonManagedClusterMissing, Message: fmt.Sprintf("there is no ManagedCluster %q", name)}
	case !cluster.Spec.HubAcceptsClient:
		return dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonNotAccepted, Message: "hubAcceptsClient of the ManagedCluster is not true"}
	case !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted):
		return dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonNotAccepted, Message: "the hub has not created the namespace and the roles of the ManagedCluster yet"}
	}
	return dial.ConnectionProblem{}
}

// prepareTransport makes a new transport if the cluster is to be reached in another way
// than before, and otherwise only takes over the token. Either is probed at once.
func (s *session) prepareTransport(connection *fleetv1alpha1.ClusterConnection, found dial.Credential) dial.ConnectionProblem {
	wanted := dial.EndpointOf(&connection.Spec, found.CA)
	if s.transport != nil && s.endpoint.Equal(wanted) {
		if s.credential.Token != found.Token {
			s.transport.SetToken(found.Token)
			s.credential = found
			s.next = time.Time{}
			if !s.isServing() { // somebody has mended it
				s.relapses = reconnectBackoff{}
			}
		}
		return dial.ConnectionProblem{}
	}
	transport, err := dial.NewTransport(wanted, dial.TransportOptions{
		Guard: s.agent.options.Guard, UserAgent: "capstan-push-agent/" + version.SemanticVersion(),
		Doubt: func() {
			s.doubtful.Store(true)
			s.loop.Kick()
		},
		Pace:    s.agent.pace,
		Delayed: s.agent.meter.delayed.WithLabelValues(s.agent.meter.clusterLabel(s.name)).Inc,
	})
	if err != nil {
		return dial.ExplainEndpoint(err)
	}
	s.dropTransport()
	transport.SetToken(found.Token)
	s.transport = transport
	s.endpoint = wanted
	s.credential = found
	return dial.ConnectionProblem{}
}

// probeDue reports whether a doubt is reason to probe now.
func (s *session) probeDue(now time.Time) bool {
	return s.doubtful.Load() && s.failures == 0 && now.Sub(s.probed) >= probePause
}

// nextWait returns how long to wait: not beyond the end of the token or the time
// to renew it, and not long if there is a doubt.
func (s *session) nextWait(wait time.Duration) time.Duration {
	now := s.agent.options.Clock.Now()
	if s.doubtful.Load() && s.failures == 0 {
		wait = min(wait, probePause-now.Sub(s.probed))
	}
	if !s.credential.Expires.IsZero() {
		wait = min(wait, s.credential.Expires.Sub(now))
	}
	if due := s.renewal.DueAt(s.credential); due.After(now) {
		wait = min(wait, due.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// isServing reports whether the parts work for the cluster, and reach it.
func (s *session) isServing() bool { return s.engaged && !s.transport.IsBlocked() }

// probeCluster probes the cluster and draws the conclusions. It returns when to probe
// again.
func (s *session) probeCluster(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (time.Duration, error) {
	s.doubtful.Store(false)
	found := s.transport.ProbeHealth(ctx)
	select {
	case <-ctx.Done(): // what was found may be that
		return 0, nil
	default:
	}
	if found.IsNone() && !s.isServing() {
		var err error
		if found, err = s.connectCluster(ctx, connection); err != nil {
			return 0, err
		}
	}
	now := s.agent.options.Clock.Now()
	s.probed = now
	if found.IsNone() {
		s.failures, s.next = 0, now.Add(probeEvery)
		s.outcome = sessionOutcome{connected: s.tooLarge(now)}
		return probeEvery, nil
	}
	s.failures++
	s.countFailure(found.Reason)
	wait := backoff.DelayAfter(s.failures, backoff.ExponentialBetween(probeAgainMin, probeAgainMax))
	s.next = now.Add(wait)
	switch {
	case found.Reason == fleetv1alpha1.ClusterConnectionReasonUnauthorized:
		s.suspendRequests(found)
	case !s.engaged || s.failures >= probesLost || s.transport.IsBlocked():
		s.transport.BlockRequests(errors.New(found.Message))
		s.outcome.connected = found
		if s.outcome.credentials.IsNone() && !s.engaged {
			s.outcome.credentials = uncheckedProblem()
		}
	}
	return wait, nil
}

// tooLarge says which answer of a cluster that is well was not taken lately.
func (s *session) tooLarge(now time.Time) dial.ConnectionProblem {
	if latest := s.transport.TakeRefusal(); latest != nil {
		if s.refusal == nil { // one after the other would be a write of the hub each
			s.refusal = latest
		}
		s.refused = now
	}
	if s.refusal == nil || now.Sub(s.refused) > refusalLasts {
		s.refusal = nil
		return dial.ConnectionProblem{}
	}
	return dial.ConnectionProblem{
		Reason:  fleetv1alpha1.ClusterConnectionReasonAnswerTooLarge,
		Message: "the API server is healthy, but " + s.refusal.Error() + "; check what serves this endpoint",
	}
}

func uncheckedProblem() dial.ConnectionProblem {
	return dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonNotChecked, Message: "the credential has not been checked against the cluster yet"}
}

// connectCluster finds out who the cluster is and has the parts work for it.
func (s *session) connectCluster(ctx context.Context, connection *fleetv1alpha1.ClusterConnection) (dial.ConnectionProblem, error) {
	id, err := s.transport.IdentifyCluster(ctx)
	if err != nil {
		return dial.ExplainFailure(err), nil
	}
	if found, err := s.agent.verifyIdentity(ctx, connection, id); err != nil || !found.IsNone() {
		s.disengageParts()
		return found, err
	}
	if lacking := s.agent.ensureDefinitions(ctx, s.name, s.transport); !lacking.IsNone() {
		if lacking.Reason == fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing {
			s.disengageParts()
		}
		return lacking, nil
	}
	s.transport.BlockRequests(nil)
	if err := s.agent.engageCluster(ctx, connection, s, id); err != nil {
		return dial.ConnectionProblem{}, err
	}
	s.engaged = true
	s.id = id
	s.relapses.countConnection(s.agent.options.Clock.Now())
	return dial.ConnectionProblem{}, nil
}

// suspendRequests sends no more requests with a credential that is bad. The parts go
// on: they tell the hub that the cluster is not reached.
func (s *session) suspendRequests(why dial.ConnectionProblem) {
	if s.transport != nil {
		s.transport.BlockRequests(errors.New(why.Message))
	}
	s.outcome = sessionOutcome{
		credentials: why,
		connected:   dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonCredentialsInvalid, Message: why.Message},
	}
	if s.failures == 0 {
		s.next = time.Time{} // the next credential is tried at once
	}
}

// disengageParts ends the work of the parts.
func (s *session) disengageParts() {
	if s.engaged {
		s.agent.registry.Disengage(fleet.ClusterName(s.name))
		s.engaged = false
	}
}

// dropTransport ends everything that has to do with the present transport.
func (s *session) dropTransport() {
	s.disengageParts()
	if s.transport != nil {
		s.transport.Close()
	}
	s.agent.releaseIdentity(s.name)
	s.transport = nil
	s.endpoint = dial.Endpoint{}
	s.credential = dial.Credential{}
	s.failures = 0
	s.next = time.Time{}
	s.probed = time.Time{}
	s.relapses = reconnectBackoff{}
	s.refusal, s.outcome = nil, sessionOutcome{credentials: uncheckedProblem()}
}
