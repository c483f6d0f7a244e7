// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// rolloutTarget is what a rollout is of: a policy, or an object.
type rolloutTarget struct {
	kind schema.GroupKind
	name types.NamespacedName
}

// targetOf returns what a rollout is of.
func targetOf(r Rollout) rolloutTarget {
	spec := r.RolloutSpec()
	switch {
	case spec.Template != nil:
		return rolloutTarget{
			kind: schema.FromAPIVersionAndKind(spec.Template.APIVersion, spec.Template.Kind).GroupKind(),
			name: types.NamespacedName{Namespace: r.GetNamespace(), Name: spec.Template.Name},
		}
	case spec.Policy != nil:
		return rolloutTarget{kind: policyKind(r.GetNamespace()), name: types.NamespacedName{Namespace: r.GetNamespace(), Name: spec.Policy.Name}}
	default:
		return rolloutTarget{}
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
// before the policy that it says to be of.
func targetsOf(b Binding) []rolloutTarget {
	key := templates.KeyOf(b.BindingSpec().Resource)
	of := []rolloutTarget{{kind: key.Kind.GroupKind(), name: key.Name}}
	if policy, is := lookup.PolicyOf(b); is {
		of = append(of, rolloutTarget{kind: policyKind(policy.Namespace), name: policy})
	}
	return of
}

// policySends reports whether a policy sends an object by a binding: or else whoever writes a
// binding could stop anybody's rollout with it.
func policySends(ctx context.Context, reader client.Reader, name types.NamespacedName, object selector.Object, b Binding) (bool, error) {
	policy, err := lookup.ReadPolicy(ctx, reader, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking which rollout binding %q is of: %w", client.ObjectKeyFromObject(b), err)
	}
	return claims.PolicySendsObject(policy, object, b), nil
}

// membersByTarget returns all bindings by what rollouts that are about them are of, from
// the cache.
func (s *Stages) membersByTarget(ctx context.Context) (map[rolloutTarget][]Binding, error) {
	all, err := s.listBindings(ctx, "")
	if err != nil {
		return nil, err
	}
	by := map[rolloutTarget][]Binding{}
	for _, b := range all {
		for _, of := range targetsOf(b) {
			if of.name.Namespace == "" || of.name.Namespace == b.GetNamespace() {
				by[of] = append(by[of], b)
			}
		}
	}
	return by, nil
}

// listMembers returns the bindings that a rollout is about, from the cache.
func (s *Stages) listMembers(ctx context.Context, of rolloutTarget) ([]Binding, error) {
	all, err := s.listBindings(ctx, of.name.Namespace)
	return slices.DeleteFunc(all, func(b Binding) bool { return !slices.Contains(targetsOf(b), of) }), err
}

// listBindings returns those of a namespace, or all, from the cache.
func (s *Stages) listBindings(ctx context.Context, namespace string) ([]Binding, error) {
	own := &workv1alpha2.ResourceBindingList{}
	wide := &workv1alpha2.ClusterResourceBindingList{}
	by := []client.ListOption{client.UnsafeDisableDeepCopy, client.InNamespace(namespace)}
	if err := s.Client.List(ctx, own, by...); err != nil {
		return nil, fmt.Errorf("listing ResourceBindings: %w", err)
	}
	var all []Binding
	for i := range own.Items {
		all = append(all, &own.Items[i])
	}
	if namespace == "" {
		if err := s.Client.List(ctx, wide, by...); err != nil {
			return nil, fmt.Errorf("listing ClusterResourceBindings: %w", err)
		}
		for i := range wide.Items {
			all = append(all, &wide.Items[i])
		}
	}
	return all, nil
}

// GovernsBinding reports whether the object of a binding is of one of the rollouts, without which
// Stage changes nothing.
func GovernsBinding(ctx context.Context, s *Stages, b Binding, object *unstructured.Unstructured) (bool, error) {
	e, err := enterRollout(ctx, s, b, object)
	return e != nil, err
}

// enterRollout has a binding join the rollout that its object is of, and returns that; nil if there
// is none.
func enterRollout(ctx context.Context, s *Stages, b Binding, object *unstructured.Unstructured) (*rolloutEntry, error) {
	targets := targetsOf(b)
	if policy, says := lookup.PolicyOf(b); says && len(s.RolloutsOfPolicy(policy)) > 0 {
		sent, err := policySends(ctx, s.Client, policy, object, b)
		if err != nil {
			return nil, err
		}
		if !sent {
			targets = targets[:1] // a rollout of the object itself
		}
	}
	name := client.ObjectKeyFromObject(b)
	s.mu.Lock()
	e := s.governingEntry(targets)
	s.joinRollout(name, e)
	s.mu.Unlock()
	return e, s.dropGarbage(ctx, name)
}
