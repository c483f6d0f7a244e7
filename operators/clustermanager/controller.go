// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustermanager is the operator of a hub: it installs what a
// ClusterManager asks for, reconciles it, and removes it.
//
// An install.PhaseEngine walks a ClusterManager through the phases in the order in
// which they depend on each other. What is installed is in manifests, which is
// pure; a phase puts it onto a cluster and says if something is missing yet. In
// mode Hosted there are two of these: the management cluster, where the operator
// and the pods run, and the hub, which they work on.
package clustermanager

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/remote"
	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/operators/clustermanager/arrivals"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// FieldOwner is the owner of the fields that the operator applies.
const FieldOwner = "cluster-manager"

const (
	// resync is the longest time between two walks. Changes come by watch; this
	// is for those that nothing watches, such as lost secrets.
	resync = 10 * time.Minute
	// waitRetry is when a walk that waits for something is repeated, if no watch
	// tells that it has come.
	waitRetry = 5 * time.Second
)

// OperatorOptions are what the operator was started with.
type OperatorOptions struct {
	// Namespace of the operator.
	Namespace string
	// Image of the operator, for components whose image the spec leaves open.
	Image string
	// Version of the operator, semantic, without a leading "v".
	Version string
	// PullSecret is the name of the secret in Namespace that is copied to the hub.
	PullSecret string
	// SyncLabels copies the labels of the ClusterManager to everything.
	SyncLabels bool
	// KeepCRDs leaves the CustomResourceDefinitions, and with them all clusters
	// and works, when the ClusterManager is deleted.
	KeepCRDs bool
	// ControlPlane selects the nodes that are counted to find the number of
	// replicas; Replicas, if not 0, is the number instead.
	ControlPlane labels.Selector
	Replicas     int32
	// ProxyEnv is passed to the components.
	ProxyEnv []corev1.EnvVar
}

// ControllerDeps is what a Controller works with.
type ControllerDeps struct {
	Client client.Client
	// Reader reads past the cache of Client.
	Reader client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
	// Upgrade tells OLM whether the operator may be replaced; nil without OLM.
	Upgrade upgrade.Signal
	// CRDs are what the hub serves; Propagation what it serves beside that with the
	// gate of this name; Rules the rules of the components.
	CRDs        []*apiextensionsv1.CustomResourceDefinition
	Propagation []*apiextensionsv1.CustomResourceDefinition
	Rules       manifests.ComponentRules
	Options     OperatorOptions
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// operatorClusters are those that the operator works on, and what it does so with.
type operatorClusters struct {
	ControllerDeps
	// management is the cluster that the operator runs on; hubs are those that it
	// does not run on.
	management *install.Target
	hubs       *remote.ClusterClients
	prober     probe.Prober
	// arrivals watches the Push clusters of hubs.
	arrivals *arrivals.PushClusterSource
	// expiries are those of the certificates of the hubs.
	expiries *metrics.Expiries
}

// Controller installs hubs.
type Controller struct {
	*operatorClusters
	engine install.PhaseEngine[*operatorv1.ClusterManager, *clusterManagerPass]
	// watches begin as the rights of the operator allow, those of
	// ClusterConnections after their kind was installed.
	watches, connections *install.KindWatches
}

// NewClusterManagerController returns a controller. It does nothing until it is set up with a manager,
// or its Reconcile is called.
func NewClusterManagerController(d ControllerDeps) *Controller {
	all := &operatorClusters{
		ControllerDeps: d,
		management:     install.NewTarget(d.Client, install.TargetReaders{Live: d.Reader, Secrets: d.Reader}, FieldOwner),
		hubs:           remote.NewClusterClients(d.Client.Scheme()),
		arrivals:       arrivals.NewPushClusterSource(d.Client.Scheme()),
		expiries:       metrics.NewExpiries(),
	}
	c := &Controller{operatorClusters: all, watches: &install.KindWatches{}, connections: &install.KindWatches{}}
	may := permissionPhases{operatorClusters: all, review: &rightsReview{client: d.Client, clock: d.Clock}, watches: c.watches}
	c.engine = install.PhaseEngine[*operatorv1.ClusterManager, *clusterManagerPass]{
		Client: d.Client, Clock: d.Clock,
		Upgrade:   upgrade.NewGate(d.Upgrade, upgrade.GateText{BusyReason: "HubChanging", Idle: "no hub is being updated"}),
		Finalizer: operatorv1.FinalizerClusterManagerCleanup,
		Install: append([]install.Phase[*clusterManagerPass]{{
			Name: "fence", Reason: operatorv1.ClusterManagerReasonHubResourceApplyFailed,
			Run: fencePhase{fence.NewPolicyInstaller(d.Client, d.Reader, d.Clock), fence.ClusterManagerOperator(d.Options.Namespace)}.ensureFence,
		}}, installPhases(may, &hubPreparation{operatorClusters: all}, &hubInstallation{operatorClusters: all, connections: c.connections})...),
		Remove: removalPhases(may, &hubRemoval{operatorClusters: all}),
		Kind: install.EngineKind[*operatorv1.ClusterManager, *clusterManagerPass]{
			Name: "ClusterManager",
			Begin: func(base *install.ReconcilePass[*operatorv1.ClusterManager]) *clusterManagerPass {
				return newClusterManagerPass(base, d.Options.Namespace)
			},
			Conditions:    func(cm *operatorv1.ClusterManager) *[]metav1.Condition { return &cm.Status.Conditions },
			Report:        reportInstallOutcome,
			ReportRemoval: reportRemoval,
			Announce:      c.recordTransitionEvents,
			Busy:          upgradeBlockReason,
		},
	}
	return c
}

// installPhases is how a hub is installed.
func installPhases(may permissionPhases, before *hubPreparation, i *hubInstallation) []install.Phase[*clusterManagerPass] {
	const (
		resources = operatorv1.ClusterManagerReasonHubResourceApplyFailed
		accounts  = operatorv1.ClusterManagerReasonServiceAccountSyncFailed
	)
	return []install.Phase[*clusterManagerPass]{
		{Name: "permissions", Reason: resources, Run: may.reviewHomeRights},
		{Name: "validation", Reason: operatorv1.ClusterManagerReasonConfigurationNotSupported, Run: before.validateClusterManager},
		{Name: "environment", Reason: resources, Run: before.gatherEnvironment},
		{Name: "connection", Reason: resources, Run: before.connectHub},
		{Name: "features", Reason: resources, Run: may.decideFeatures},
		// At once, as nothing else may help a hub whose discovery fails.
		{Name: "APIs that are off", Reason: resources, Run: i.withdrawAPI},
		{Name: "namespace", Reason: resources, Run: i.applyNamespaces},
		{Name: "certificates", Reason: operatorv1.ClusterManagerReasonCertificateFailed, Run: i.rotateServingCertificates},
		// Before there is anything to be forged.
		{Name: "guard", Reason: resources, Run: applyAdmissionGuards},
		{Name: "priority", Reason: resources, Run: applyPriorityLevels},
		{Name: "definitions", Reason: operatorv1.ClusterManagerReasonCRDApplyFailed, Run: i.installDefinitions},
		{Name: "pull secret", Reason: resources, Run: i.copyPullSecret},
		{Name: "roles", Reason: resources, Run: i.applyComponentAccess},
		{Name: "kubeconfigs", Reason: accounts, Run: i.issueHubKubeconfigs},
		{Name: "services", Reason: resources, Run: i.applyServices},
		{Name: "network policies", Reason: resources, Run: i.applyNetworkPolicies},
		{Name: "components", Reason: operatorv1.ClusterManagerReasonRuntimeResourceApplyFailed, Run: i.deployComponents},
		{Name: "monitoring", Reason: resources, Run: i.applyPodMonitors},
		{Name: "webhooks", Reason: operatorv1.ClusterManagerReasonWebhookApplyFailed, Run: i.applyWebhookConfigs},
		{Name: "aggregated API", Reason: resources, Run: i.installAggregatedAPI},
		// Who may register comes after those who check what is registered.
		{Name: "bootstrap identity", Reason: resources, Run: i.applyBootstrapAccess},
		{Name: "leftovers", Reason: resources, Run: i.pruneLeftovers},
	}
}

// removalPhases is how it is removed: the hub keeps running while there are objects
// that it and its agents have to clean up after.
func removalPhases(may permissionPhases, r *hubRemoval) []install.Phase[*clusterManagerPass] {
	const (
		remaining = operatorv1.ClusterManagerReasonResourcesRemaining
		removing  = operatorv1.ClusterManagerReasonRemovingHub
	)
	return []install.Phase[*clusterManagerPass]{
		{Name: "permissions", Reason: removing, Run: may.reviewHomeRights},
		{Name: "connection", Reason: operatorv1.ClusterManagerReasonWaitingForHub, Run: r.reachHub},
		{Name: "notice", Reason: operatorv1.ClusterManagerReasonClustersLoseWorks, Run: skipWithoutHub(r.notifyOfLoss)},
		{Name: "works to keep", Reason: remaining, Run: skipWithoutHub(r.orphanWorks)},
		// Their end takes complete discovery, whether a server of it runs or not.
		{Name: "aggregated API", Reason: remaining, Run: skipWithoutHub(r.removeAPI)},
		{Name: "clusters and works", Reason: remaining, Run: skipWithoutHub(r.removeUserObjects)},
		{Name: "roles of clusters", Reason: remaining, Run: skipWithoutHub(r.removeGrants)},
		{Name: "hub", Reason: removing, Run: r.removeInstalled},
		{Name: "namespace on the hub", Reason: removing, Run: skipWithoutHub(r.removeHubNamespace)},
		{Name: "connection", Reason: removing, Run: r.releaseHub},
		{Name: "namespace", Reason: removing, Run: r.removeHomeNamespace},
	}
}

// ControllerName of the controller.
func (c *Controller) ControllerName() string { return "clustermanager" }

// Reconcile brings the hub to what the ClusterManager asks for.
func (c *Controller) Reconcile(ctx context.Context, cm *operatorv1.ClusterManager) (ctrl.Result, error) {
	return c.engine.Reconcile(ctx, cm)
}

// recordTransitionEvents records events about what became of the hub.
func (c *Controller) recordTransitionEvents(p *clusterManagerPass, _ install.PassOutcome) {
	install.RecordConditionEvent(c.Events, p.Object, install.ConditionChange{
		Before: p.Before.Status.Conditions, After: p.Object.Status.Conditions,
		Type: operatorv1.ClusterManagerConditionApplied, Action: install.ActionInstall,
		Normal: []string{operatorv1.ClusterManagerReasonInstalling},
	})
}

// hubDefinitions are the kinds of the hub, with the marks of its ClusterManager.
func (c *operatorClusters) hubDefinitions(h manifests.Hub) definitions.DefinitionSet {
	labels := map[string]string{}
	for _, from := range []map[string]string{h.Labels, h.OwnerLabels()} {
		for key, value := range from {
			labels[key] = value
		}
	}
	crds := c.CRDs
	if h.PropagationEnabled() {
		crds = slices.Concat(crds, c.Propagation)
	}
	return definitions.DefinitionSet{CRDs: crds, Version: c.Options.Version, Labels: labels}
}
