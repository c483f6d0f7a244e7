// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/agent/clusterspec"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/agent/hubtrust"
	"github.com/capstan-io/capstan/internal/agent/join"
	"github.com/capstan-io/capstan/internal/agent/parts"
	"github.com/capstan-io/capstan/internal/agent/succession"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
)

// Options of an agent that dials its hub.
type Options struct {
	// Home is where the agent's own secrets are, in Namespace; Member is the
	// cluster that joins. Both are the same for an agent that runs in its member.
	Home, Member *rest.Config
	Namespace    string
	// HubQPS and HubBurst limit the requests to the hub once the agent has
	// joined; zero is no limit. Those to the member are limited by Member.
	HubQPS   float32
	HubBurst int
	// AgentID tells this agent from another one for the same member.
	AgentID string
	// ClusterName is the name to join under. Defaults to that of the stored
	// credential, or a new UUID.
	ClusterName string
	// BootstrapFile is a kubeconfig to use if there is no secret with one.
	BootstrapFile string
	// Labels, Annotations and ClientConfigs of the ManagedCluster. Labels and
	// ClientConfigs are kept as they are here; annotations are set once.
	Labels, Annotations map[string]string
	ClientConfigs       []clusterv1.ClientConfig
	// ExpirationSeconds is the lifetime of client certificates to ask for.
	// Defaults to that of the hub's signer.
	ExpirationSeconds int32
	// Claims reports ClusterClaims, by ClaimRules.
	Claims     bool
	ClaimRules clusterstatus.ClaimRules
	// Properties reports ClusterProperties among the claims.
	Properties bool
	// DiscoverEvery is the time between two looks at the APIs of the member.
	// Defaults to a minute.
	DiscoverEvery time.Duration
	// FollowEvery is the time between two looks at the authorities that the hub
	// publishes. Defaults to ten minutes.
	FollowEvery time.Duration
	// Parts are engaged besides those of registration.
	Parts []fleet.Part
	// Clock defaults to the real one.
	Clock clock.Clock
	Log   logr.Logger
}

// Agent is an agent that dials its hub.
type Agent struct {
	options  Options
	home     client.WithWatch
	machine  *join.Machine
	registry *fleet.Registry
	status   *clusterstatus.Part
	// hub is the one that the parts work with.
	hub atomic.Pointer[connect.Hub]

	uid struct {
		sync.Mutex
		known bool
		value string
	}
}

// New returns an agent that has not begun.
func New(o Options) (*Agent, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	a := &Agent{options: o}
	var err error
	if a.home, err = connect.HomeClient(o.Home); err != nil {
		return nil, err
	}
	a.machine = join.New(join.Options{
		Home: a.home, Namespace: o.Namespace, ClusterName: o.ClusterName, BootstrapFile: o.BootstrapFile,
		Announce: a.announce, ExpirationSeconds: o.ExpirationSeconds,
		Engage: a.engage, Disengage: a.disengage, Rotated: func() { a.status.Kick() },
		Clock: o.Clock, Log: o.Log.WithName("join"),
	})
	a.registry = parts.NewRegistry(o.Log, o.Clock, a.parts()...)
	return a, nil
}

// parts returns those of registration and the given ones.
func (a *Agent) parts() []fleet.Part {
	a.status = &clusterstatus.Part{
		Claims: a.options.Claims, ClaimRules: a.options.ClaimRules, Properties: a.options.Properties, Rotation: a.machine.Rotation,
	}
	registration := parts.Registration(parts.Options{
		Status:        a.status,
		Spec:          &clusterspec.Part{Labels: a.options.Labels, ClientConfigs: a.options.ClientConfigs},
		DiscoverEvery: a.options.DiscoverEvery, Clock: a.options.Clock, Log: a.options.Log,
	})
	registration = append(registration, &hubtrust.Part{
		Endpoint: func() connect.Endpoint { return a.hub.Load().Endpoint() }, Trust: a.machine.Trust,
		Every: a.options.FollowEvery, Clock: a.options.Clock, Log: a.options.Log,
	})
	return append(registration, a.options.Parts...)
}

// Run works until ctx ends, and returns when everything has ended.
func (a *Agent) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { _, _ = a.clusterUID(ctx) }) // known by the time it is asked for; an error is seen then
	a.machine.Run(ctx)
	a.registry.Close()
	running.Wait()
	return nil
}

// Collectors returns the metrics of the agent, but for those of its parts.
func (a *Agent) Collectors() []prometheus.Collector {
	return []prometheus.Collector{metrics.NewExpiriesOf(func(_ context.Context, see func(string, time.Time)) error {
		if expires := a.machine.Expiry.Time(); !expires.IsZero() {
			see("agent-client", expires)
		}
		return nil
	})}
}

// Step tells where the handshake is, and what it waits for.
func (a *Agent) Step() (reason, message string) { return a.machine.Step() }

// announce returns what to say of the cluster when it registers.
func (a *Agent) announce(ctx context.Context) (join.Announcement, error) {
	uid, err := a.clusterUID(ctx)
	if err != nil {
		return join.Announcement{}, err
	}
	annotations := map[string]string{}
	maps.Copy(annotations, a.options.Annotations)
	if keys := clusterspec.Keys(a.options.Labels); keys != "" {
		annotations[clusterspec.AnnotationLabels] = keys
	}
	if a.options.AgentID != "" {
		annotations[fleetv1alpha1.AnnotationAgentID] = a.options.AgentID
	}
	return join.Announcement{
		Labels: a.options.Labels, Annotations: annotations, ClientConfigs: a.options.ClientConfigs, UID: uid,
	}, nil
}

// clusterUID returns the UID of the member's namespace kube-system; it is empty
// if the agent may not know it, which only an API server can say: without an id
// the agent would join as any cluster, also as one that another is. A cluster
// that is a copy of another one has the same; an annotation then gives another one.
func (a *Agent) clusterUID(ctx context.Context) (string, error) {
	if given := a.options.Annotations[clusterv1.AnnotationClusterUID]; given != "" {
		return given, nil
	}
	a.uid.Lock()
	defer a.uid.Unlock()
	if a.uid.known {
		return a.uid.value, nil
	}
	id, err := dial.Identity(ctx, a.options.Member)
	if err != nil {
		return "", err
	}
	a.uid.known = true
	a.uid.value = id
	return id, nil
}

// engage makes the connection to the hub that let us in and starts the parts.
func (a *Agent) engage(ctx context.Context, admission join.Admission) error {
	hub, err := connect.HubCluster(options.Limit(admission.Hub.Config(), a.options.HubQPS, a.options.HubBurst), admission.Cluster)
	if err != nil {
		return err
	}
	config := rest.CopyConfig(a.options.Member)
	if err := dial.ConfirmNotFound(config, ""); err != nil {
		return err
	}
	member, err := connect.MemberCluster(config)
	if err != nil {
		return err
	}
	informer, err := hub.GetCache().GetInformer(ctx, &clusterv1.ManagedCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", admission.Cluster, err)
	}
	see := func(obj any) {
		if mc, ok := obj.(*clusterv1.ManagedCluster); ok {
			a.machine.SeeCluster(mc)
			if succession.Succeeded(mc, a.options.AgentID) {
				a.machine.Doubt()
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }, DeleteFunc: func(any) { a.machine.SeeCluster(nil) },
	})
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", admission.Cluster, err)
	}
	connection := &fleet.Connection{
		Name: fleet.ClusterName(admission.Cluster), AgentID: a.options.AgentID, Identify: a.clusterUID,
		HubHost: admission.Hub.Endpoint().Server, Hub: hub, Spoke: member, Home: a.home,
		HubCA: func() []byte { return admission.Hub.Endpoint().CA },
	}
	a.hub.Store(admission.Hub)
	if err := succession.Take(ctx, connection); err != nil {
		return err
	}
	return a.registry.Engage(ctx, connection)
}

// disengage ends the parts and returns when they have ended.
func (a *Agent) disengage() {
	for _, name := range a.registry.Clusters() {
		a.registry.Disengage(name)
	}
}

// Check returns what holds up the parts, or nil. An agent that has not joined
// yet is well: waiting for the hub is its work.
func (a *Agent) Check() error {
	var errs []error
	for _, name := range a.registry.Clusters() {
		errs = append(errs, a.registry.Check(name))
	}
	return errors.Join(errs...)
}
