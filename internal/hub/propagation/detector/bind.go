// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
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
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/demand"
)

// binder keeps the bindings of objects.
type binder struct {
	Deps
}

// bind makes the binding of an object say what the object and the policy ask for.
func (c binder) bind(
	ctx context.Context, key templates.Key, object *unstructured.Unstructured, policy policyv1alpha1.Policy, have lookup.Bindings,
) (ctrl.Result, error) {
	priority, found, err := c.priority(ctx, policy)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !found { // the class brings the object back when it comes
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: policy.PropagationSpec().SchedulePriority.PriorityClassName}}
		c.Events.Eventf(object, class, corev1.EventTypeWarning, claims.EventFailed, action,
			"policy %q names PriorityClass %q (spec.schedulePriority), which does not exist: create it, or name another one", policy.GetName(), class.Name)
		return ctrl.Result{}, nil
	}
	failed := reasonGetReplicasFailed
	wanted, problem := demand.Of(object, policy, c.Chain, priority)
	if problem == nil && c.Components {
		failed, problem = reasonGetComponentsFailed, demand.Compose(&wanted, object, c.Chain)
	}
	if problem != nil { // another customization brings the object back
		c.tell(object, corev1.EventTypeWarning, failed, "%s", interpret.Tell(problem))
		c.tell(object, corev1.EventTypeWarning, claims.EventFailed, "policy %q: nobody knows the replicas: %s", policy.GetName(), interpret.Tell(problem))
		return ctrl.Result{RequeueAfter: interpret.Again(problem)}, nil
	}
	if c.Groups {
		wanted.WorkloadAffinityGroups = demand.Groups(object, policy)
	}
	present := have.Of(object.GetUID())
	if present == nil {
		return ctrl.Result{}, c.create(ctx, have.New(key), object, wanted, policy)
	}
	if !present.GetDeletionTimestamp().IsZero() {
		c.Touched(client.ObjectKeyFromObject(present)) // it need not await what clusters keep
		return ctrl.Result{}, nil                      // it comes again when the binding is gone
	}
	return ctrl.Result{}, c.update(ctx, present, wanted, policy, object)
}

// create creates a binding with the clusters that are chosen for it, and says so
// in its status.
func (c binder) create(
	ctx context.Context, b lookup.Binding, object *unstructured.Unstructured, wanted workv1alpha2.ResourceBindingSpec, policy policyv1alpha1.Policy,
) error {
	*b.BindingSpec() = wanted
	b.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(object, object.GroupVersionKind())})
	mark(b, policy, object)
	created, err := c.Store.Create(ctx, b)
	c.Touched(client.ObjectKeyFromObject(b)) // who saw it before its status was written left it alone
	if created {
		c.tell(object, corev1.EventTypeNormal, reasonApplyPolicySucceeded, "policy %q was applied", policy.GetName())
	}
	return c.refused(object, policy, err)
}

// refused tells of a binding that the hub refuses, by a quota, say.
func (c binder) refused(object *unstructured.Unstructured, policy policyv1alpha1.Policy, err error) error {
	if store.Refused(err) {
		c.tell(object, corev1.EventTypeWarning, claims.EventFailed, "policy %q: the hub refuses the binding: %v", policy.GetName(), err)
	}
	return err
}

// update changes a binding if the object or the policy asks for something else.
func (c binder) update(
	ctx context.Context, present lookup.Binding, wanted workv1alpha2.ResourceBindingSpec, policy policyv1alpha1.Policy, object *unstructured.Unstructured,
) error {
	after := present.DeepCopyObject().(lookup.Binding) //nolint:forcetypeassert // it is one
	demand.Keep(&wanted, present.BindingSpec())
	*after.BindingSpec() = wanted
	after.BindingSpec().Resource.ResourceVersion = present.BindingSpec().Resource.ResourceVersion
	mark(after, policy, object)
	_, wrote, err := c.Store.Change(ctx, present, after, wanted.Resource.ResourceVersion)
	if err != nil {
		return c.refused(object, policy, err)
	}
	if !wrote {
		c.Touched(client.ObjectKeyFromObject(present))
	}
	return nil
}

// patch writes what differs of a binding, as it was read.
func (c binder) patch(ctx context.Context, before, after lookup.Binding) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, after, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the binding of %s: %w", templates.KeyOf(after.BindingSpec().Resource), err)
	}
	return nil
}

// unmark takes the marks of policies off a binding.
func (c binder) unmark(ctx context.Context, present lookup.Binding) error {
	after := present.DeepCopyObject().(lookup.Binding) //nolint:forcetypeassert // it is one
	dropMarks(after)
	if equality.Semantic.DeepEqual(present, after) {
		return nil
	}
	return c.patch(ctx, present, after)
}

// remove deletes bindings.
func (c binder) remove(ctx context.Context, bindings ...lookup.Binding) error {
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

// mark gives a binding what it has for life, and the marks of its policy.
func mark(b lookup.Binding, policy policyv1alpha1.Policy, object *unstructured.Unstructured) {
	claimedBy(b, policy)
	labels := b.GetLabels()
	annotations := b.GetAnnotations()
	id := workv1alpha2.LabelResourceBindingID
	if _, wide := b.(*workv1alpha2.ClusterResourceBinding); wide {
		id = workv1alpha2.LabelClusterResourceBindingID
	}
	if labels[id] == "" {
		labels[id] = lookup.ID(object)
	}
	delete(annotations, demand.AnnotationTemplate)
	if demand.Lazy(policy) {
		annotations[demand.AnnotationTemplate] = demand.Fingerprint(object)
	}
	b.SetLabels(labels)
	b.SetAnnotations(annotations)
	demand.Mark(b, policy)
	controllerutil.AddFinalizer(b, deliver.Finalizer(b))
}

// claimedBy gives a binding the marks of a policy.
func claimedBy(b lookup.Binding, policy policyv1alpha1.Policy) {
	dropMarks(b)
	marks := claims.Of(policy)
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
