// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/agent/parts"
	"github.com/capstan-io/capstan/internal/agent/succession"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/watch"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// Workers is how many works of all Push clusters are in hand at a time, and
// WorkersPerCluster how many of them are of one at most: see runtime.WorkerPool. They
// wait for members most of the time, and cost little then.
const (
	Workers           = 512
	WorkersPerCluster = 8
)

// AgentOptions of the agent.
type AgentOptions struct {
	// Hub is the hub that the agent runs on.
	Hub *rest.Config
	// HubURL is the URL of the hub that agents of Pull clusters have, for clusters
	// whose agents did not write theirs down, as those of OCM do not. What the agent
	// applies is marked with it. Defaults to the host of Hub.
	HubURL string
	// ClaimRules say which claims of each cluster are reported.
	ClaimRules clusterstatus.ClaimRules
	// Parts are engaged for each cluster besides those of registration.
	Parts []fleet.Part
	Guard dial.AddressGuard
	// MetricsPerCluster names the clusters in the metrics of connections.
	MetricsPerCluster bool
	// Clock says when tokens are due. Defaults to the real one, which the parts have.
	Clock clock.Clock
	Log   logr.Logger
}

// Agent works for all Push clusters of a hub.
type Agent struct {
	options  AgentOptions
	registry *fleet.Registry
	meter    *connectionMetrics
	pace     *decoding.SharedPace
	// definitions are those that a member has to have.
	definitions []*apiextensionsv1.CustomResourceDefinition
	cache       cache.Cache
	// hub reads ClusterConnections and ManagedClusters from the cache; secrets has
	// none.
	hub     client.Client
	secrets client.WithWatch
	// seen are the handlers that tell of them.
	seen []toolscache.ResourceEventHandlerRegistration

	lives sync.WaitGroup // of sessions

	mu       sync.Mutex
	closed   bool
	sessions map[string]*runningSession
	// ending are the sessions that were told to end and have not yet.
	ending map[string]*runningSession
	// identities are who the clusters are that were let in, by UID.
	identities map[string]string
}

// runningSession is a session and what it follows.
type runningSession struct {
	session *session
	secret  string
	cancel  context.CancelFunc
	ended   chan struct{}
}

// NewAgent returns an agent that has not begun.
func NewAgent(o AgentOptions) (*Agent, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.HubURL == "" {
		o.HubURL = o.Hub.Host
	}
	a := &Agent{options: o, meter: newConnectionMetrics(o.MetricsPerCluster), pace: decoding.NewSharedPace(clock.RealClock{}), sessions: map[string]*runningSession{}, ending: map[string]*runningSession{}, identities: map[string]string{}}
	var err error
	if a.definitions, err = memberDefinitions(); err != nil {
		return nil, err
	}
	scheme, err := connect.HubScheme()
	if err != nil {
		return nil, err
	}
	a.cache, err = cache.New(o.Hub, cache.Options{
		Scheme: scheme, Mapper: connect.HubMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&fleetv1alpha1.ClusterConnection{}: {Transform: fleet.SlimConnection}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of ClusterConnections: %w", err)
	}
	a.hub, err = client.New(o.Hub, client.Options{
		Scheme: scheme, Mapper: connect.HubMapper(), Cache: &client.CacheOptions{Reader: a.cache},
	})
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	if a.secrets, err = connect.HomeClient(o.Hub); err != nil {
		return nil, err
	}
	registration := parts.RegistrationParts(parts.RegistrationOptions{
		Status: &clusterstatus.StatusPart{Claims: true, ClaimRules: o.ClaimRules}, Log: o.Log,
	})
	a.registry = parts.NewRegistry(o.Log, o.Clock, append(registration, o.Parts...)...)
	return a, nil
}

// RunSessions works until ctx ends, and returns when everything has ended.
func (a *Agent) RunSessions(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	defer a.registry.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := a.watchConnections(ctx); err != nil {
		return err
	}
	failed := make(chan error, 1)
	group.Go(func() { failed <- a.cache.Start(ctx) })
	defer a.endSessions()
	select {
	case err := <-failed:
		if err != nil {
			return fmt.Errorf("watching ClusterConnections: %w", err)
		}
	case <-ctx.Done():
	}
	return nil
}

// watchConnections makes each ClusterConnection have its session, and tells sessions of changes.
func (a *Agent) watchConnections(ctx context.Context) error {
	see := func(obj any) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if object, ok := obj.(client.Object); ok {
			a.syncSession(ctx, object.GetName())
		}
	}
	if err := a.cache.IndexField(ctx, &fleetv1alpha1.ClusterConnection{}, indexIdentity, indexByIdentity); err != nil {
		return fmt.Errorf("indexing ClusterConnections by %s: %w", indexIdentity, err)
	}
	handler := toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }, DeleteFunc: see}
	for _, obj := range []client.Object{&fleetv1alpha1.ClusterConnection{}, &clusterv1.ManagedCluster{}} {
		informer, err := a.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", obj, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", obj, err)
		}
		a.seen = append(a.seen, registration)
	}
	return nil
}

// syncSession begins or ends the session of a cluster, or tells it that something changed.
// It does not wait for one to end.
func (a *Agent) syncSession(ctx context.Context, name string) {
	connection, _, err := a.readCluster(ctx, name)
	if err != nil {
		return // the cache is stopping
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	secret := ""
	if connection != nil && connection.Spec.SyncMode == fleetv1alpha1.SyncModePush {
		secret = dial.SecretName(&connection.Spec)
	}
	have := a.sessions[name]
	if have != nil && have.secret == secret {
		have.session.loop.Kick()
		return
	}
	if have != nil {
		have.cancel()
		delete(a.sessions, name)
		a.ending[name] = have
	}
	if secret != "" {
		a.sessions[name] = a.startSession(ctx, name, secret)
	}
}

// startSession starts a session, after the one before has ended. Call it with the lock held.
func (a *Agent) startSession(ctx context.Context, name, secret string) *runningSession {
	before := a.ending[name]
	ctx, cancel := context.WithCancel(ctx)
	r := &runningSession{session: newSession(a, name), secret: secret, cancel: cancel, ended: make(chan struct{})}
	follower := watch.Watch[*corev1.Secret]{
		Source: watch.SingleSource(a.secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: secret}},
			&corev1.SecretList{}, ""),
		Handler: watch.SingleHandler[*corev1.Secret](r.session.seeSecret), Clock: a.options.Clock,
	}
	a.lives.Go(func() {
		defer a.sessionEnded(r)
		if before != nil {
			<-before.ended
		}
		if !fleet.AwaitSynced(ctx, a.seen[0].HasSyncedChecker(), a.seen[1].HasSyncedChecker()) {
			return
		}
		var group sync.WaitGroup
		group.Go(func() { follower.RunReflector(ctx) })
		r.session.runSession(ctx)
		group.Wait()
	})
	return r
}

// sessionEnded is called when a session has.
func (a *Agent) sessionEnded(r *runningSession) {
	close(r.ended)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending[r.session.name] == r {
		delete(a.ending, r.session.name)
	}
	if a.sessions[r.session.name] == nil {
		a.meter.forgetCluster(r.session.name)
	}
}

// endSessions ends all sessions and waits for them.
func (a *Agent) endSessions() {
	a.mu.Lock()
	a.closed = true
	for _, r := range a.sessions {
		r.cancel()
	}
	a.mu.Unlock()
	a.lives.Wait()
}

// readCluster returns the ClusterConnection and the ManagedCluster, nil if there is none.
func (a *Agent) readCluster(ctx context.Context, name string) (*fleetv1alpha1.ClusterConnection, *clusterv1.ManagedCluster, error) {
	connection := &fleetv1alpha1.ClusterConnection{}
	cluster := &clusterv1.ManagedCluster{}
	key := client.ObjectKey{Name: name}
	if err := a.hub.Get(ctx, key, connection); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading ClusterConnection %q: %w", name, err)
	}
	if err := a.hub.Get(ctx, key, cluster); apierrors.IsNotFound(err) {
		return connection, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading ManagedCluster %q: %w", name, err)
	}
	return connection, cluster, nil
}

// engageCluster has the parts work for the cluster of a session, anew if they do already.
func (a *Agent) engageCluster(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, s *session, id string) error {
	hub, err := connect.HubCluster(rest.CopyConfig(a.options.Hub), connection.Name)
	if err != nil {
		return err
	}
	config := s.transport.ClientConfig()
	if err := dial.ConfirmNotFound(config, id); err != nil {
		return err
	}
	member, err := connect.MemberCluster(config)
	if err != nil {
		return err
	}
	a.options.Log.Info("A Push cluster is connected", "cluster", connection.Name, "endpoint", connection.Spec.APIEndpoint)
	engaged := &fleet.Connection{
		Name: fleet.ClusterName(connection.Name), AgentID: string(connection.UID), HubHost: a.options.HubURL,
		Identify: func(context.Context) (string, error) { return id, nil },
		Hub:      hub, Spoke: member, Home: a.secrets,
		Panicked: s.handlePanic,
	}
	if err := succession.TakeOverConnection(ctx, engaged); err != nil {
		return err
	}
	return a.registry.Engage(ctx, engaged)
}
