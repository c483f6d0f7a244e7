// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/pods"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
	"github.com/capstan-io/capstan/operators/klusterlet/status"
)

// agentObserver has the phase that finds out what became of the agents.
type agentObserver struct{ *operatorClusters }

// observeAgents writes into the status what became of what was applied: whether the
// agents run, and whether the hub lets them in.
func (o *agentObserver) observeAgents(ctx context.Context, p *klusterletPass) error {
	// Not in a pass that failed, so that the status keeps what the last complete one did.
	next := statusInventory(p.Object).AfterPass(p.Records, true)
	p.Object.Status.RelatedResources = next.Related
	p.Object.Status.Generations = next.Generations
	p.setCondition(metav1.Condition{
		Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionTrue,
		Reason:  operatorv1.KlusterletReasonApplied,
		Message: strings.Join(append([]string{"the agents are installed"}, p.notes...), "\n"),
	})
	if !manifests.IsHostedMode(p.Object) {
		meta.RemoveStatusCondition(&p.Object.Status.Conditions, operatorv1.KlusterletConditionReadyToApply)
	}
	return o.updateAgentConditions(ctx, p)
}

// updateAgentConditions writes into the status how the agents are.
func (o *agentObserver) updateAgentConditions(ctx context.Context, p *klusterletPass) error {
	registration, err := o.getAgentDeployment(ctx, p.Object, manifests.RegistrationDeployment(p.Object))
	if err != nil {
		return err
	}
	work, err := o.getAgentDeployment(ctx, p.Object, manifests.WorkDeployment(p.Object))
	if err != nil {
		return err
	}
	p.setCondition(status.AvailableCondition(registration, work))
	p.setCondition(status.DegradedCondition(operatorv1.KlusterletConditionRegistrationDesiredDegraded, registration))
	p.setCondition(status.DegradedCondition(operatorv1.KlusterletConditionWorkDesiredDegraded, work))

	h := &p.handshake
	h.Klusterlet, h.Namespace, h.ClusterName = p.Object.Name, manifests.AgentNamespace(p.Object), p.options.ClusterName
	last := o.Results.LastResult(p.Object.Name)
	h.Bootstrap = probe.CurrentOutcome(p.bootstrap, last.Bootstrap)
	h.Hub = probe.CurrentOutcome(p.hub, last.Hub)
	p.setCondition(status.HubConnection(h.Bootstrap, h.Hub))
	if h.Report, err = o.readJoinReport(ctx, h.Namespace); err != nil {
		return err
	}
	if h.PodProblem, err = o.podProblem(ctx, p.Object, registration); err != nil {
		return err
	}
	p.setCondition(status.JoinedCondition(*h))
	return nil
}

// getAgentDeployment returns a Deployment of the agents; nil means that there is none.
func (o *agentObserver) getAgentDeployment(ctx context.Context, klusterlet *operatorv1.Klusterlet, name string) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := o.Client.Get(ctx, types.NamespacedName{Namespace: manifests.AgentNamespace(klusterlet), Name: name}, deployment)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %q: %w", name, err)
	}
	return deployment, nil
}

// readJoinReport returns what the agent says of the handshake. What could not be a
// reason of a condition is dropped, for it would make the status unwritable.
func (o *agentObserver) readJoinReport(ctx context.Context, namespace string) (status.JoinReport, error) {
	reported := &corev1.ConfigMap{}
	err := o.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: operatorv1.JoinStatusConfigMap}, reported)
	if client.IgnoreNotFound(err) != nil {
		return status.JoinReport{}, fmt.Errorf("reading ConfigMap %q: %w", operatorv1.JoinStatusConfigMap, err)
	}
	reason := reported.Data[operatorv1.JoinStatusReasonKey]
	if ok, err := regexp.MatchString(reasonPattern, reason); err != nil || !ok {
		return status.JoinReport{}, err
	}
	return status.JoinReport{Reason: reason, Message: reported.Data[operatorv1.JoinStatusMessageKey]}, nil
}

// reasonPattern is what the API wants the reason of a condition to look like.
const reasonPattern = `^[A-Za-z]([A-Za-z0-9_]{0,200}[A-Za-z0-9_])?$`

// podProblem says why no pod of the agent that joins runs.
func (o *agentObserver) podProblem(ctx context.Context, klusterlet *operatorv1.Klusterlet, deployment *appsv1.Deployment) (string, error) {
	if !o.Permissions.Allows(permissions.ReadingAgentPods()) {
		return "", nil // nobody knows
	}
	list := &corev1.PodList{}
	app := manifests.RegistrationApp
	if manifests.IsSingletonMode(klusterlet) {
		app = manifests.SingletonApp
	}
	err := o.Client.List(ctx, list, client.InNamespace(manifests.AgentNamespace(klusterlet)),
		client.MatchingLabels{operatorv1.LabelCreatedByKlusterlet: klusterlet.Name, render.AppLabel: app})
	if err != nil {
		return "", fmt.Errorf("listing the pods of the agent: %w", err)
	}
	return pods.WhyNotRunning(deployment, list.Items), nil
}
