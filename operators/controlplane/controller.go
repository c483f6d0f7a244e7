// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane is the operator of dedicated hubs: it runs what a
// ControlPlane asks for, etcd and an API server with few controllers, as pods on
// its own cluster, and ends with a kubeconfig in a Secret.
//
// An install.Engine walks a ControlPlane through the phases. What is installed is
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

// Deps is what a Controller works with.
type Deps struct {
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

// host is the cluster that the operator runs on, and what it does there.
type host struct {
	Deps
	target *install.Target
	hubs   *hubs
}

// Controller installs control planes.
type Controller struct {
	*host
	engine install.Engine[*fleetv1alpha1.ControlPlane, *pass]
}

// New returns a controller. It does nothing until it is set up with a manager,
// or its Reconcile is called.
func New(d Deps) *Controller {
	all := &host{Deps: d, hubs: newHubs(d.Connect, d.Clock)}
	all.target = install.NewTarget(d.Client, install.Readers{Live: d.Live, Secrets: d.Live}, FieldOwner)
	// What a cache has of these kinds is not what RBAC lets the operator watch.
	all.target.Applier = all.target.Secrets
	c := &Controller{host: all}
	c.engine = install.Engine[*fleetv1alpha1.ControlPlane, *pass]{
		Client: d.Client, Clock: d.Clock,
		Upgrade:   upgrade.NewGate(nil, upgrade.Text{}), // OLM does not install it
		Finalizer: fleetv1alpha1.FinalizerControlPlane,
		Install: append([]install.Phase[*pass]{{
			Name: "fence", Reason: fleetv1alpha1.ControlPlaneReasonApplyFailed,
			Run: fencing{fence.NewKeeper(d.Client, d.Live, d.Clock), fence.ControlPlane(d.Namespace)}.run,
		}}, installing(&installation{host: all}, &credentials{host: all}, &rotations{host: all})...),
		Remove: removing(&removal{host: all}),
		Kind: install.Kind[*fleetv1alpha1.ControlPlane, *pass]{
			Name:          "ControlPlane",
			Begin:         begin,
			Conditions:    func(cp *fleetv1alpha1.ControlPlane) *[]metav1.Condition { return &cp.Status.Conditions },
			Report:        all.report,
			ReportRemoval: reportRemoval,
			Announce:      c.announce,
			Busy:          func(*fleetv1alpha1.ControlPlane) string { return "" },
		},
	}
	return c
}

// installing is how a control plane is installed: each part needs those before
// it.
func installing(i *installation, c *credentials, r *rotations) []install.Phase[*pass] {
	const failed = fleetv1alpha1.ControlPlaneReasonApplyFailed
	return permitted(
		install.Phase[*pass]{Name: "observation", Reason: failed, Run: i.observe},
		install.Phase[*pass]{Name: "hold", Reason: failed, Run: (&holding{i}).hold},
		install.Phase[*pass]{Name: "validation", Reason: failed, Run: i.validate},
		install.Phase[*pass]{Name: "service", Reason: failed, Run: i.service},
		install.Phase[*pass]{Name: "certificates", Reason: failed, Run: c.certificates},
		install.Phase[*pass]{Name: "keys", Reason: failed, Run: c.keys},
		install.Phase[*pass]{Name: "network", Reason: failed, Run: i.network},
		install.Phase[*pass]{Name: "etcd", Reason: failed, Run: i.etcd},
		install.Phase[*pass]{Name: "API server", Reason: failed, Run: i.apiServer},
		install.Phase[*pass]{Name: "closed API server", Reason: failed, Run: (&holding{i}).closed},
		install.Phase[*pass]{Name: "endpoint", Reason: failed, Run: i.serves},
		install.Phase[*pass]{Name: "first objects", Reason: failed, Run: i.hub},
		install.Phase[*pass]{Name: "controller manager", Reason: failed, Run: i.controllerManager},
		install.Phase[*pass]{Name: status.PhaseKubeconfig, Reason: failed, Run: i.kubeconfig},
		install.Phase[*pass]{Name: "rollout", Reason: failed, Run: i.rollout},
		install.Phase[*pass]{Name: "rotation", Reason: failed, Run: r.run},
	)
}

// removing is how it is removed, the data last.
func removing(r *removal) []install.Phase[*pass] {
	const removing = fleetv1alpha1.ControlPlaneReasonRemoving
	return permitted(
		install.Phase[*pass]{Name: "kubeconfig", Reason: removing, Run: r.kubeconfig},
		install.Phase[*pass]{Name: "pods", Reason: removing, Run: r.workloads},
		install.Phase[*pass]{Name: "data", Reason: removing, Run: r.data},
	)
}

// Reconcile brings the control plane to what the ControlPlane asks for.
func (c *Controller) Reconcile(ctx context.Context, cp *fleetv1alpha1.ControlPlane) (ctrl.Result, error) {
	return c.engine.Reconcile(ctx, cp)
}

// announce records an event when the control plane becomes available or degraded.
func (c *Controller) announce(p *pass, _ install.Outcome) {
	before := p.Before.Status.Conditions
	after := p.Object.Status.Conditions
	install.Announce(c.Events, p.Object, install.Change{
		Before: before, After: after, Type: fleetv1alpha1.ControlPlaneConditionAvailable, Action: install.ActionInstall,
		Normal: []string{fleetv1alpha1.ControlPlaneReasonInstalling, fleetv1alpha1.ControlPlaneReasonPodsNotReady},
	})
	c.announceRotations(p)
}
