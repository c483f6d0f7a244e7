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

// need is something that a policy names, and waits for if it does not exist.
type need struct {
	kind            schema.GroupVersionKind
	namespace, name string
	field           string
}

func (n need) String() string { return spell(n.kind.Kind, n.namespace, n.name) }

// needs are what a policy waits for.
func needs(namespace string, spec *policyv1alpha1.PropagationSpec) []need {
	var all []need
	kind := policyv1alpha1.GroupVersion.WithKind("ClusterOverridePolicy")
	if namespace != "" {
		kind.Kind = "OverridePolicy"
	}
	names := spec.DependentOverrides
	for _, name := range names[:min(len(names), claims.DependentOverridesMax)] {
		all = append(all, need{kind, namespace, name, "spec.dependentOverrides"})
	}
	if asked := spec.SchedulePriority; asked != nil {
		class := schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}
		all = append(all, need{class, "", asked.PriorityClassName, "spec.schedulePriority"})
	}
	return all
}

// absent finds out what the policies that select the object wait for.
func (r Reader) absent(ctx context.Context, f *Facts) error {
	for _, c := range f.contenders() {
		if c.exact == selector.None {
			continue
		}
		for _, n := range needs(c.Namespace, c.spec) {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(n.kind)
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: n.namespace, Name: n.name}, object)
			if apierrors.IsNotFound(err) {
				f.Absent = append(f.Absent, n.String())
				continue
			}
			if err := f.unread(err, n.String(), "it is taken to be there"); err != nil {
				return err
			}
		}
	}
	return nil
}

// served finds out whether the hub sends objects of the kind, as it does itself: by
// its nodes, and by the labels of the namespace.
func (r Reader) served(ctx context.Context, f *Facts) error {
	kind := f.Template.GroupVersionKind().GroupKind()
	if !(scope.Hub{Runs: true}).Owns(kind) {
		return nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	err := r.Client.List(ctx, nodes, client.Limit(1))
	if err != nil || len(nodes.Items) == 0 {
		return f.unread(err, "Nodes", "the hub is taken to be one that runs nothing itself")
	}
	labels := f.Template.GetLabels()
	if f.Ref.Namespace != "" {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		if err := r.Client.Get(ctx, client.ObjectKey{Name: f.Ref.Namespace}, namespace); err != nil {
			return f.unread(client.IgnoreNotFound(err), "Namespace "+f.Ref.Namespace, "it is taken to be one that objects are sent from")
		}
		labels = namespace.Labels
	}
	f.Unserved = !scope.Hub{Runs: true}.Serves(kind, labels)
	return nil
}

// waits says what keeps the policy that claims the object, or would, from being
// applied as it is.
func (f *Facts) waits() []string {
	if f.Template == nil {
		return nil
	}
	c, found := f.deciding()
	if !found {
		return nil
	}
	var notes []string
	if wrong := claims.CheckDependentOverrides(c.spec, field.NewPath("spec")); len(wrong) > 0 {
		return []string{fmt.Sprintf("%s is not applied: %s.", c, wrong.ToAggregate())}
	}
	for _, n := range needs(c.Namespace, c.spec) {
		if slices.Contains(f.Absent, n.String()) {
			notes = append(notes, fmt.Sprintf("%s waits for %s (%s), which does not exist: create it.", c, n, n.field))
		}
	}
	if f.Unserved {
		notes = append(notes, fmt.Sprintf("%s selects it, but %s.", c, scope.Refusal(f.Ref.Kind, f.Ref.Namespace)))
	}
	var binding workv1alpha2.Binding
	if f.Binding != nil {
		binding = f.Binding.object()
	}
	if demand.Postponed(c.policy, f.Template, binding) {
		notes = append(notes, fmt.Sprintf("%s is applied lazily (spec.activationPreference): it waits until the object itself changes.", c))
	}
	return notes
}

// deciding returns the policy that claims the object or, if none has yet, the one
// that would.
func (f *Facts) deciding() (contender, bool) {
	all := f.contenders()
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

// object returns the binding as the hub has it.
func (b *BindingObject) object() workv1alpha2.Binding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: b.ObjectMeta, Spec: b.Spec, Status: b.Status}
}

// reserved says why the object is never sent to clusters, "" if it may be.
func (f *Facts) reserved() string {
	clusters := make([]view.Cluster, 0, len(f.Clusters))
	for i := range f.Clusters {
		clusters = append(clusters, view.Of(&f.Clusters[i], f.Connections[f.Clusters[i].Name]))
	}
	object := &metav1.ObjectMeta{Namespace: f.Ref.Namespace, Name: f.Ref.Name}
	if f.Template != nil {
		object.Labels, object.Annotations = f.Template.GetLabels(), f.Template.GetAnnotations()
	}
	return claims.Reserved(schema.FromAPIVersionAndKind(f.Ref.APIVersion, f.Ref.Kind).GroupKind(), object, view.New(clusters...))
}
