// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package klusterlet is the operator that installs the agents on a member,
// reports the progress of the join, and removes everything again.
//
// An install.PhaseEngine walks a Klusterlet through the phases. Hosted agents are
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

// OperatorSettings say how the operator was started.
type OperatorSettings struct {
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

// ControllerDeps are what a Controller works with.
type ControllerDeps struct {
	// Client reads from a cache.
	Client client.Client
	// Live reads from the API server, what is needed rarely.
	Live client.Reader
	// Secrets reads the few secrets that the operator has to do with.
	Secrets client.Reader
	Results *hubprobe.ResultStore
	Rules   manifests.AgentRuleSet
	// Permissions are those of the operator; nil is all that it asks for.
	Permissions *permissions.PermissionSet
	Events      events.EventRecorder
	// Upgrade tells OLM whether the operator may be replaced; nil without OLM.
	Upgrade  upgrade.Signal
	Clock    clock.PassiveClock
	Settings OperatorSettings
}

// operatorClusters are those that the operator works on, and what it does so with.
type operatorClusters struct {
	ControllerDeps
	// management is the cluster that the operator and the agents run on; members
	// are those of hosted agents.
	management *install.Target
	members    *remote.ClusterClients
	prober     probe.Prober
}

// Controller installs, watches and removes the agents of Klusterlets.
type Controller struct {
	*operatorClusters
	engine install.PhaseEngine[*operatorv1.Klusterlet, *klusterletPass]
}

// NewKlusterletController returns a Controller.
func NewKlusterletController(deps ControllerDeps) *Controller {
	all := &operatorClusters{
		ControllerDeps: deps,
		management:     install.NewTarget(deps.Client, install.TargetReaders{Live: deps.Live, Secrets: deps.Secrets}, FieldOwner),
		members:        remote.NewClusterClients(deps.Client.Scheme()),
	}
	c := &Controller{operatorClusters: all}
	c.engine = install.PhaseEngine[*operatorv1.Klusterlet, *klusterletPass]{
		Client: deps.Client, Clock: deps.Clock,
		Upgrade:   upgrade.NewGate(deps.Upgrade, upgrade.GateText{BusyReason: "RemovingAgents", Idle: "no agents are being removed"}),
		Finalizer: operatorv1.FinalizerKlusterletCleanup,
		Further:   []string{operatorv1.FinalizerKlusterletHostedCleanup},
		Install: append([]install.Phase[*klusterletPass]{{
			Name: "fence", Reason: operatorv1.KlusterletReasonApplyFailed,
			Run: fencePhase{fence.NewPolicyInstaller(deps.Client, deps.Live, deps.Clock), fence.KlusterletOperator(deps.Settings.Namespace)}.ensureFence,
		}, {
			Name: "permissions", Reason: operatorv1.KlusterletReasonApplyFailed, Run: all.reportPermissions,
		}}, installPhases(&agentInstallation{operatorClusters: all, observer: &agentObserver{all}})...),
		Remove: removalPhases(&agentRemoval{all}),
		Kind: install.EngineKind[*operatorv1.Klusterlet, *klusterletPass]{
			Name:          "Klusterlet",
			Begin:         all.newKlusterletPass,
			Conditions:    func(k *operatorv1.Klusterlet) *[]metav1.Condition { return &k.Status.Conditions },
			Report:        reportInstallOutcome,
			ReportRemoval: reportRemoval,
			Announce:      c.recordTransitionEvents,
			Busy:          upgradeBlockReason,
		},
	}
	return c
}

// installPhases is how agents are installed.
func installPhases(i *agentInstallation) []install.Phase[*klusterletPass] {
	const (
		management = operatorv1.KlusterletReasonManagementClusterResourceApplyFailed
		managed    = operatorv1.KlusterletReasonManagedClusterResourceApplyFailed
	)
	return []install.Phase[*klusterletPass]{
		{Name: "validation", Reason: operatorv1.KlusterletReasonApplyFailed, Run: i.validateKlusterlet},
		{Name: "management cluster", Reason: management, Run: i.applyManagementNamespaces},
		{Name: "connection", Reason: managed, Run: i.connectMember},
		{Name: "namespaces", Reason: managed, Run: i.applyAgentNamespaces},
		{Name: "definitions", Reason: operatorv1.KlusterletReasonCRDApplyFailed, Run: i.installDefinitions},
		{Name: "secrets", Reason: management, Run: i.prepareAgentSecrets},
		{Name: "access", Reason: managed, Run: i.applyAgentAccess},
		{Name: "kubeconfigs", Reason: managed, Run: i.issueMemberKubeconfigs},
		{Name: "network", Reason: management, Run: i.applyNetworkPolicies},
		{Name: "agents", Reason: management, Run: i.deployAgents},
		{Name: "monitoring", Reason: management, Run: i.applyPodMonitors},
		{Name: "observation", Reason: management, Run: i.observer.observeAgents},
		{Name: "migration", Reason: operatorv1.KlusterletReasonApplyFailed, Run: i.removeFormerNamespaces},
	}
}

// removalPhases is how they are removed: they go first, so that nobody brings back
// what is removed after them.
func removalPhases(r *agentRemoval) []install.Phase[*klusterletPass] {
	const failed = operatorv1.KlusterletReasonApplyFailed
	return []install.Phase[*klusterletPass]{
		{Name: "agents", Reason: failed, Run: r.removeAgents},
		{Name: "connection", Reason: failed, Run: r.reachMember},
		{Name: "works", Reason: failed, Run: skipWithoutMember(r.removeAppliedWorks)},
		{Name: "access", Reason: failed, Run: skipWithoutMember(r.removeAccess)},
		{Name: "namespaces", Reason: failed, Run: skipWithoutMember(r.removeNamespaces)},
		{Name: "shared resources", Reason: failed, Run: skipWithoutMember(r.removeShared)},
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

// recordTransitionEvents records an event when installing fails for another reason than
// before, or when the step of the handshake is another.
func (c *Controller) recordTransitionEvents(p *klusterletPass, o install.PassOutcome) {
	change := install.ConditionChange{
		Before: p.Before.Status.Conditions, After: p.Object.Status.Conditions,
		Type: operatorv1.KlusterletConditionApplied, Action: install.ActionInstall,
	}
	if o.Result == install.Done {
		change.Type = operatorv1.KlusterletJoined
		change.Action = install.ActionJoin
	}
	install.RecordConditionEvent(c.Events, p.Object, change)
}

// upgradeBlockReason says why OLM must not replace the operator now: the next one might not
// know all that this one installed.
func upgradeBlockReason(klusterlet *operatorv1.Klusterlet) string {
	if klusterlet.DeletionTimestamp.IsZero() {
		return ""
	}
	return fmt.Sprintf("the agents of Klusterlet %q are being removed", klusterlet.Name)
}
