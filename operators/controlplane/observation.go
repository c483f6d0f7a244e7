// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/status"
)

// observe finds out how what is installed is, whatever becomes of the walk.
func (i *installation) observe(ctx context.Context, p *pass) error {
	list := &corev1.PodList{}
	if err := i.Live.List(ctx, list, client.InNamespace(p.plane.Namespace), client.MatchingLabels(p.plane.Labels())); err != nil {
		return fmt.Errorf("listing the pods in namespace %q: %w", p.plane.Namespace, err)
	}
	for _, pod := range list.Items {
		component := pod.Labels[fleetv1alpha1.LabelControlPlaneComponent]
		p.pods[component] = append(p.pods[component], pod)
	}
	return i.read(ctx, p)
}

// read brings the facts about the workloads up to date.
func (i *installation) read(ctx context.Context, p *pass) error {
	if p.plane.Managed() {
		set := &appsv1.StatefulSet{}
		found, err := i.get(ctx, p, manifests.Etcd, set)
		if err != nil {
			return err
		}
		if found {
			workload := status.OfStatefulSet(set, p.pods[manifests.Etcd])
			p.facts.Etcd = &workload
		}
	}
	for component, into := range map[string]**status.Workload{
		manifests.APIServer: &p.facts.APIServer, manifests.ControllerManager: &p.facts.ControllerManager,
	} {
		deployment := &appsv1.Deployment{}
		found, err := i.get(ctx, p, component, deployment)
		if err != nil {
			return err
		}
		if found {
			workload := status.OfDeployment(deployment, p.pods[component])
			*into = &workload
		}
	}
	return nil
}

// get reads the workload of a component, if there is one.
func (i *installation) get(ctx context.Context, p *pass, component string, into client.Object) (found bool, err error) {
	key := client.ObjectKey{Namespace: p.plane.Namespace, Name: p.plane.Of(component)}
	err = i.Live.Get(ctx, key, into)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the pods' owner %q: %w", key, err)
	}
	return err == nil, nil
}
