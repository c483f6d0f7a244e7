// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustermanager is the operator of a hub: it installs what a
// ClusterManager asks for, reconciles it, and removes it.
//
// An install.Engine walks a ClusterManager through the phases in the order in
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

// Options are what the operator was started with.
type Options struct {
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

// Deps is what a Controller works with.
type Deps struct {
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
	Rules       manifests.Rules
	Options     Options
	// Metrics is where the metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// clusters are those that the operator works on, and what it does so with.
type clusters struct {
	Deps
	// management is the cluster that the operator runs on; hubs are those that it
	// does not run on.
	management *install.Target
	hubs       *remote.Clients
	prober     probe.Prober
	// arrivals watches the Push clusters of hubs.
	arrivals *arrivals.Source
	// expiries are those of the certificates of the hubs.
	expiries *metrics.Expiries
}

// Controller installs hubs.
type Controller struct {
	*clusters
	engine install.Engine[*operatorv1.ClusterManager, *pass]
	// watches begin as the rights of the operator allow, those of
	// ClusterConnections after their kind was installed.
	watches, connections *install.Watches
}

// New returns a controller. It does nothing until it is set up with a manager,
// or its Reconcile is called.
func New(d Deps) *Controller {
	all := &clusters{
		Deps:       d,
		management: install.NewTarget(d.Client, install.Readers{Live: d.Reader, Secrets: d.Reader}, FieldOwner),
		hubs:       remote.NewClients(d.Client.Scheme()),
		arrivals:   arrivals.New(d.Client.Scheme()),
		expiries:   metrics.NewExpiries(),
	}
	c := &Controller{clusters: all, watches: &install.Watches{}, connections: &install.Watches{}}
	may := permitted{clusters: all, review: &review{client: d.Client, clock: d.Clock}, watches: c.watches}
	c.engine = install.Engine[*operatorv1.ClusterManager, *pass]{
		Client: d.Client, Clock: d.Clock,
		Upgrade:   upgrade.NewGate(d.Upgrade, upgrade.Text{BusyReason: "HubChanging", Idle: "no hub is being updated"}),
		Finalizer: operatorv1.FinalizerClusterManagerCleanup,
		Install: append([]install.Phase[*pass]{{
			Name: "fence", Reason: operatorv1.ClusterManagerReasonHubResourceApplyFailed,
			Run: fencing{fence.NewKeeper(d.Client, d.Reader, d.Clock), fence.ClusterManager(d.Options.Namespace)}.run,
		}}, installing(may, &preparation{clusters: all}, &installation{clusters: all, connections: c.connections})...),
		Remove: removing(may, &removal{clusters: all}),
		Kind: install.Kind[*operatorv1.ClusterManager, *pass]{
			Name:          "ClusterManager",
			Begin:         func(base *install.Pass[*operatorv1.ClusterManager]) *pass { return begin(base, d.Options.Namespace) },
			Conditions:    func(cm *operatorv1.ClusterManager) *[]metav1.Condition { return &cm.Status.Conditions },
			Report:        report,
			ReportRemoval: reportRemoval,
			Announce:      c.announce,
			Busy:          busy,
		},
	}
	return c
}

// installing is how a hub is installed.
func installing(may permitted, before *preparation, i *installation) []install.Phase[*pass] {
	const (
		resources = operatorv1.ClusterManagerReasonHubResourceApplyFailed
		accounts  = operatorv1.ClusterManagerReasonServiceAccountSyncFailed
	)
	return []install.Phase[*pass]{
		{Name: "permissions", Reason: resources, Run: may.home},
		{Name: "validation", Reason: operatorv1.ClusterManagerReasonConfigurationNotSupported, Run: before.validate},
		{Name: "environment", Reason: resources, Run: before.environment},
		{Name: "connection", Reason: resources, Run: before.connect},
		{Name: "features", Reason: resources, Run: may.features},
		// At once, as nothing else may help a hub whose discovery fails.
		{Name: "APIs that are off", Reason: resources, Run: i.withdrawAPI},
		{Name: "namespace", Reason: resources, Run: i.namespace},
		{Name: "certificates", Reason: operatorv1.ClusterManagerReasonCertificateFailed, Run: i.certificates},
		// Before there is anything to be forged.
		{Name: "guard", Reason: resources, Run: guard},
		{Name: "priority", Reason: resources, Run: prioritize},
		{Name: "definitions", Reason: operatorv1.ClusterManagerReasonCRDApplyFailed, Run: i.definitions},
		{Name: "pull secret", Reason: resources, Run: i.pullSecret},
		{Name: "roles", Reason: resources, Run: i.access},
		{Name: "kubeconfigs", Reason: accounts, Run: i.kubeconfigs},
		{Name: "services", Reason: resources, Run: i.services},
		{Name: "network policies", Reason: resources, Run: i.networkPolicies},
		{Name: "components", Reason: operatorv1.ClusterManagerReasonRuntimeResourceApplyFailed, Run: i.components},
		{Name: "monitoring", Reason: resources, Run: i.monitoring},
		{Name: "webhooks", Reason: operatorv1.ClusterManagerReasonWebhookApplyFailed, Run: i.webhooks},
		{Name: "aggregated API", Reason: resources, Run: i.aggregatedAPI},
		// Who may register comes after those who check what is registered.
		{Name: "bootstrap identity", Reason: resources, Run: i.bootstrap},
		{Name: "leftovers", Reason: resources, Run: i.leftovers},
	}
}

// removing is how it is removed: the hub keeps running while there are objects
// that it and its agents have to clean up after.
func removing(may permitted, r *removal) []install.Phase[*pass] {
	const (
		remaining = operatorv1.ClusterManagerReasonResourcesRemaining
		removing  = operatorv1.ClusterManagerReasonRemovingHub
	)
	return []install.Phase[*pass]{
		{Name: "permissions", Reason: removing, Run: may.home},
		{Name: "connection", Reason: operatorv1.ClusterManagerReasonWaitingForHub, Run: r.reachHub},
		{Name: "notice", Reason: operatorv1.ClusterManagerReasonClustersLoseWorks, Run: onHub(r.notify)},
		{Name: "works to keep", Reason: remaining, Run: onHub(r.keepWorks)},
		// Their end takes complete discovery, whether a server of it runs or not.
		{Name: "aggregated API", Reason: remaining, Run: onHub(r.removeAPI)},
		{Name: "clusters and works", Reason: remaining, Run: onHub(r.removeUserObjects)},
		{Name: "roles of clusters", Reason: remaining, Run: onHub(r.removeGrants)},
		{Name: "hub", Reason: removing, Run: r.removeInstalled},
		{Name: "namespace on the hub", Reason: removing, Run: onHub(r.removeHubNamespace)},
		{Name: "connection", Reason: removing, Run: r.releaseHub},
		{Name: "namespace", Reason: removing, Run: r.removeHomeNamespace},
	}
}

// Name of the controller.
func (c *Controller) Name() string { return "clustermanager" }

// Reconcile brings the hub to what the ClusterManager asks for.
func (c *Controller) Reconcile(ctx context.Context, cm *operatorv1.ClusterManager) (ctrl.Result, error) {
	return c.engine.Reconcile(ctx, cm)
}

// announce records events about what became of the hub.
func (c *Controller) announce(p *pass, _ install.Outcome) {
	install.Announce(c.Events, p.Object, install.Change{
		Before: p.Before.Status.Conditions, After: p.Object.Status.Conditions,
		Type: operatorv1.ClusterManagerConditionApplied, Action: install.ActionInstall,
		Normal: []string{operatorv1.ClusterManagerReasonInstalling},
	})
}

// definitionsOf are the kinds of the hub, with the marks of its ClusterManager.
func (c *clusters) definitionsOf(h manifests.Hub) definitions.Set {
	labels := map[string]string{}
	for _, from := range []map[string]string{h.Labels, h.Owner()} {
		for key, value := range from {
			labels[key] = value
		}
	}
	crds := c.CRDs
	if h.Propagates() {
		crds = slices.Concat(crds, c.Propagation)
	}
	return definitions.Set{CRDs: crds, Version: c.Options.Version, Labels: labels}
}
