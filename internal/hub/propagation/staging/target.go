// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// target is what a rollout is of: a policy, or an object.
type target struct {
	kind schema.GroupKind
	name types.NamespacedName
}

// targetOf returns what a rollout is of.
func targetOf(r Rollout) target {
	spec := r.RolloutSpec()
	switch {
	case spec.Template != nil:
		return target{
			kind: schema.FromAPIVersionAndKind(spec.Template.APIVersion, spec.Template.Kind).GroupKind(),
			name: types.NamespacedName{Namespace: r.GetNamespace(), Name: spec.Template.Name},
		}
	case spec.Policy != nil:
		return target{kind: policyKind(r.GetNamespace()), name: types.NamespacedName{Namespace: r.GetNamespace(), Name: spec.Policy.Name}}
	default:
		return target{}
	}
}

func policyKind(namespace string) schema.GroupKind {
	kind := "PropagationPolicy"
	if namespace == "" {
		kind = "ClusterPropagationPolicy"
	}
	return schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: kind}
}

// targetsOf returns what a rollout of a binding can be of: its object, which goes
// before its policy.
func targetsOf(b Binding) []target {
	key := templates.KeyOf(b.BindingSpec().Resource)
	of := []target{{kind: key.Kind.GroupKind(), name: key.Name}}
	annotations := b.GetAnnotations()
	if name := annotations[policyv1alpha1.AnnotationPropagationPolicyName]; name != "" {
		namespace := annotations[policyv1alpha1.AnnotationPropagationPolicyNamespace]
		return append(of, target{kind: policyKind(namespace), name: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	if name := annotations[policyv1alpha1.AnnotationClusterPropagationPolicyName]; name != "" {
		return append(of, target{kind: policyKind(""), name: types.NamespacedName{Name: name}})
	}
	return of
}

// members returns the bindings that a rollout is about, from the cache.
func (s *Stages) members(ctx context.Context, of target) ([]Binding, error) {
	own, wide := &workv1alpha2.ResourceBindingList{}, &workv1alpha2.ClusterResourceBindingList{}
	by := []client.ListOption{client.UnsafeDisableDeepCopy, client.InNamespace(of.name.Namespace)}
	if err := s.Client.List(ctx, own, by...); err != nil {
		return nil, fmt.Errorf("listing ResourceBindings: %w", err)
	}
	var all []Binding
	for i := range own.Items {
		all = append(all, &own.Items[i])
	}
	if of.name.Namespace == "" {
		if err := s.Client.List(ctx, wide, by...); err != nil {
			return nil, fmt.Errorf("listing ClusterResourceBindings: %w", err)
		}
		for i := range wide.Items {
			all = append(all, &wide.Items[i])
		}
	}
	return slices.DeleteFunc(all, func(b Binding) bool { return !slices.Contains(targetsOf(b), of) }), nil
}
