// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// policyNeed is something that a policy names, and waits for if it does not exist.
type policyNeed struct {
	kind            schema.GroupVersionKind
	namespace, name string
	field           string
}

func (n policyNeed) String() string { return qualifiedName(n.kind.Kind, n.namespace, n.name) }

// policyNeeds are what a policy waits for.
func policyNeeds(namespace string, spec *policyv1alpha1.PropagationSpec) []policyNeed {
	var all []policyNeed
	kind := policyv1alpha1.GroupVersion.WithKind("ClusterOverridePolicy")
	if namespace != "" {
		kind.Kind = "OverridePolicy"
	}
	names := spec.DependentOverrides
	for _, name := range names[:min(len(names), claims.DependentOverridesMax)] {
		all = append(all, policyNeed{kind, namespace, name, "spec.dependentOverrides"})
	}
	if asked := spec.SchedulePriority; asked != nil {
		class := schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}
		all = append(all, policyNeed{class, "", asked.PriorityClassName, "spec.schedulePriority"})
	}
	return all
}

// readAbsentNeeds finds out what the policies that select the object wait for.
func (r Reader) readAbsentNeeds(ctx context.Context, f *ObjectFacts) error {
	for _, c := range f.policyContenders() {
		if c.exact == selector.None {
			continue
		}
		for _, n := range policyNeeds(c.Namespace, c.spec) {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(n.kind)
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: n.namespace, Name: n.name}, object)
			if apierrors.IsNotFound(err) {
				f.Absent = append(f.Absent, n.String())
				continue
			}
			if err := f.recordUnread(err, n.String(), "it is taken to be there"); err != nil {
				return err
			}
		}
	}
	return nil
}

// readServedScope finds out whether the hub sends objects of the kind, as it does itself: by
// its nodes, and by the labels of the namespace.
func (r Reader) readServedScope(ctx context.Context, f *ObjectFacts) error {
	kind := f.Template.GroupVersionKind().GroupKind()
	if !(scope.Hub{Runs: true}).OwnsKind(kind) {
		return nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	err := r.Client.List(ctx, nodes, client.Limit(1))
	if err != nil || len(nodes.Items) == 0 {
		return f.recordUnread(err, "Nodes", "the hub is taken to be one that runs nothing itself")
	}
	labels := f.Template.GetLabels()
	if f.Ref.Namespace != "" {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		if err := r.Client.Get(ctx, client.ObjectKey{Name: f.Ref.Namespace}, namespace); err != nil {
			return f.recordUnread(client.IgnoreNotFound(err), "Namespace "+f.Ref.Namespace, "it is taken to be one that objects are sent from")
		}
		labels = namespace.Labels
	}
	f.Unserved = !scope.Hub{Runs: true}.ServesKind(kind, labels)
	return nil
}

// waitNotes says what keeps the policy that claims the object, or would, from being
// applied as it is.
func (f *ObjectFacts) waitNotes() []string {
	if f.Template == nil {
		return nil
	}
	c, found := f.decidingPolicy()
	if !found {
		return nil
	}
	var notes []string
	if wrong := claims.CheckDependentOverrides(c.spec, field.NewPath("spec")); len(wrong) > 0 {
		return []string{fmt.Sprintf("%s is not applied: %s.", c, wrong.ToAggregate())}
	}
	for _, n := range policyNeeds(c.Namespace, c.spec) {
		if slices.Contains(f.Absent, n.String()) {
			notes = append(notes, fmt.Sprintf("%s waits for %s (%s), which does not exist: create it.", c, n, n.field))
		}
	}
	if f.Unserved {
		notes = append(notes, fmt.Sprintf("%s selects it, but %s.", c, scope.RefusalReason(f.Ref.Kind, f.Ref.Namespace)))
	}
	var binding workv1alpha2.Binding
	if f.Binding != nil {
		binding = f.Binding.asBinding()
	}
	if demand.IsActivationPostponed(c.policy, f.Template, binding) {
		notes = append(notes, fmt.Sprintf("%s is applied lazily (spec.activationPreference): it waits until the object itself changes.", c))
	}
	return notes
}

// decidingPolicy returns the policy that claims the object or, if none has yet, the one
// that would.
func (f *ObjectFacts) decidingPolicy() (contender, bool) {
	all := f.policyContenders()
	claimed := f.claimedBy()
	i := slices.IndexFunc(all, func(c contender) bool {
		if claimed == nil {
			return c.exact != selector.None
		}
		return c.Kind == claimed.Kind && c.Namespace == claimed.Namespace && c.Name == claimed.Name
	})
	if i < 0 {
		return contender{}, false
	}
	return all[i], true
}

// asBinding returns the binding as the hub has it.
func (b *BindingObject) asBinding() workv1alpha2.Binding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: b.ObjectMeta, Spec: b.Spec, Status: b.Status}
}

// reservedReason says why the object is never sent to clusters, "" if it may be.
func (f *ObjectFacts) reservedReason() string {
	clusters := make([]view.Cluster, 0, len(f.Clusters))
	for i := range f.Clusters {
		clusters = append(clusters, view.FromCluster(&f.Clusters[i], f.Connections[f.Clusters[i].Name]))
	}
	object := &metav1.ObjectMeta{Namespace: f.Ref.Namespace, Name: f.Ref.Name}
	if f.Template != nil {
		object.Labels, object.Annotations = f.Template.GetLabels(), f.Template.GetAnnotations()
	}
	return claims.ReservedReason(schema.FromAPIVersionAndKind(f.Ref.APIVersion, f.Ref.Kind).GroupKind(), object, view.NewFleet(clusters...))
}
