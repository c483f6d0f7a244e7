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

// klusterletPass is one walk of a Klusterlet through the phases: what they found out, for
// those that come later.
type klusterletPass struct {
	*install.ReconcilePass[*operatorv1.Klusterlet]
	options manifests.AgentOptions
	// labels are put on everything that is made for this Klusterlet alone.
	labels map[string]string
	// member is the cluster that the agents work on; nil until it is known that it
	// can be reached. With hosted agents, memberCredential leads there.
	member           *install.Target
	memberCredential probe.Credential

	registrationGates, workGates features.GateSet
	// bootstrap and hub are the agents' credentials.
	bootstrap, hub probe.Credential
	handshake      status.Handshake
	// notes are for the message of the condition Applied.
	notes []string
}

// newKlusterletPass begins a walk.
func (c *operatorClusters) newKlusterletPass(base *install.ReconcilePass[*operatorv1.Klusterlet]) *klusterletPass {
	p := &klusterletPass{ReconcilePass: base}
	if c.Settings.SyncLabels {
		p.labels = base.Object.Labels
	}
	return p
}

// Apply applies objects on a target and records them, also those before a failure.
func (p *klusterletPass) Apply(ctx context.Context, to *install.Target, objects ...render.Object) error {
	labelled, err := render.LabelMarkedObjects(objects, p.labels, manifests.KlusterletLabels(p.Object))
	if err != nil {
		return err
	}
	return p.ReconcilePass.Apply(ctx, to, labelled...)
}

// reportPermissions tells what is off because the role of the operator lacks rules.
func (c *operatorClusters) reportPermissions(_ context.Context, p *klusterletPass) error {
	p.setCondition(c.Permissions.FeaturesLimitedCondition())
	return nil
}

// setCondition sets a condition of the Klusterlet.
func (p *klusterletPass) setCondition(condition metav1.Condition) {
	conditions.SetCondition(&p.Object.Status.Conditions, p.Object.Generation, condition)
}

// setApplyFailed says in the condition Applied that not everything is as wanted.
func (p *klusterletPass) setApplyFailed(reason, message string) {
	p.setCondition(metav1.Condition{
		Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

// reportInstallOutcome writes into the status how an installation ended. What was found on the
// way stands there already.
func reportInstallOutcome(p *klusterletPass, o install.PassOutcome) {
	if o.Result != install.Done {
		p.setApplyFailed(o.Reason, o.Message)
	}
	if o.GenerationObserved() {
		p.Object.Status.ObservedGeneration = p.Object.Generation
	}
}

// reportRemoval says what a removal waits for, or why it failed.
func reportRemoval(p *klusterletPass, o install.PassOutcome) {
	switch {
	case o.Message == "": // it only takes a moment
	case o.Result == install.Waiting:
		p.setApplyFailed(o.Reason, o.Message)
	default:
		p.setApplyFailed(o.Reason, fmt.Sprintf("removing the %s failed: %s", o.Phase, o.Message))
	}
}

// statusInventory is what the status says of everything that is installed.
func statusInventory(klusterlet *operatorv1.Klusterlet) install.Inventory {
	return install.Inventory{Related: klusterlet.Status.RelatedResources, Generations: klusterlet.Status.Generations}
}

// resolveFeatureGates returns the set of a component's feature gates and the names of those
// that it does not have.
func resolveFeatureGates(component features.Component, list []operatorv1.FeatureGate) (features.GateSet, []string) {
	changed := map[string]bool{}
	for _, gate := range list {
		changed[gate.Feature] = gate.Mode == operatorv1.FeatureGateModeEnable
	}
	set, unknown := features.ResolveGates(component, changed)
	return set, slices.Compact(unknown)
}
