// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// isSentByHub reports whether the hub sends an object that a policy is to claim, and says
// so on the object if not.
func (c *DetectionController) isSentByHub(ctx context.Context, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy) (bool, error) {
	kind := template.GroupVersionKind().GroupKind()
	if policy == nil || !c.Hub.OwnsKind(kind) {
		return true, nil
	}
	labels := template.Labels
	if template.Namespace != "" {
		namespace := &corev1.Namespace{}
		if err := c.Client.Get(ctx, types.NamespacedName{Name: template.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading namespace %q: %w", template.Namespace, err)
		}
		labels = namespace.Labels
	}
	if c.Hub.ServesKind(kind, labels) {
		return true, nil
	}
	c.recordEvent(template, corev1.EventTypeWarning, claims.EventFailed,
		"policy %q selects it, but %s", policy.GetName(), scope.RefusalReason(kind.Kind, template.Namespace))
	return false, nil
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
