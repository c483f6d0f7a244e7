// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// Replicas of the agents: as many as survive the loss of a node where there is
// more than one node to run on.
const (
	singleReplica     = 1
	availableReplicas = 3
)

// deployAgents makes the Deployments of the agents, and removes those of the mode
// that the Klusterlet had before.
func (i *agentInstallation) deployAgents(ctx context.Context, p *klusterletPass) error {
	replicas, err := i.resolveAgentReplicas(ctx)
	if err != nil {
		return err
	}
	p.options.Image = i.Settings.Image
	p.options.Env = i.Settings.Env
	p.options.Replicas = replicas
	p.options.WorkReplicas = workReplicas(p.hub, replicas)
	p.options.RegistrationGates = p.registrationGates
	p.options.WorkGates = p.workGates
	if err := p.Apply(ctx, i.management, manifests.AgentDeployments(p.Object, p.options)...); err != nil {
		return err
	}
	_, err = i.management.Applier.Prune(ctx, render.PruneScope{
		Kinds:     []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment")},
		Labels:    manifests.KlusterletLabels(p.Object),
		Namespace: manifests.AgentNamespace(p.Object),
	}, p.Records)
	return err
}

// workReplicas returns the replicas of the work agent: none as long as there is
// no credential that it could work with.
func workReplicas(hub probe.Credential, replicas int32) int32 {
	switch hub.Problem.Verdict {
	case probe.SecretMissing, probe.KubeconfigMissing:
		return 0
	default:
		return replicas
	}
}

// resolveAgentReplicas returns the replicas of the agents. Only two nodes are asked for, as
// it does not matter how many more there are.
func (i *agentInstallation) resolveAgentReplicas(ctx context.Context) (int32, error) {
	if i.Settings.Replicas > 0 {
		return i.Settings.Replicas, nil
	}
	selector, err := labels.Parse(i.Settings.ControlPlaneSelector)
	if err != nil {
		return 0, fmt.Errorf("parsing the selector of control-plane nodes: %w", err)
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := i.Live.List(ctx, nodes, client.MatchingLabelsSelector{Selector: selector}, client.Limit(2)); err != nil {
		return 0, fmt.Errorf("listing the control-plane nodes: %w", err)
	}
	if len(nodes.Items) > 1 {
		return availableReplicas, nil
	}
	return singleReplica, nil
}
