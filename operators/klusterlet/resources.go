// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/operator/install/monitoring"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

// installation has the phases that install agents.
type installation struct {
	*clusters
	observer *observer
}

// access makes the ServiceAccounts of the agents and gives them their roles.
func (i *installation) access(ctx context.Context, p *pass) error {
	if err := p.Apply(ctx, i.management, manifests.HomeAccess(p.Object, i.Rules, p.options.PullSecret)...); err != nil {
		return err
	}
	if i.Permissions.Allows(permissions.GrantingMetrics()) {
		if err := p.Apply(ctx, i.management, manifests.MetricsReader(p.Object)); err != nil {
			return err
		}
	}
	rules := i.Rules
	if p.registrationGates.Enabled(features.ClusterProperty) {
		rules = rules.WithProperties()
	}
	return p.Apply(ctx, p.member, manifests.Access(p.Object, rules, p.options.PullSecret)...)
}

// monitoring lets Prometheus find the metrics, if the Klusterlet asks for that.
func (i *installation) monitoring(ctx context.Context, p *pass) error {
	if again := i.podMonitors(p).Run(ctx, i.management); again > 0 {
		p.DueIn(again)
	}
	return nil
}

func (c *clusters) podMonitors(p *pass) monitoring.Request {
	return monitoring.Request{
		Object: p.Object, Conditions: &p.Object.Status.Conditions,
		Monitors: manifests.PodMonitors(p.Object, c.Settings.Namespace), Apply: p.ApplyNamed,
		Others: func(ctx context.Context) ([]render.Object, error) { return podMonitorsOfOthers(ctx, c, p.Object) },
	}
}

// podMonitorsOfOthers returns those that other Klusterlets ask for.
func podMonitorsOfOthers(ctx context.Context, c *clusters, klusterlet *operatorv1.Klusterlet) ([]render.Object, error) {
	staying, err := others(ctx, c.Live, klusterlet)
	if err != nil {
		return nil, err
	}
	var monitors []render.Object
	for i := range staying {
		if monitoring.Asks(&staying[i], staying[i].Status.Conditions) {
			monitors = append(monitors, manifests.PodMonitors(&staying[i], c.Settings.Namespace)...)
		}
	}
	return monitors, nil
}

// network makes the network policies, or removes them where the gate is off.
func (i *installation) network(ctx context.Context, p *pass) error {
	if !i.Permissions.Allows(permissions.NetworkPolicies()) {
		return nil // as condition FeaturesLimited says
	}
	if p.registrationGates.Enabled(features.NetworkPolicies) {
		return p.Apply(ctx, i.management, manifests.NetworkPolicies(p.Object, p.options.HubPorts)...)
	}
	_, err := i.management.Applier.Prune(ctx, render.Scope{
		Kinds:  []schema.GroupVersionKind{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")},
		Labels: manifests.Marks(p.Object),
	}, nil)
	return err
}

// definitions installs the kinds that the agents need on the member.
func (i *installation) definitions(ctx context.Context, p *pass) error {
	set, err := i.definitionSet()
	if err != nil {
		return err
	}
	if p.registrationGates.Enabled(features.ClusterProperty) {
		if set.Foreign, err = config.PropertyCRDs(); err != nil {
			return err
		}
	}
	done, err := set.Install(ctx, p.member, inventory(p.Object))
	p.Records = append(p.Records, done.Records...)
	p.notes = append(p.notes, done.Notes...)
	return err
}

// definitionSet has the kinds of a member. All Klusterlets share them.
func (c *clusters) definitionSet() (definitions.Set, error) {
	crds, err := config.SpokeCRDs()
	return definitions.Set{CRDs: crds, Version: c.Settings.Version}, err
}
