// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// pass is one walk of a Klusterlet through the phases: what they found out, for
// those that come later. The Klusterlet in it is changed in memory only.
type pass struct {
	klusterlet *operatorv1.Klusterlet
	// before is the Klusterlet as the API server has it.
	before  *operatorv1.Klusterlet
	options manifests.Options
	// member is the cluster that the agents work on; nil until it is known that it
	// can be reached. With hosted agents, memberCredential leads there.
	member           *site
	memberCredential probe.Credential

	registrationGates, workGates features.Set
	// bootstrap and hub are the agents' credentials.
	bootstrap, hub probe.Credential
	handshake      handshake
	// applied has a record of everything that was applied in this pass.
	applied []render.Record
	// notes are for the message of the condition Applied.
	notes []string
}

// phase is one step on the way to what the Klusterlet asks for.
type phase struct {
	name string
	// reason of the condition Applied where the phase fails.
	reason string
	run    func(context.Context, *pass) error
}

// set sets a condition of the Klusterlet.
func (p *pass) set(condition metav1.Condition) {
	conditions.Set(&p.klusterlet.Status.Conditions, p.klusterlet.Generation, condition)
}

// run walks through the phases and stops at the first that fails.
func (c *Controller) run(ctx context.Context, p *pass) error {
	for _, phase := range c.phases {
		if err := phase.run(ctx, p); err != nil {
			p.set(metav1.Condition{
				Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionFalse,
				Reason: phase.reason, Message: message(err),
			})
			if errors.Is(err, reconcile.TerminalError(nil)) {
				p.klusterlet.Status.ObservedGeneration = p.klusterlet.Generation
			}
			return err
		}
	}
	p.klusterlet.Status.ObservedGeneration = p.klusterlet.Generation
	return nil
}

// apply applies the objects on the site and remembers them for the status.
func (p *pass) apply(ctx context.Context, where *site, objects ...render.Object) error {
	records, err := where.applier.Apply(ctx, objects...)
	p.applied = append(p.applied, records...)
	return err
}

// relate writes what was applied into the status. It is left out of a pass
// that failed, so that the status keeps what the last complete one did.
func (p *pass) relate() {
	status := &p.klusterlet.Status
	status.RelatedResources = nil
	status.Generations = nil
	for _, r := range p.applied {
		status.RelatedResources = append(status.RelatedResources, operatorv1.RelatedResourceMeta{
			Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
		})
		if r.Resource == "deployments" {
			status.Generations = append(status.Generations, operatorv1.GenerationStatus{
				Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
				LastGeneration: r.Generation,
			})
		}
	}
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

// message is the text of an error that is meant for its user, without the
// mark that it is terminal.
func message(err error) string {
	if inner := errors.Unwrap(err); errors.Is(err, reconcile.TerminalError(nil)) && inner != nil {
		return inner.Error()
	}
	return err.Error()
}
