// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/status"
)

// applyManagementNamespaces makes the namespace of hosted agents, for their
// administrator to put secrets into.
func (i *agentInstallation) applyManagementNamespaces(ctx context.Context, p *klusterletPass) error {
	return p.Apply(ctx, i.management, manifests.HomeNamespaces(p.Object)...)
}

// applyAgentNamespaces makes the namespaces of the agents and of the add-ons.
func (i *agentInstallation) applyAgentNamespaces(ctx context.Context, p *klusterletPass) error {
	return p.Apply(ctx, p.member, manifests.MemberNamespaces(p.Object)...)
}

// removeFormerNamespaces removes the namespaces that the agents had before spec.namespace
// changed, once the agents in the new one run and the hub lets them in.
func (i *agentInstallation) removeFormerNamespaces(ctx context.Context, p *klusterletPass) error {
	old, err := listFormerNamespaces(ctx, p.member, p.Object)
	if err != nil || len(old) == 0 {
		return err
	}
	registration, err := i.observer.getAgentDeployment(ctx, p.Object, manifests.RegistrationDeployment(p.Object))
	if err != nil {
		return err
	}
	work, err := i.observer.getAgentDeployment(ctx, p.Object, manifests.WorkDeployment(p.Object))
	if err != nil {
		return err
	}
	if !status.AllReplicasAvailable(registration) || !status.AllReplicasAvailable(work) || p.handshake.Hub.Verdict != probe.Functional {
		p.appendAppliedNote(fmt.Sprintf("namespace %q is removed once the agents in namespace %q are running", old[0].Name, manifests.MemberNamespace(p.Object)))
		return nil
	}
	var errs []error
	for n := range old {
		errs = append(errs, p.member.DeleteNamespace(ctx, &old[n]))
	}
	return errors.Join(errs...)
}

// appendAppliedNote adds a line to the message of the condition Applied.
func (p *klusterletPass) appendAppliedNote(text string) {
	for _, condition := range p.Object.Status.Conditions {
		if condition.Type == operatorv1.KlusterletConditionApplied {
			condition.Message += "\n" + text
			p.setCondition(condition)
		}
	}
}

// listFormerNamespaces returns the namespaces on the cluster that were made for the
// Klusterlet's agents and are not theirs any more, except those that are being
// removed. A cluster may be the managed and the management cluster at once.
func listFormerNamespaces(ctx context.Context, on *install.Target, klusterlet *operatorv1.Klusterlet) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := on.Client.List(ctx, list, client.MatchingLabels{operatorv1.LabelKlusterlet: klusterlet.Name}); err != nil {
		return nil, fmt.Errorf("listing the namespaces of the agents: %w", err)
	}
	var old []corev1.Namespace
	for _, namespace := range list.Items {
		current := namespace.Name == manifests.AgentNamespace(klusterlet) || namespace.Name == manifests.MemberNamespace(klusterlet)
		if !current && namespace.DeletionTimestamp.IsZero() {
			old = append(old, namespace)
		}
	}
	return old, nil
}
