// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// indexSelects finds the policies that may select an object, by selector.IndexKeysOfSelectors.
	indexSelects = "selects"
	// indexWaits finds the policies that name another object without which they are
	// not applied, by overrideName and className.
	indexWaits = "waits-for"
)

// IndexPolicies adds the indexes by which the controller reads policies.
func IndexPolicies(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range []client.Object{&policyv1alpha1.PropagationPolicy{}, &policyv1alpha1.ClusterPropagationPolicy{}} {
		for name, values := range map[string]client.IndexerFunc{indexSelects: selectionKeys, indexWaits: awaitedKeys} {
			if err := indexer.IndexField(ctx, kind, name, values); err != nil {
				return fmt.Errorf("indexing %T by %s: %w", kind, name, err)
			}
		}
	}
	return nil
}

func selectionKeys(object client.Object) []string {
	policy, ok := object.(policyv1alpha1.Policy)
	if !ok {
		return nil
	}
	return selector.IndexKeysOfSelectors(policy.PropagationSpec().ResourceSelectors)
}

func overrideName(namespace, name string) string { return "override " + namespace + "/" + name }

func className(name string) string { return "class " + name }

func awaitedKeys(object client.Object) []string {
	policy, ok := object.(policyv1alpha1.Policy)
	if !ok {
		return nil
	}
	spec := policy.PropagationSpec()
	if len(claims.CheckAwaitedNames(spec, nil)) > 0 {
		return nil // it is not applied, whatever comes
	}
	var values []string
	for _, name := range spec.DependentOverrides {
		values = append(values, overrideName(policy.GetNamespace(), name))
	}
	if asked := spec.SchedulePriority; asked != nil {
		values = append(values, className(asked.PriorityClassName))
	}
	return values
}

// chooser finds the policies that select objects.
type chooser struct {
	DetectionDeps

	selections *claims.Selections
}

// kindVersions returns the kinds by which policies and bindings know the objects of a kind,
// in an order that does not change.
func (c chooser) kindVersions(kind schema.GroupVersionKind) []schema.GroupVersionKind {
	if versions := c.Templates.ListedVersions(kind.GroupKind()); len(versions) > 0 {
		return versions
	}
	return []schema.GroupVersionKind{kind}
}

// choosePolicy returns the policy that is to claim an object, nil if none matches, and the
// place of the version that the policy wants.
func (c chooser) choosePolicy(
	ctx context.Context, key templates.Key, versions []schema.GroupVersionKind, template *metav1.PartialObjectMetadata, holder metav1.Object,
) (policy policyv1alpha1.Policy, version int, err error) {
	var policies []policyv1alpha1.Policy
	var objects []selector.Object
	for _, kind := range versions {
		found, err := c.candidatePolicies(ctx, templates.Key{Kind: kind, Name: key.Name})
		if err != nil {
			return nil, 0, err
		}
		policies, objects = append(policies, found...), append(objects, asVersion(template, kind))
	}
	policy, version = c.selections.ChooseVersion(objects, holder, policies, c.Preempts)
	return policy, version, nil
}

// asVersion returns the metadata of an object as another version has them.
func asVersion(template *metav1.PartialObjectMetadata, kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	if template.GroupVersionKind() == kind {
		return template
	}
	other := *template
	other.SetGroupVersionKind(kind)
	return &other
}

// candidatePolicies returns the policies that may match an object, each once or twice: those
// that name it, and those that select its kind.
func (c chooser) candidatePolicies(ctx context.Context, key templates.Key) ([]policyv1alpha1.Policy, error) {
	var all []policyv1alpha1.Policy
	for _, value := range selector.KeysOf(key.Kind, key.Name.Name) {
		by := client.MatchingFields{indexSelects: value}
		if key.Name.Namespace != "" {
			own, err := c.listPolicies(ctx, by, client.InNamespace(key.Name.Namespace))
			if err != nil {
				return nil, err
			}
			all = append(all, own...)
		}
		wide, err := c.listClusterPolicies(ctx, by)
		if err != nil {
			return nil, err
		}
		all = append(all, wide...)
	}
	return all, nil
}

// listPolicies returns PropagationPolicies, which must not be changed.
func (c chooser) listPolicies(ctx context.Context, by ...client.ListOption) ([]policyv1alpha1.Policy, error) {
	list := &policyv1alpha1.PropagationPolicyList{}
	if err := c.Client.List(ctx, list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing PropagationPolicies: %w", err)
	}
	all := make([]policyv1alpha1.Policy, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// listClusterPolicies returns ClusterPropagationPolicies, which must not be changed.
func (c chooser) listClusterPolicies(ctx context.Context, by ...client.ListOption) ([]policyv1alpha1.Policy, error) {
	list := &policyv1alpha1.ClusterPropagationPolicyList{}
	if err := c.Client.List(ctx, list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing ClusterPropagationPolicies: %w", err)
	}
	all := make([]policyv1alpha1.Policy, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// policiesAwaiting returns the policies that wait for what has the value of the index.
func (c chooser) policiesAwaiting(ctx context.Context, value string) ([]policyv1alpha1.Policy, error) {
	by := client.MatchingFields{indexWaits: value}
	own, err := c.listPolicies(ctx, by)
	if err != nil {
		return nil, err
	}
	wide, err := c.listClusterPolicies(ctx, by)
	return append(own, wide...), err
}
