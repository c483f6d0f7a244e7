// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// migrate removes the namespaces that the agents had before spec.namespace
// changed, once the agents in the new one run and the hub lets them in.
func (c *Controller) migrate(ctx context.Context, p *pass) error {
	old, err := p.member.oldNamespaces(ctx, p.klusterlet)
	if err != nil || len(old) == 0 {
		return err
	}
	registration, err := c.workload(ctx, p.klusterlet, manifests.RegistrationDeployment(p.klusterlet))
	if err != nil {
		return err
	}
	work, err := c.workload(ctx, p.klusterlet, manifests.WorkDeployment(p.klusterlet))
	if err != nil {
		return err
	}
	if !works(registration) || !works(work) || p.handshake.hub.Verdict != probe.Functional {
		p.note(fmt.Sprintf("namespace %q is removed once the agents in namespace %q work", old[0].Name, manifests.MemberNamespace(p.klusterlet)))
		return nil
	}
	var errs []error
	for i := range old {
		errs = append(errs, p.member.deleteNamespace(ctx, &old[i]))
	}
	return errors.Join(errs...)
}

// note adds a line to the message of the condition Applied.
func (p *pass) note(text string) {
	for _, condition := range p.klusterlet.Status.Conditions {
		if condition.Type == operatorv1.KlusterletConditionApplied {
			condition.Message += "\n" + text
			p.set(condition)
		}
	}
}

// oldNamespaces returns the namespaces on the site that were made for the
// Klusterlet's agents and are not theirs any more, except those that are being
// removed. A cluster may be the managed and the management cluster at once.
func (m *site) oldNamespaces(ctx context.Context, klusterlet *operatorv1.Klusterlet) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := m.client.List(ctx, list, client.MatchingLabels{operatorv1.LabelKlusterlet: klusterlet.Name}); err != nil {
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

func (m *site) deleteNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	err := m.client.Delete(ctx, namespace, client.Preconditions{UID: &namespace.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %q: %w", namespace.Name, err)
	}
	return nil
}
