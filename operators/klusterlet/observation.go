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
	"github.com/capstan-io/capstan/internal/pods"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// observe writes into the status what became of what was applied: whether the
// agents run, and whether the hub lets them in.
func (c *Controller) observe(ctx context.Context, p *pass) error {
	p.relate()
	p.set(metav1.Condition{
		Type: operatorv1.KlusterletConditionApplied, Status: metav1.ConditionTrue,
		Reason:  operatorv1.KlusterletReasonApplied,
		Message: strings.Join(append([]string{"everything is installed"}, p.notes...), "\n"),
	})
	if !manifests.Hosted(p.klusterlet) {
		meta.RemoveStatusCondition(&p.klusterlet.Status.Conditions, operatorv1.KlusterletConditionReadyToApply)
	}
	return c.look(ctx, p)
}

// look writes into the status how the agents are.
func (c *Controller) look(ctx context.Context, p *pass) error {
	registration, err := c.workload(ctx, p.klusterlet, manifests.RegistrationDeployment(p.klusterlet))
	if err != nil {
		return err
	}
	work, err := c.workload(ctx, p.klusterlet, manifests.WorkDeployment(p.klusterlet))
	if err != nil {
		return err
	}
	p.set(available(registration, work))
	p.set(degraded(operatorv1.KlusterletConditionRegistrationDesiredDegraded, registration))
	p.set(degraded(operatorv1.KlusterletConditionWorkDesiredDegraded, work))

	h := &p.handshake
	h.klusterlet, h.namespace, h.clusterName = p.klusterlet.Name, manifests.AgentNamespace(p.klusterlet), p.options.ClusterName
	last := c.Results.Get(p.klusterlet.Name)
	h.bootstrap = probe.Current(p.bootstrap, last.Bootstrap)
	h.hub = probe.Current(p.hub, last.Hub)
	p.set(hubConnection(h.bootstrap, h.hub))
	if h.report, err = c.report(ctx, h.namespace); err != nil {
		return err
	}
	if h.podProblem, err = c.podProblem(ctx, p.klusterlet, registration); err != nil {
		return err
	}
	p.set(joined(*h))
	return nil
}

// workload returns a Deployment of the agents; nil means that there is none.
func (c *Controller) workload(ctx context.Context, klusterlet *operatorv1.Klusterlet, name string) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: manifests.AgentNamespace(klusterlet), Name: name}, deployment)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Deployment %q: %w", name, err)
	}
	return deployment, nil
}

// report returns what the agent says of the handshake. What could not be a
// reason of a condition is dropped, for it would make the status unwritable.
func (c *Controller) report(ctx context.Context, namespace string) (joinReport, error) {
	status := &corev1.ConfigMap{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: operatorv1.JoinStatusConfigMap}, status)
	if client.IgnoreNotFound(err) != nil {
		return joinReport{}, fmt.Errorf("reading ConfigMap %q: %w", operatorv1.JoinStatusConfigMap, err)
	}
	reason := status.Data[operatorv1.JoinStatusReasonKey]
	if ok, err := regexp.MatchString(reasonPattern, reason); err != nil || !ok {
		return joinReport{}, err
	}
	return joinReport{reason: reason, message: status.Data[operatorv1.JoinStatusMessageKey]}, nil
}

// reasonPattern is what the API wants the reason of a condition to look like.
const reasonPattern = `^[A-Za-z]([A-Za-z0-9_]{0,200}[A-Za-z0-9_])?$`

// podProblem says why no pod of the agent that joins runs.
func (c *Controller) podProblem(ctx context.Context, klusterlet *operatorv1.Klusterlet, deployment *appsv1.Deployment) (string, error) {
	list := &corev1.PodList{}
	app := manifests.RegistrationApp
	if manifests.Singleton(klusterlet) {
		app = manifests.SingletonApp
	}
	err := c.Client.List(ctx, list, client.InNamespace(manifests.AgentNamespace(klusterlet)),
		client.MatchingLabels{operatorv1.LabelCreatedByKlusterlet: klusterlet.Name, render.AppLabel: app})
	if err != nil {
		return "", fmt.Errorf("listing the pods of the agent: %w", err)
	}
	return pods.WhyNotRunning(deployment, list.Items), nil
}
