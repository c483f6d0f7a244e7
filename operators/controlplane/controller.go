// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is the operator of dedicated hubs: it runs what a
// ControlPlane asks for, etcd and an API server with few controllers, as pods on
// its own cluster, and ends with a kubeconfig in a Secret.
//
// An install.PhaseEngine walks a ControlPlane through the phases. What is installed is
// in manifests, which is pure. The operator has permissions only in the
// namespaces where somebody has granted them, so it watches nothing there but
// looks again at intervals.
package controlplane

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/upgrade"
	"github.com/capstan-io/capstan/operators/controlplane/status"
)

// FieldOwner is the owner of the fields that the operator applies.
const FieldOwner = "control-plane"

const (
	// resync is the longest time between two walks: nothing is watched but
	// ControlPlanes.
	resync = time.Minute
	// waitRetry is when to look again at what a walk waits for.
	waitRetry = 2 * time.Second
	// brokenRetry is when to try again what somebody else has to put right.
	brokenRetry = 15 * time.Second
)

// ControllerDeps is what a Controller works with.
type ControllerDeps struct {
	Client client.Client
	// Live reads from the API server: the operator has no cache of what it makes.
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
	// Connect returns a client of an API server that the operator has installed.
	Connect func(*rest.Config) (client.Client, error)
	// Serves finds out whether the server at an address has a certificate for a host,
	// of one of the authorities.
	Serves func(ctx context.Context, address, host string, authorities []byte) error
	// Namespace that the operator runs in.
	Namespace string
}

// hostCluster is the cluster that the operator runs on, and what it does there.
type hostCluster struct {
	ControllerDeps
	target *install.Target
	hubs   *hubClients
}

// Controller installs control planes.
type Controller struct {
	*hostCluster
	engine install.PhaseEngine[*fleetv1alpha1.ControlPlane, *controlPlanePass]
}

// NewControlPlaneController returns a controller. It does nothing until it is set up with a manager,
// or its Reconcile is called.
func NewControlPlaneController(d ControllerDeps) *Controller {
	all := &hostCluster{ControllerDeps: d, hubs: newHubClients(d.Connect, d.Clock)}
	all.target = install.NewTarget(d.Client, install.TargetReaders{Live: d.Live, Secrets: d.Live}, FieldOwner)
	// What a cache has of these kinds is not what RBAC lets the operator watch.
	all.target.Applier = all.target.Secrets
	c := &Controller{hostCluster: all}
	c.engine = install.PhaseEngine[*fleetv1alpha1.ControlPlane, *controlPlanePass]{
		Client: d.Client, Clock: d.Clock,
		Upgrade:   upgrade.NewGate(nil, upgrade.GateText{}), // OLM does not install it
		Finalizer: fleetv1alpha1.FinalizerControlPlane,
		Install: append([]install.Phase[*controlPlanePass]{{
			Name: "fence", Reason: fleetv1alpha1.ControlPlaneReasonApplyFailed,
			Run: fencePhase{fence.NewPolicyInstaller(d.Client, d.Live, d.Clock), fence.ControlPlaneOperator(d.Namespace)}.ensureFence,
		}}, installPhases(&controlPlaneInstallation{hostCluster: all}, &credentialPhases{hostCluster: all}, &rotationPhases{hostCluster: all})...),
		Remove: removalPhases(&controlPlaneRemoval{hostCluster: all}),
		Kind: install.EngineKind[*fleetv1alpha1.ControlPlane, *controlPlanePass]{
			Name:          "ControlPlane",
			Begin:         newControlPlanePass,
			Conditions:    func(cp *fleetv1alpha1.ControlPlane) *[]metav1.Condition { return &cp.Status.Conditions },
			Report:        all.reportInstallOutcome,
			ReportRemoval: reportRemoval,
			Announce:      c.recordTransitionEvents,
			Busy:          func(*fleetv1alpha1.ControlPlane) string { return "" },
		},
	}
	return c
}

// installPhases is how a control plane is installed: each part needs those before
// it.
func installPhases(i *controlPlaneInstallation, c *credentialPhases, r *rotationPhases) []install.Phase[*controlPlanePass] {
	const failed = fleetv1alpha1.ControlPlaneReasonApplyFailed
	return explainMissingPermissions(
		install.Phase[*controlPlanePass]{Name: "observation", Reason: failed, Run: i.observeWorkloads},
		install.Phase[*controlPlanePass]{Name: "hold", Reason: failed, Run: (&holdPhases{i}).applyHoldAnnotation},
		install.Phase[*controlPlanePass]{Name: "validation", Reason: failed, Run: i.validateControlPlane},
		install.Phase[*controlPlanePass]{Name: "service", Reason: failed, Run: i.applyAPIServerService},
		install.Phase[*controlPlanePass]{Name: "certificates", Reason: failed, Run: c.rotateCertificates},
		install.Phase[*controlPlanePass]{Name: "keys", Reason: failed, Run: c.ensureControlPlaneKeys},
		install.Phase[*controlPlanePass]{Name: "network", Reason: failed, Run: i.applyNetworkPolicies},
		install.Phase[*controlPlanePass]{Name: "etcd", Reason: failed, Run: i.deployEtcd},
		install.Phase[*controlPlanePass]{Name: "API server", Reason: failed, Run: i.deployAPIServer},
		install.Phase[*controlPlanePass]{Name: "closed API server", Reason: failed, Run: (&holdPhases{i}).holdClosedAPIServer},
		install.Phase[*controlPlanePass]{Name: "endpoint", Reason: failed, Run: i.checkServingCertificate},
		install.Phase[*controlPlanePass]{Name: "first objects", Reason: failed, Run: i.applyHubObjects},
		install.Phase[*controlPlanePass]{Name: "controller manager", Reason: failed, Run: i.deployControllerManager},
		install.Phase[*controlPlanePass]{Name: status.PhaseKubeconfig, Reason: failed, Run: i.applyKubeconfigSecret},
		install.Phase[*controlPlanePass]{Name: "rollout", Reason: failed, Run: i.checkRollout},
		install.Phase[*controlPlanePass]{Name: "rotation", Reason: failed, Run: r.advanceRotations},
	)
}

// removalPhases is how it is removed, the data last.
func removalPhases(r *controlPlaneRemoval) []install.Phase[*controlPlanePass] {
	const removing = fleetv1alpha1.ControlPlaneReasonRemoving
	return explainMissingPermissions(
		install.Phase[*controlPlanePass]{Name: "kubeconfig", Reason: removing, Run: r.deleteKubeconfig},
		install.Phase[*controlPlanePass]{Name: "pods", Reason: removing, Run: r.deleteWorkloads},
		install.Phase[*controlPlanePass]{Name: "data", Reason: removing, Run: r.deleteOrRetainData},
	)
}

// Reconcile brings the control plane to what the ControlPlane asks for.
func (c *Controller) Reconcile(ctx context.Context, cp *fleetv1alpha1.ControlPlane) (ctrl.Result, error) {
	return c.engine.Reconcile(ctx, cp)
}

// recordTransitionEvents records an event when the control plane becomes available or degraded.
func (c *Controller) recordTransitionEvents(p *controlPlanePass, _ install.PassOutcome) {
	before := p.Before.Status.Conditions
	after := p.Object.Status.Conditions
	install.RecordConditionEvent(c.Events, p.Object, install.ConditionChange{
		Before: before, After: after, Type: fleetv1alpha1.ControlPlaneConditionAvailable, Action: install.ActionInstall,
		Normal: []string{fleetv1alpha1.ControlPlaneReasonInstalling, fleetv1alpha1.ControlPlaneReasonPodsNotReady},
	})
	c.announceRotations(p)
}
