// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
)

// gatherClaimFacts reads what decides whether a policy is applied to an object; nil is none.
func (d DetectionDeps) gatherClaimFacts(ctx context.Context, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy) (decision.ObjectFacts, error) {
	facts := decision.ObjectFacts{Fleet: d.Fleet.Snapshot(), Policy: policy}
	if policy == nil {
		return facts, nil
	}
	var err error
	if facts.Unserved, err = d.isUnserved(ctx, template); err != nil {
		return facts, err
	}
	facts.AbsentOverride, err = d.absentOverride(ctx, policy)
	return facts, err
}

// isUnserved reports whether the hub does not send an object.
func (d DetectionDeps) isUnserved(ctx context.Context, template *metav1.PartialObjectMetadata) (bool, error) {
	kind := template.GroupVersionKind().GroupKind()
	if !d.Hub.OwnsKind(kind) {
		return false, nil
	}
	labels := template.Labels
	if template.Namespace != "" {
		namespace := &corev1.Namespace{}
		if err := d.Client.Get(ctx, types.NamespacedName{Name: template.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading namespace %q: %w", template.Namespace, err)
		}
		labels = namespace.Labels
	}
	return !d.Hub.ServesKind(kind, labels), nil
}

// absentOverride returns the first override policy that a policy depends on and that does not
// exist, "" if there is none.
func (d DetectionDeps) absentOverride(ctx context.Context, policy policyv1alpha1.Policy) (string, error) {
	spec := policy.PropagationSpec()
	if len(claims.CheckAwaitedNames(spec, nil)) > 0 {
		return "", nil // it is not applied anyway
	}
	for _, name := range spec.DependentOverrides {
		err := d.Client.Get(ctx, types.NamespacedName{Namespace: policy.GetNamespace(), Name: name}, newOverride(policy.GetNamespace(), name))
		if apierrors.IsNotFound(err) {
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("reading override policy %q: %w", name, err)
		}
	}
	return "", nil
}

// newOverride returns an override policy beside a policy, of which only the name is known.
func newOverride(namespace, name string) client.Object {
	var override client.Object = &policyv1alpha1.ClusterOverridePolicy{}
	if namespace != "" {
		override = &policyv1alpha1.OverridePolicy{}
	}
	override.SetNamespace(namespace)
	override.SetName(name)
	return override
}

// reportReason says on an object why its policy is not applied. Client-go counts events of one
// reason about the same objects as one, with the note of the first: one about something that is
// missing is related to that, as the next may be about something else.
func (d DetectionDeps) reportReason(object client.Object, reason decision.Reason) {
	var related runtime.Object
	switch reason.Code {
	case decision.Unclaimed:
		return
	case decision.OverridesInvalid, decision.PolicyTooLarge:
		related = reason.Policy
	case decision.OverrideAbsent:
		related = newOverride(reason.Policy.GetNamespace(), reason.Detail)
	case decision.ClassAbsent:
		related = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: reason.Detail}}
	default:
	}
	d.Events.Eventf(object, related, corev1.EventTypeWarning, claims.EventFailed, action, "%s", reason.EventNote())
}

// onNamespace brings back the objects of a namespace that is labelled, or is not
// any more.
func (c *DetectionController) onNamespace() templateHandler {
	return handler.TypedFuncs[client.Object, templates.Key]{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q templateQueue) {
			label := fleetv1alpha1.LabelTemplates
			name := e.ObjectNew.GetName()
			if e.ObjectOld.GetLabels()[label] != e.ObjectNew.GetLabels()[label] {
				c.enqueueKeys(q, c.Templates.ObjectsInNamespace(name))
			}
		},
	}
}
