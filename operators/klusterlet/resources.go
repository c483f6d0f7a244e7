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

// agentInstallation has the phases that install agents.
type agentInstallation struct {
	*operatorClusters
	observer *agentObserver
}

// applyAgentAccess makes the ServiceAccounts of the agents and gives them their roles.
func (i *agentInstallation) applyAgentAccess(ctx context.Context, p *klusterletPass) error {
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
		rules = rules.WithClusterProperties()
	}
	return p.Apply(ctx, p.member, manifests.MemberAccess(p.Object, rules, p.options.PullSecret)...)
}

// applyPodMonitors lets Prometheus find the metrics, if the Klusterlet asks for that.
func (i *agentInstallation) applyPodMonitors(ctx context.Context, p *klusterletPass) error {
	if again := i.podMonitorRequest(p).ReconcileMonitors(ctx, i.management); again > 0 {
		p.DueIn(again)
	}
	return nil
}

func (c *operatorClusters) podMonitorRequest(p *klusterletPass) monitoring.PodMonitorRequest {
	return monitoring.PodMonitorRequest{
		Object: p.Object, Conditions: &p.Object.Status.Conditions,
		Monitors: manifests.PodMonitors(p.Object, c.Settings.Namespace), Apply: p.ApplyNamed,
		Others: func(ctx context.Context) ([]render.Object, error) { return podMonitorsOfOthers(ctx, c, p.Object) },
	}
}

// podMonitorsOfOthers returns those that other Klusterlets ask for.
func podMonitorsOfOthers(ctx context.Context, c *operatorClusters, klusterlet *operatorv1.Klusterlet) ([]render.Object, error) {
	staying, err := listOtherKlusterlets(ctx, c.Live, klusterlet)
	if err != nil {
		return nil, err
	}
	var monitors []render.Object
	for i := range staying {
		if monitoring.AsksForMonitors(&staying[i], staying[i].Status.Conditions) {
			monitors = append(monitors, manifests.PodMonitors(&staying[i], c.Settings.Namespace)...)
		}
	}
	return monitors, nil
}

// applyNetworkPolicies makes the network policies, or removes them where the gate is off.
func (i *agentInstallation) applyNetworkPolicies(ctx context.Context, p *klusterletPass) error {
	if !i.Permissions.Allows(permissions.ManagingNetworkPolicies()) {
		return nil // as condition FeaturesLimited says
	}
	if p.registrationGates.Enabled(features.NetworkPolicies) {
		return p.Apply(ctx, i.management, manifests.AgentNetworkPolicies(p.Object, p.options.HubPorts)...)
	}
	_, err := i.management.Applier.Prune(ctx, render.PruneScope{
		Kinds:  []schema.GroupVersionKind{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")},
		Labels: manifests.KlusterletLabels(p.Object),
	}, nil)
	return err
}

// installDefinitions installs the kinds that the agents need on the member.
func (i *agentInstallation) installDefinitions(ctx context.Context, p *klusterletPass) error {
	set, err := i.definitionSet()
	if err != nil {
		return err
	}
	if p.registrationGates.Enabled(features.ClusterProperty) {
		if set.Foreign, err = config.PropertyCRDs(); err != nil {
			return err
		}
	}
	done, err := set.InstallDefinitions(ctx, p.member, statusInventory(p.Object))
	p.Records = append(p.Records, done.Records...)
	p.notes = append(p.notes, done.Notes...)
	return err
}

// definitionSet has the kinds of a member. All Klusterlets share them.
func (c *operatorClusters) definitionSet() (definitions.DefinitionSet, error) {
	crds, err := config.SpokeCRDs()
	return definitions.DefinitionSet{CRDs: crds, Version: c.Settings.Version}, err
}
