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

// PullAgentOptions of an agent that dials its hub.
type PullAgentOptions struct {
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

// PullAgent is an agent that dials its hub.
type PullAgent struct {
	options  PullAgentOptions
	home     client.WithWatch
	machine  *join.HandshakeMachine
	registry *fleet.Registry
	status   *clusterstatus.StatusPart
	// hub is the one that the parts work with.
	hub atomic.Pointer[connect.HubTransport]

	uid struct {
		sync.Mutex
		known bool
		value string
	}
}

// NewPullAgent returns an agent that has not begun.
func NewPullAgent(o PullAgentOptions) (*PullAgent, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	a := &PullAgent{options: o}
	var err error
	if a.home, err = connect.HomeClient(o.Home); err != nil {
		return nil, err
	}
	a.machine = join.NewHandshakeMachine(join.MachineOptions{
		Home: a.home, Namespace: o.Namespace, ClusterName: o.ClusterName, BootstrapFile: o.BootstrapFile,
		Announce: a.buildAnnouncement, ExpirationSeconds: o.ExpirationSeconds,
		Engage: a.engageParts, Disengage: a.disengageParts, Rotated: func() { a.status.Kick() },
		Clock: o.Clock, Log: o.Log.WithName("join"),
	})
	a.registry = parts.NewRegistry(o.Log, o.Clock, a.assembleParts()...)
	return a, nil
}

// assembleParts returns those of registration and the given ones.
func (a *PullAgent) assembleParts() []fleet.Part {
	a.status = &clusterstatus.StatusPart{
		Claims: a.options.Claims, ClaimRules: a.options.ClaimRules, Properties: a.options.Properties, Rotation: a.machine.RotationCondition,
	}
	registration := parts.RegistrationParts(parts.RegistrationOptions{
		Status:        a.status,
		Spec:          &clusterspec.SpecPart{Labels: a.options.Labels, ClientConfigs: a.options.ClientConfigs},
		DiscoverEvery: a.options.DiscoverEvery, Clock: a.options.Clock, Log: a.options.Log,
	})
	registration = append(registration, &hubtrust.AuthorityPart{
		Endpoint: func() connect.HubEndpoint { return a.hub.Load().CurrentEndpoint() }, Trust: a.machine.TrustEndpoint,
		Every: a.options.FollowEvery, Clock: a.options.Clock, Log: a.options.Log,
	})
	return append(registration, a.options.Parts...)
}

// RunAgent works until ctx ends, and returns when everything has ended.
func (a *PullAgent) RunAgent(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { _, _ = a.clusterUID(ctx) }) // known by the time it is asked for; an error is seen then
	a.machine.RunHandshake(ctx)
	a.registry.Close()
	running.Wait()
	return nil
}

// MetricCollectors returns the metrics of the agent, but for those of its parts.
func (a *PullAgent) MetricCollectors() []prometheus.Collector {
	return []prometheus.Collector{metrics.NewExpiriesOf(func(_ context.Context, see func(string, time.Time)) error {
		if expires := a.machine.Expiry.ExpiryTime(); !expires.IsZero() {
			see("agent-client", expires)
		}
		return nil
	})}
}

// HandshakeStep tells where the handshake is, and what it waits for.
func (a *PullAgent) HandshakeStep() (reason, message string) { return a.machine.CurrentStep() }

// buildAnnouncement returns what to say of the cluster when it registers.
func (a *PullAgent) buildAnnouncement(ctx context.Context) (join.Announcement, error) {
	uid, err := a.clusterUID(ctx)
	if err != nil {
		return join.Announcement{}, err
	}
	annotations := map[string]string{}
	maps.Copy(annotations, a.options.Annotations)
	if keys := clusterspec.LabelKeys(a.options.Labels); keys != "" {
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
func (a *PullAgent) clusterUID(ctx context.Context) (string, error) {
	if given := a.options.Annotations[clusterv1.AnnotationClusterUID]; given != "" {
		return given, nil
	}
	a.uid.Lock()
	defer a.uid.Unlock()
	if a.uid.known {
		return a.uid.value, nil
	}
	id, err := dial.ReadIdentity(ctx, a.options.Member)
	if err != nil {
		return "", err
	}
	a.uid.known = true
	a.uid.value = id
	return id, nil
}

// engageParts makes the connection to the hub that let us in and starts the parts.
func (a *PullAgent) engageParts(ctx context.Context, admission join.AcceptedAgent) error {
	hub, err := connect.HubCluster(options.LimitRequests(admission.Hub.ClientConfig(), a.options.HubQPS, a.options.HubBurst), admission.Cluster)
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
			a.machine.ObserveCluster(mc)
			if succession.HasSuccessor(mc, a.options.AgentID) {
				a.machine.RecheckRights()
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }, DeleteFunc: func(any) { a.machine.ObserveCluster(nil) },
	})
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", admission.Cluster, err)
	}
	connection := &fleet.Connection{
		Name: fleet.ClusterName(admission.Cluster), AgentID: a.options.AgentID, Identify: a.clusterUID,
		HubHost: admission.Hub.CurrentEndpoint().Server, Hub: hub, Spoke: member, Home: a.home,
		HubCA: func() []byte { return admission.Hub.CurrentEndpoint().CA },
	}
	a.hub.Store(admission.Hub)
	if err := succession.TakeOverConnection(ctx, connection); err != nil {
		return err
	}
	return a.registry.Engage(ctx, connection)
}

// disengageParts ends the parts and returns when they have ended.
func (a *PullAgent) disengageParts() {
	for _, name := range a.registry.EngagedClusters() {
		a.registry.Disengage(name)
	}
}

// CheckParts returns what holds up the parts, or nil. An agent that has not joined
// yet is well: waiting for the hub is its work.
func (a *PullAgent) CheckParts() error {
	var errs []error
	for _, name := range a.registry.EngagedClusters() {
		errs = append(errs, a.registry.CheckEngaged(name))
	}
	return errors.Join(errs...)
}
