// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/status"
)

// pass is one walk of a Klusterlet through the phases: what they found out, for
// those that come later.
type pass struct {
	*install.Pass[*operatorv1.Klusterlet]
	options manifests.Options
	// labels are put on everything that is made for this Klusterlet alone.
	labels map[string]string
	// member is the cluster that the agents work on; nil until it is known that it
	// can be reached. With hosted agents, memberCredential leads there.
	member           *install.Target
	memberCredential probe.Credential

	registrationGates, workGates features.Set
	// bootstrap and hub are the agents' credentials.
	bootstrap, hub probe.Credential
	handshake      status.Handshake
	// notes are for the message of the condition Applied.
	notes []string
}

// begin begins a walk.
func (c *clusters) begin(base *install.Pass[*operatorv1.Klusterlet]) *pass {
	p := &pass{Pass: base}
	if c.Settings.SyncLabels {
		p.labels = base.Object.Labels
	}
	return p
}

// Apply applies objects on a target and records them, also those before a failure.
func (p *pass) Apply(ctx context.Context, to *install.Target, objects ...render.Object) error {
	labelled, err := render.Labelled(objects, p.labels, manifests.Marks(p.Object))
	if err != nil {
		return err
	}
	return p.Pass.Apply(ctx, to, labelled...)
}

// permissions tells what is off because the role of the operator lacks rules.
func (c *clusters) permissions(_ context.Context, p *pass) error {
	p.set(c.Permissions.Condition())
	return nil
}

// set sets a condition of the Klusterlet.
func (p *pass) set(condition metav1.Condition) {
	conditions.Set(&p.Object.Status.Conditions, p.Object.Generation, condition)
}

// failed says in the condition Applied that not everything is as wanted.
func (p *pass) failed(reason, message string) {
	p.set(metav1.Condition{
		Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

// report writes into the status how an installation ended. What was found on the
// way stands there already.
func report(p *pass, o install.Outcome) {
	if o.Result != install.Done {
		p.failed(o.Reason, o.Message)
	}
	if o.Observed() {
		p.Object.Status.ObservedGeneration = p.Object.Generation
	}
}

// reportRemoval says what a removal waits for, or why it failed.
func reportRemoval(p *pass, o install.Outcome) {
	switch {
	case o.Message == "": // it only takes a moment
	case o.Result == install.Waiting:
		p.failed(o.Reason, o.Message)
	default:
		p.failed(o.Reason, fmt.Sprintf("removing the %s failed: %s", o.Phase, o.Message))
	}
}

// inventory is what the status says of everything that is installed.
func inventory(klusterlet *operatorv1.Klusterlet) install.Inventory {
	return install.Inventory{Related: klusterlet.Status.RelatedResources, Generations: klusterlet.Status.Generations}
}

// gates returns the set of a component's feature gates and the names of those
// that it does not have.
func gates(component features.Component, list []operatorv1.FeatureGate) (features.Set, []string) {
	changed := map[string]bool{}
	for _, gate := range list {
		changed[gate.Feature] = gate.Mode == operatorv1.FeatureGateModeEnable
	}
	set, unknown := features.Resolve(component, changed)
	return set, slices.Compact(unknown)
}
