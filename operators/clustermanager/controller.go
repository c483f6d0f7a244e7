// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustermanager is the operator of a hub: it installs what a
// ClusterManager asks for, keeps it so, and removes it.
//
// A pass goes through the phases in the order in which they depend on each
// other. What is installed stands in manifests, which is pure; a phase puts it
// onto the cluster and tells if something is missing yet. In mode Hosted there
// are two sites: the cluster of the operator, where the pods run, and the hub,
// which they work on.
package clustermanager

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/certs"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/remote"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// FieldOwner is the owner of the fields that the operator applies.
const FieldOwner = "cluster-manager"

const (
	// resync is the longest time between two passes. Changes come by watch; this
	// is for those that nothing watches, such as lost secrets.
	resync = 10 * time.Minute
	// waitRetry is when a pass that waits for something is repeated, if no watch
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
	Upgrade UpgradeSignal
	// CRDs are what the hub serves; Rules the rules of the components.
	CRDs    []*apiextensionsv1.CustomResourceDefinition
	Rules   manifests.Rules
	Options Options
}

// Controller installs hubs.
type Controller struct {
	client   client.Client
	reader   client.Reader
	clock    clock.PassiveClock
	events   events.EventRecorder
	upgrade  *upgradeGate
	crds     []*apiextensionsv1.CustomResourceDefinition
	rules    manifests.Rules
	options  Options
	phases   []phase
	removals []removal

	// home is the cluster that the operator runs on; hubs are those that it does
	// not run on.
	home   *site
	hubs   *remote.Clients
	prober probe.Prober

	connections connections
}

// New returns a controller. It does nothing until it is set up with a manager,
// or its Reconcile is called.
func New(d Deps) *Controller {
	c := &Controller{
		client: d.Client, reader: d.Reader, clock: d.Clock, events: d.Events,
		upgrade: &upgradeGate{signal: d.Upgrade, busy: map[string]bool{}},
		crds:    d.CRDs, rules: d.Rules, options: d.Options,
		home: newSite(d.Client, d.Reader), hubs: remote.NewClients(d.Client.Scheme()),
	}
	c.phases = []phase{
		{"validation", operatorv1.ClusterManagerReasonConfigurationNotSupported, c.validate},
		{"environment", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.environment},
		{"connection", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.connect},
		{"namespace", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.namespace},
		{"certificates", operatorv1.ClusterManagerReasonCertificateFailed, c.certificates},
		{"definitions", operatorv1.ClusterManagerReasonCRDApplyFailed, c.definitions},
		{"pull secret", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.pullSecret},
		{"roles", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.access},
		{"kubeconfigs", operatorv1.ClusterManagerReasonServiceAccountSyncFailed, c.kubeconfigs},
		{"services", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.services},
		{"network policies", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.networkPolicies},
		{"components", operatorv1.ClusterManagerReasonRuntimeResourceApplyFailed, c.components},
		{"webhooks", operatorv1.ClusterManagerReasonWebhookApplyFailed, c.webhooks},
		// Who may register comes after those who check what is registered.
		{"bootstrap identity", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.bootstrap},
		{"leftovers", operatorv1.ClusterManagerReasonHubResourceApplyFailed, c.leftovers},
	}
	c.removals = []removal{
		{operatorv1.ClusterManagerReasonWaitingForHub, hubRetry, c.reachForRemoval},
		{operatorv1.ClusterManagerReasonResourcesRemaining, removalRetry, onHub(c.removeUserObjects)},
		{operatorv1.ClusterManagerReasonResourcesRemaining, removalRetry, onHub(c.removeGrants)},
		{operatorv1.ClusterManagerReasonRemovingHub, removalRetry, c.removeInstalled},
		{operatorv1.ClusterManagerReasonRemovingHub, removalRetry, onHub(c.removeHubNamespace)},
		{operatorv1.ClusterManagerReasonRemovingHub, removalRetry, c.hubReleased},
		{operatorv1.ClusterManagerReasonRemovingHub, removalRetry, c.removeHomeNamespace},
	}
	return c
}

// Name of the controller.
func (c *Controller) Name() string { return "clustermanager" }

// Reconcile brings the hub to what the ClusterManager asks for.
func (c *Controller) Reconcile(ctx context.Context, cm *operatorv1.ClusterManager) (ctrl.Result, error) {
	before := cm.DeepCopy()
	if paused(cm) {
		notePaused(cm)
		return ctrl.Result{}, conditions.PatchStatus(ctx, c.client, before, cm)
	}
	notePaused(cm)
	if !cm.DeletionTimestamp.IsZero() {
		return c.finalize(ctx, before, cm)
	}
	start := c.clock.Now()
	p := &pass{before: before, cm: cm, start: start, due: start.Add(resync)}
	// Before the first effect, so that a ClusterManager never goes without its hub.
	err := c.changeMeta(ctx, p, func(cm *operatorv1.ClusterManager) bool {
		return controllerutil.AddFinalizer(cm, operatorv1.FinalizerClusterManagerCleanup)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	outcome := p.run(ctx, c.phases)
	c.report(p, outcome)
	c.emit(p.before, cm)
	err = errors.Join(conditions.PatchStatus(ctx, c.client, p.before, cm), c.upgrade.tell(ctx, cm))
	switch {
	case err != nil:
		return ctrl.Result{}, errors.Join(outcome.err, err)
	case outcome.terminal:
		return ctrl.Result{}, reconcile.TerminalError(outcome.err)
	case outcome.err != nil && !outcome.retried:
		return ctrl.Result{}, outcome.err
	}
	return ctrl.Result{RequeueAfter: max(p.due.Sub(start), time.Second)}, nil
}

// rotator returns what keeps the certificates of the hub.
func (c *Controller) rotator(h manifests.Hub) *certs.Rotator {
	return &certs.Rotator{
		Client: c.client, Reader: c.reader, Clock: c.clock, Owner: FieldOwner,
		Namespace: h.Namespace(), Labels: h.Owner(),
		SignerSecret: operatorv1.SignerSecret, BundleConfigMap: operatorv1.CABundleConfigMap,
	}
}
