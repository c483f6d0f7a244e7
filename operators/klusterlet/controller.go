// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package klusterlet is the operator that installs the agents on a member,
// reports the progress of the join, and removes everything again.
//
// An install.Engine walks a Klusterlet through the phases. Hosted agents are
// installed by the same ones, which then work on two clusters: the management
// cluster, where the operator and the agents run, and the managed cluster, where
// the agents work. It needs nothing from the hub: whether the hub lets the agents
// in is found out by package hubprobe, whose results it reads.
package klusterlet

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/remote"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

// FieldOwner is the name that the operator owns fields under.
const FieldOwner = "klusterlet"

// Settings say how the operator was started.
type Settings struct {
	// Namespace that the operator runs in.
	Namespace string
	// Image of the agents where the Klusterlet names none.
	Image string
	// Version of the operator, stamped onto the definitions that it installs.
	Version string
	// PullSecret is the name of a secret in Namespace that is copied to where
	// agents run, if it exists.
	PullSecret string
	// Replicas of the agents. Defaults to 0: one, or three if the cluster has
	// several nodes for its control plane.
	Replicas int32
	// ControlPlaneSelector selects these nodes.
	ControlPlaneSelector string
	// SyncLabels copies the labels of a Klusterlet to what is installed for it.
	SyncLabels bool
	// Env is added to the environment of the agents, for example a proxy.
	Env []corev1.EnvVar
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// Deps are what a Controller works with.
type Deps struct {
	// Client reads from a cache.
	Client client.Client
	// Live reads from the API server, what is needed rarely.
	Live client.Reader
	// Secrets reads the few secrets that the operator has to do with.
	Secrets client.Reader
	Results *hubprobe.Results
	Rules   manifests.Rules
	// Permissions are those of the operator; nil is all that it asks for.
	Permissions *permissions.Set
	Events      events.EventRecorder
	// Upgrade tells OLM whether the operator may be replaced; nil without OLM.
	Upgrade  upgrade.Signal
	Clock    clock.PassiveClock
	Settings Settings
}

// clusters are those that the operator works on, and what it does so with.
type clusters struct {
	Deps
	// management is the cluster that the operator and the agents run on; members
	// are those of hosted agents.
	management *install.Target
	members    *remote.Clients
	prober     probe.Prober
}

// Controller installs, watches and removes the agents of Klusterlets.
type Controller struct {
	*clusters
	engine install.Engine[*operatorv1.Klusterlet, *pass]
}

// New returns a Controller.
func New(deps Deps) *Controller {
	all := &clusters{
		Deps:       deps,
		management: install.NewTarget(deps.Client, install.Readers{Live: deps.Live, Secrets: deps.Secrets}, FieldOwner),
		members:    remote.NewClients(deps.Client.Scheme()),
	}
	c := &Controller{clusters: all}
	c.engine = install.Engine[*operatorv1.Klusterlet, *pass]{
		Client: deps.Client, Clock: deps.Clock,
		Upgrade:   upgrade.NewGate(deps.Upgrade, upgrade.Text{BusyReason: "RemovingAgents", Idle: "no agents are being removed"}),
		Finalizer: operatorv1.FinalizerKlusterletCleanup,
		Further:   []string{operatorv1.FinalizerKlusterletHostedCleanup},
		Install: append([]install.Phase[*pass]{{
			Name: "fence", Reason: operatorv1.KlusterletReasonApplyFailed,
			Run: fencing{fence.NewKeeper(deps.Client, deps.Live, deps.Clock), fence.Klusterlet(deps.Settings.Namespace)}.run,
		}, {
			Name: "permissions", Reason: operatorv1.KlusterletReasonApplyFailed, Run: all.permissions,
		}}, installing(&installation{clusters: all, observer: &observer{all}})...),
		Remove: removing(&removal{all}),
		Kind: install.Kind[*operatorv1.Klusterlet, *pass]{
			Name:          "Klusterlet",
			Begin:         all.begin,
			Conditions:    func(k *operatorv1.Klusterlet) *[]metav1.Condition { return &k.Status.Conditions },
			Report:        report,
			ReportRemoval: reportRemoval,
			Announce:      c.announce,
			Busy:          busy,
		},
	}
	return c
}

// installing is how agents are installed.
func installing(i *installation) []install.Phase[*pass] {
	const (
		management = operatorv1.KlusterletReasonManagementClusterResourceApplyFailed
		managed    = operatorv1.KlusterletReasonManagedClusterResourceApplyFailed
	)
	return []install.Phase[*pass]{
		{Name: "validation", Reason: operatorv1.KlusterletReasonApplyFailed, Run: i.validate},
		{Name: "management cluster", Reason: management, Run: i.managementNamespaces},
		{Name: "connection", Reason: managed, Run: i.connect},
		{Name: "namespaces", Reason: managed, Run: i.namespaces},
		{Name: "definitions", Reason: operatorv1.KlusterletReasonCRDApplyFailed, Run: i.definitions},
		{Name: "secrets", Reason: management, Run: i.secrets},
		{Name: "access", Reason: managed, Run: i.access},
		{Name: "kubeconfigs", Reason: managed, Run: i.kubeconfigs},
		{Name: "network", Reason: management, Run: i.network},
		{Name: "agents", Reason: management, Run: i.agents},
		{Name: "monitoring", Reason: management, Run: i.monitoring},
		{Name: "observation", Reason: management, Run: i.observer.observe},
		{Name: "migration", Reason: operatorv1.KlusterletReasonApplyFailed, Run: i.migrate},
	}
}

// removing is how they are removed: they go first, so that nobody brings back
// what is removed after them.
func removing(r *removal) []install.Phase[*pass] {
	const failed = operatorv1.KlusterletReasonApplyFailed
	return []install.Phase[*pass]{
		{Name: "agents", Reason: failed, Run: r.removeAgents},
		{Name: "connection", Reason: failed, Run: r.reachMember},
		{Name: "works", Reason: failed, Run: onMember(r.removeAppliedWorks)},
		{Name: "access", Reason: failed, Run: onMember(r.removeAccess)},
		{Name: "namespaces", Reason: failed, Run: onMember(r.removeNamespaces)},
		{Name: "shared resources", Reason: failed, Run: onMember(r.removeShared)},
		{Name: "managed cluster", Reason: failed, Run: r.releaseMember},
		{Name: "access to the management cluster", Reason: failed, Run: r.removeManagementAccess},
		{Name: "namespace of hosted agents", Reason: failed, Run: r.removeManagementNamespace},
	}
}

// Reconcile walks a Klusterlet through its phases, or removes what was
// installed for it.
func (c *Controller) Reconcile(ctx context.Context, klusterlet *operatorv1.Klusterlet) (ctrl.Result, error) {
	return c.engine.Reconcile(ctx, klusterlet)
}

// announce records an event when installing fails for another reason than
// before, or when the step of the handshake is another.
func (c *Controller) announce(p *pass, o install.Outcome) {
	change := install.Change{
		Before: p.Before.Status.Conditions, After: p.Object.Status.Conditions,
		Type: operatorv1.KlusterletConditionApplied, Action: install.ActionInstall,
	}
	if o.Result == install.Done {
		change.Type = operatorv1.KlusterletJoined
		change.Action = install.ActionJoin
	}
	install.Announce(c.Events, p.Object, change)
}

// busy says why OLM must not replace the operator now: the next one might not
// know all that this one installed.
func busy(klusterlet *operatorv1.Klusterlet) string {
	if klusterlet.DeletionTimestamp.IsZero() {
		return ""
	}
	return fmt.Sprintf("the agents of Klusterlet %q are being removed", klusterlet.Name)
}
