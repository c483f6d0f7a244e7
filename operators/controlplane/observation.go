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

// observeWorkloads finds out how what is installed is, whatever becomes of the walk.
func (i *controlPlaneInstallation) observeWorkloads(ctx context.Context, p *controlPlanePass) error {
	list := &corev1.PodList{}
	if err := i.Live.List(ctx, list, client.InNamespace(p.plane.Namespace), client.MatchingLabels(p.plane.Labels())); err != nil {
		return fmt.Errorf("listing the pods in namespace %q: %w", p.plane.Namespace, err)
	}
	for _, pod := range list.Items {
		component := pod.Labels[fleetv1alpha1.LabelControlPlaneComponent]
		p.pods[component] = append(p.pods[component], pod)
	}
	return i.refreshWorkloadFacts(ctx, p)
}

// refreshWorkloadFacts brings the facts about the workloads up to date.
func (i *controlPlaneInstallation) refreshWorkloadFacts(ctx context.Context, p *controlPlanePass) error {
	if p.plane.HasManagedEtcd() {
		set := &appsv1.StatefulSet{}
		found, err := i.getComponentWorkload(ctx, p, manifests.Etcd, set)
		if err != nil {
			return err
		}
		if found {
			workload := status.WorkloadFromStatefulSet(set, p.pods[manifests.Etcd])
			p.facts.Etcd = &workload
		}
	}
	for component, into := range map[string]**status.WorkloadStatus{
		manifests.APIServer: &p.facts.APIServer, manifests.ControllerManager: &p.facts.ControllerManager,
	} {
		deployment := &appsv1.Deployment{}
		found, err := i.getComponentWorkload(ctx, p, component, deployment)
		if err != nil {
			return err
		}
		if found {
			workload := status.WorkloadFromDeployment(deployment, p.pods[component])
			*into = &workload
		}
	}
	return nil
}

// getComponentWorkload reads the workload of a component, if there is one.
func (i *controlPlaneInstallation) getComponentWorkload(ctx context.Context, p *controlPlanePass, component string, into client.Object) (found bool, err error) {
	key := client.ObjectKey{Namespace: p.plane.Namespace, Name: p.plane.ResourceName(component)}
	err = i.Live.Get(ctx, key, into)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the pods' owner %q: %w", key, err)
	}
	return err == nil, nil
}
