// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// holdPhases has the phases that keep a control plane from running.
type holdPhases struct{ parts *controlPlaneInstallation }

// applyHoldAnnotation ends the walk here while somebody replaces the data, and finds out whether
// the Service may lead to the API servers.
func (h *holdPhases) applyHoldAnnotation(ctx context.Context, p *controlPlanePass) error {
	wanted, held := p.Object.Annotations[fleetv1alpha1.AnnotationHold]
	p.plane.Hold = wanted
	p.plane.Hidden = held || slices.ContainsFunc(p.pods[manifests.APIServer], isClosedAPIServer)
	switch {
	case !held:
		meta.RemoveStatusCondition(&p.Object.Status.Conditions, fleetv1alpha1.ControlPlaneConditionHeld)
		return nil
	case wanted == fleetv1alpha1.HoldStopped:
		return h.stopAllPods(ctx, p)
	case wanted == fleetv1alpha1.HoldClosed:
		const reason = fleetv1alpha1.ControlPlaneReasonClosed
		if now := meta.FindStatusCondition(p.Object.Status.Conditions, fleetv1alpha1.ControlPlaneConditionHeld); now == nil || now.Reason != reason {
			p.setHeldCondition(false, reason, "the API server is being started")
		}
		return nil
	default:
		return install.MistakeError{
			Reason: fleetv1alpha1.ControlPlaneReasonUnknownHold,
			Message: fmt.Sprintf("annotation %s is %q: set it to %s or %s, or remove it",
				fleetv1alpha1.AnnotationHold, wanted, fleetv1alpha1.HoldStopped, fleetv1alpha1.HoldClosed),
		}
	}
}

// isClosedAPIServer reports whether a pod is an API server that no client must be led to.
// None is led to one that terminates.
func isClosedAPIServer(pod corev1.Pod) bool {
	return pod.Annotations[manifests.ClosedAnnotation] != "" && pod.DeletionTimestamp.IsZero()
}

// stopAllPods ends all pods, etcd last, and waits for as long as it is told to. It
// makes nothing that the data or the keys decide on.
func (h *holdPhases) stopAllPods(ctx context.Context, p *controlPlanePass) error {
	const reason = fleetv1alpha1.ControlPlaneReasonStopped
	if err := h.parts.applyNetworkPolicies(ctx, p); err != nil {
		return err
	}
	for _, workload := range []struct {
		component string
		object    client.Object
	}{
		{manifests.ControllerManager, &appsv1.Deployment{}},
		{manifests.APIServer, &appsv1.Deployment{}},
		{manifests.Etcd, &appsv1.StatefulSet{}},
	} {
		if err := h.scaleDown(ctx, p, workload.component, workload.object); err != nil {
			return err
		}
		if pods := p.pods[workload.component]; len(pods) > 0 {
			p.setHeldCondition(false, reason, fmt.Sprintf("waiting for the %d pods of %s to terminate", len(pods), workload.component))
			return install.WaitError{Reason: reason, Message: p.describeHold(), After: waitRetry}
		}
	}
	h.parts.hubs.forgetClient(client.ObjectKeyFromObject(p.Object))
	p.setHeldCondition(true, reason, "no pod of it runs")
	return install.WaitError{Reason: reason, Message: p.describeHold(), After: resync}
}

// scaleDown ends the pods of a component. What applies it later gives it its
// replicas back.
func (h *holdPhases) scaleDown(ctx context.Context, p *controlPlanePass, component string, workload client.Object) error {
	found, err := h.parts.getComponentWorkload(ctx, p, component, workload)
	if err != nil || !found || !p.plane.OwnsObject(workload) {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	if err := h.parts.Client.Patch(ctx, workload, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("scaling %s down: %w", p.plane.ResourceName(component), err)
	}
	return h.parts.refreshWorkloadFacts(ctx, p)
}

// holdClosedAPIServer keeps the API servers to whoever holds the control plane. When it is held
// no longer, it waits for those that call webhooks again, so that the next walk
// may lead clients to them.
func (h *holdPhases) holdClosedAPIServer(ctx context.Context, p *controlPlanePass) error {
	if !p.plane.Hidden {
		return nil
	}
	if p.plane.Hold == "" {
		return workloadWaitError("API servers that call webhooks", p.facts.APIServer)
	}
	const reason = fleetv1alpha1.ControlPlaneReasonClosed
	if err := h.scaleDown(ctx, p, manifests.ControllerManager, &appsv1.Deployment{}); err != nil {
		return err
	}
	if w := p.facts.APIServer; !w.AllPodsCurrent() {
		p.setHeldCondition(false, reason, "waiting for the API server: "+w.String())
		return install.WaitError{Reason: reason, Message: p.describeHold(), After: waitRetry}
	}
	p.setHeldCondition(true, reason, "the API server runs, but no client is directed to it")
	return install.WaitError{Reason: reason, Message: p.describeHold(), After: resync}
}

// setHeldCondition sets the condition that tells whoever holds the control plane how far it is.
func (p *controlPlanePass) setHeldCondition(done bool, reason, message string) {
	status := metav1.ConditionFalse
	if done {
		status = metav1.ConditionTrue
	}
	p.setCondition(metav1.Condition{Type: fleetv1alpha1.ControlPlaneConditionHeld, Status: status, Reason: reason, Message: message})
}

// describeHold says who keeps the walk from going on.
func (p *controlPlanePass) describeHold() string {
	condition := meta.FindStatusCondition(p.Object.Status.Conditions, fleetv1alpha1.ControlPlaneConditionHeld)
	return fmt.Sprintf("held by annotation %s=%s: %s; whoever set it removes it", fleetv1alpha1.AnnotationHold, p.plane.Hold,
		condition.Message)
}
