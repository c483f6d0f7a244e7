// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/status"
)

// defaultClassAnnotation marks the StorageClass that is used where none is named.
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// applyNetworkPolicies makes NetworkPolicies and PodDisruptionBudgets, and removes those that
// are wanted no longer.
func (i *controlPlaneInstallation) applyNetworkPolicies(ctx context.Context, p *controlPlanePass) error {
	wanted := manifests.DisruptionBudgets(p.plane)
	if manifests.NetworkPoliciesEnabled(p.plane) {
		wanted = append(wanted, manifests.ComponentNetworkPolicies(p.plane)...)
	}
	if err := p.Apply(ctx, i.target, wanted...); err != nil {
		return err
	}
	_, err := i.target.Applier.Prune(ctx, render.PruneScope{
		Kinds: []schema.GroupVersionKind{
			networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		},
		Labels: p.plane.Labels(), Namespace: p.plane.Namespace,
	}, p.Records)
	return err
}

// deployEtcd makes the members of etcd and waits until enough of them work. It does
// nothing for an external one.
func (i *controlPlaneInstallation) deployEtcd(ctx context.Context, p *controlPlanePass) error {
	if !p.plane.HasManagedEtcd() {
		return nil
	}
	if p.facts.Etcd == nil {
		if err := i.checkStorageClass(ctx, p); err != nil {
			return err
		}
		if err := i.ensureOwned(ctx, p, &appsv1.StatefulSet{}, p.plane.ResourceName(manifests.Etcd)); err != nil {
			return err
		}
	}
	if err := p.Apply(ctx, i.target, manifests.EtcdService(p.plane), manifests.EtcdStatefulSet(p.plane)); err != nil {
		return err
	}
	if err := i.refreshWorkloadFacts(ctx, p); err != nil {
		return err
	}
	if w := p.facts.Etcd; w == nil || w.Ready < w.Wanted/2+1 {
		return workloadWaitError("etcd", w)
	}
	return nil
}

// checkStorageClass makes sure that the members will get volumes: a claim without a class
// waits for ever where there is no default one.
func (i *controlPlaneInstallation) checkStorageClass(ctx context.Context, p *controlPlanePass) error {
	missing := func(text string) error {
		return install.UnreachableError{Reason: fleetv1alpha1.ControlPlaneReasonStorageUnavailable, Message: text, After: brokenRetry}
	}
	if name := p.plane.Spec.Etcd.Managed.Storage.ClassName; name != nil {
		err := i.Live.Get(ctx, client.ObjectKey{Name: *name}, &storagev1.StorageClass{})
		if apierrors.IsNotFound(err) {
			return missing(fmt.Sprintf("there is no StorageClass %q, which spec.etcd.managed.storage.className names: "+
				"create it, or delete the ControlPlane and create it with another one", *name))
		}
		return wrapError(err, "reading the StorageClass %q", *name)
	}
	classes := &storagev1.StorageClassList{}
	if err := i.Live.List(ctx, classes); err != nil {
		return fmt.Errorf("listing the StorageClasses: %w", err)
	}
	for _, class := range classes.Items {
		if class.Annotations[defaultClassAnnotation] == "true" {
			return nil
		}
	}
	return missing(fmt.Sprintf("the cluster has no default StorageClass: mark one with annotation %s=true, or delete the ControlPlane "+
		"and create it with spec.etcd.managed.storage.className", defaultClassAnnotation))
}

func wrapError(err error, text string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(text+": %w", append(args, err)...)
}

// deployAPIServer makes the API servers and waits until one serves; during an upgrade,
// until all are of the new version, as the controller manager must not be newer
// than any that serves, be it for the last time.
func (i *controlPlaneInstallation) deployAPIServer(ctx context.Context, p *controlPlanePass) error {
	if p.facts.APIServer == nil {
		if err := i.ensureOwned(ctx, p, &appsv1.Deployment{}, p.plane.ResourceName(manifests.APIServer)); err != nil {
			return err
		}
	}
	if err := p.Apply(ctx, i.target, manifests.APIServerConfig(p.plane), manifests.APIServerDeployment(p.plane)); err != nil {
		return err
	}
	if err := i.refreshWorkloadFacts(ctx, p); err != nil {
		return err
	}
	w := p.facts.APIServer
	if w == nil || w.Ready == 0 || isUpgrading(p.Object) && (!w.AllPodsCurrent() || w.Former > 0) {
		return workloadWaitError("the API server", w)
	}
	return nil
}

// deployControllerManager makes the controller managers. Nothing waits for them.
func (i *controlPlaneInstallation) deployControllerManager(ctx context.Context, p *controlPlanePass) error {
	if p.facts.ControllerManager == nil {
		if err := i.ensureOwned(ctx, p, &appsv1.Deployment{}, p.plane.ResourceName(manifests.ControllerManager)); err != nil {
			return err
		}
	}
	config, err := manifests.ControllerManagerConfig(p.plane)
	if err != nil {
		return err
	}
	if err := p.Apply(ctx, i.target, config, manifests.ControllerManagerDeployment(p.plane)); err != nil {
		return err
	}
	return i.refreshWorkloadFacts(ctx, p)
}

// checkRollout waits until all pods are as wanted and the API server has an address.
func (i *controlPlaneInstallation) checkRollout(_ context.Context, p *controlPlanePass) error {
	for _, part := range []struct {
		name string
		w    *status.WorkloadStatus
	}{{"etcd", p.facts.Etcd}, {"the API server", p.facts.APIServer}, {"the controller manager", p.facts.ControllerManager}} {
		if part.w != nil && !part.w.AllPodsCurrent() {
			return workloadWaitError(part.name, part.w)
		}
	}
	if p.plane.Endpoint.Host == "" {
		return install.WaitError{
			Reason: fleetv1alpha1.ControlPlaneReasonNoAddress, After: waitRetry,
			Message: fmt.Sprintf("Service %q of type %s has no address yet: check the load balancers of the cluster, or set spec.service.externalNames",
				p.plane.ResourceName(manifests.APIServer), p.plane.Spec.Service.Type),
		}
	}
	return nil
}

// workloadWaitError says what is waited for, and what keeps it from coming.
func workloadWaitError(what string, w *status.WorkloadStatus) error {
	waiting := install.WaitError{Reason: fleetv1alpha1.ControlPlaneReasonInstalling, Message: "waiting for " + what, After: waitRetry}
	if w != nil {
		waiting.Message += ": " + w.String()
		if w.Reason != "" {
			waiting.Reason = w.Reason
		}
	}
	return waiting
}

// otherKinds are those without data that run no pods.
func otherKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	}
}
