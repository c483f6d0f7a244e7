// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/demand"
)

// bindingWriter keeps the bindings of objects.
type bindingWriter struct {
	DetectionDeps
}

// beginWrites returns a context for writing the binding of an object that a policy sends, and how long to
// wait before: the object is not even read then.
func (c bindingWriter) beginWrites(ctx context.Context, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy) (context.Context, time.Duration) {
	ctx = store.WithClusterWide(ctx, policy.GetNamespace() == "")
	return ctx, c.Store.Meter.WaitBeforeChange(ctx, template.GetNamespace())
}

// bindObject makes the binding of an object say what the object and the policy ask for.
func (c bindingWriter) bindObject(
	ctx context.Context, key templates.Key, object *unstructured.Unstructured, policy policyv1alpha1.Policy, have lookup.ObjectBindings,
) (ctrl.Result, error) {
	priority, found, err := c.schedulePriority(ctx, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	wanted, reason := decision.DecideDemand(object, decision.ObjectFacts{
		Policy: policy, Chain: c.Chain, Priority: priority, AbsentClass: !found, Components: c.Components, Groups: c.Groups,
	})
	if reason.Code != decision.Applied {
		return c.reportUnknownDemand(object, reason), nil
	}
	present := have.OfObject(object.GetUID())
	if present == nil {
		return ctrl.Result{}, c.createBinding(ctx, have.NewBinding(key), object, wanted, policy)
	}
	if !present.GetDeletionTimestamp().IsZero() {
		c.Touched(client.ObjectKeyFromObject(present)) // it need not await what clusters keep
		return ctrl.Result{}, nil                      // it comes again when the binding is gone
	}
	return ctrl.Result{}, c.updateBinding(ctx, present, wanted, policy, object)
}

// reportUnknownDemand says on an object why its binding stays as it is. A class that is missing, or
// another customization, brings the object back.
func (c bindingWriter) reportUnknownDemand(object *unstructured.Unstructured, reason decision.Reason) ctrl.Result {
	if reason.Problem == nil {
		c.reportReason(object, reason)
		return ctrl.Result{}
	}
	failed := reasonGetReplicasFailed
	if reason.Code == decision.ComponentsUnknown {
		failed = reasonGetComponentsFailed
	}
	c.recordEvent(object, corev1.EventTypeWarning, failed, "%s", interpret.ErrorSentences(reason.Problem))
	c.reportReason(object, reason)
	return ctrl.Result{RequeueAfter: interpret.RetryDelayOf(reason.Problem)}
}

// createBinding creates a binding with the clusters that are chosen for it, and says so
// in its status.
func (c bindingWriter) createBinding(
	ctx context.Context, b lookup.Binding, object *unstructured.Unstructured, wanted workv1alpha2.ResourceBindingSpec, policy policyv1alpha1.Policy,
) error {
	*b.BindingSpec() = wanted
	b.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(object, object.GroupVersionKind())})
	markBinding(b, policy, object)
	created, err := c.Store.ScheduleAndCreate(ctx, b)
	c.Touched(client.ObjectKeyFromObject(b)) // who saw it before its status was written left it alone
	if created {
		c.recordEvent(object, corev1.EventTypeNormal, reasonApplyPolicySucceeded, "policy %q was applied", policy.GetName())
	}
	return c.reportRefused(object, policy, err)
}

// reportRefused tells of a binding that the hub refuses, by a quota, say.
func (c bindingWriter) reportRefused(object *unstructured.Unstructured, policy policyv1alpha1.Policy, err error) error {
	if store.IsRefused(err) {
		c.recordEvent(object, corev1.EventTypeWarning, claims.EventFailed, "policy %q: the hub refuses the binding: %v", policy.GetName(), err)
	}
	return err
}

// updateBinding changes a binding if the object or the policy asks for something else.
func (c bindingWriter) updateBinding(
	ctx context.Context, present lookup.Binding, wanted workv1alpha2.ResourceBindingSpec, policy policyv1alpha1.Policy, object *unstructured.Unstructured,
) error {
	after := deepcopy.CopyObject(present)
	demand.PreserveDecidedFields(&wanted, present.BindingSpec())
	*after.BindingSpec() = wanted
	after.BindingSpec().Resource.ResourceVersion = present.BindingSpec().Resource.ResourceVersion
	markBinding(after, policy, object)
	_, wrote, err := c.Store.ScheduleAndUpdate(ctx, present, after, wanted.Resource.ResourceVersion)
	if err != nil {
		return c.reportRefused(object, policy, err)
	}
	if !wrote {
		c.Touched(client.ObjectKeyFromObject(present))
	}
	return nil
}

// patchBinding writes what differs of a binding, as it was read.
func (c bindingWriter) patchBinding(ctx context.Context, before, after lookup.Binding) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, after, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the binding of %s: %w", templates.KeyOf(after.BindingSpec().Resource), err)
	}
	return nil
}

// unmarkBinding takes the marks of policies off a binding.
func (c bindingWriter) unmarkBinding(ctx context.Context, present lookup.Binding) error {
	after := deepcopy.CopyObject(present)
	dropMarks(after)
	if equality.Semantic.DeepEqual(present, after) {
		return nil
	}
	return c.patchBinding(ctx, present, after)
}

// deleteBindings deletes bindings.
func (c bindingWriter) deleteBindings(ctx context.Context, bindings ...lookup.Binding) error {
	for _, b := range bindings {
		if !b.GetDeletionTimestamp().IsZero() {
			continue
		}
		uid := b.GetUID()
		if err := c.Client.Delete(ctx, b, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the binding of %s: %w", templates.KeyOf(b.BindingSpec().Resource), err)
		}
	}
	return nil
}

// markBinding gives a binding what it has for life, and the marks of its policy.
func markBinding(b lookup.Binding, policy policyv1alpha1.Policy, object *unstructured.Unstructured) {
	setClaimMarks(b, policy)
	labels := b.GetLabels()
	annotations := b.GetAnnotations()
	id := workv1alpha2.LabelResourceBindingID
	if _, wide := b.(*workv1alpha2.ClusterResourceBinding); wide {
		id = workv1alpha2.LabelClusterResourceBindingID
	}
	if labels[id] == "" {
		labels[id] = lookup.PermanentBindingID(object)
	}
	delete(annotations, demand.AnnotationTemplate)
	if demand.IsLazyPolicy(policy) {
		annotations[demand.AnnotationTemplate] = demand.ObjectFingerprint(object)
	}
	b.SetLabels(labels)
	b.SetAnnotations(annotations)
	demand.MarkPartialPlacement(b, policy)
	controllerutil.AddFinalizer(b, deliver.BindingFinalizer(b))
}

// setClaimMarks gives a binding the marks of a policy.
func setClaimMarks(b lookup.Binding, policy policyv1alpha1.Policy) {
	dropMarks(b)
	marks := claims.MarksForPolicy(policy)
	labels := b.GetLabels()
	annotations := b.GetAnnotations()
	maps.Copy(labels, marks.Labels)
	maps.Copy(annotations, marks.Annotations)
	b.SetLabels(labels)
	b.SetAnnotations(annotations)
}

func dropMarks(b lookup.Binding) {
	labels := orEmpty(b.GetLabels())
	annotations := orEmpty(b.GetAnnotations())
	for _, key := range claims.LabelKeys() {
		delete(labels, key)
	}
	for _, key := range claims.AnnotationKeys() {
		delete(annotations, key)
	}
	b.SetLabels(labels)
	b.SetAnnotations(annotations)
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
