// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// namespaceTargets are the clusters that are to have a namespace.
type namespaceTargets struct {
	namespace string
	// owners are those who pay for the works, by cluster: the users of the namespace where it is for their bindings alone,
	// those who write ClusterPropagationPolicies where one of these sends something there, and nobody but the administrators
	// where all clusters get it.
	owners map[string]allowance.WorkOwner
	// sent are the clusters that a policy for the namespace itself sends it to, and never says that it is sent to none.
	sent  map[string]bool
	never bool
	// awaits says that bindings name a cluster that does not exist.
	awaits bool
}

// usersOf returns who pays for what the bindings of a namespace need.
func usersOf(namespace string) allowance.WorkOwner { return allowance.WorkOwner{Namespace: namespace} }

// namespaceTargets returns the clusters that are to have a namespace, which has works in some.
func (c *NamespaceController) namespaceTargets(ctx context.Context, namespace *corev1.Namespace, works []workv1.ManifestWork) (namespaceTargets, error) {
	targets := namespaceTargets{namespace: namespace.Name, owners: map[string]allowance.WorkOwner{}}
	own, err := c.fleetOfCluster(ctx, namespace.Name, view.IdentityFromCluster)
	if err != nil || !isPropagated(namespace, own) {
		targets.never = true
		return targets, err
	}
	if err := c.addBindingTargets(ctx, &targets, works); err != nil {
		return targets, err
	}
	if c.Everywhere {
		all := &clusterv1.ManagedClusterList{}
		if err := c.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
			return targets, fmt.Errorf("listing the ManagedClusters: %w", err)
		}
		for i := range all.Items {
			if all.Items[i].Spec.HubAcceptsClient && all.Items[i].DeletionTimestamp.IsZero() {
				targets.owners[all.Items[i].Name] = allowance.WorkOwner{}
			}
		}
	}
	if targets.sent, err = c.policyClusters(ctx, namespace.Name); err != nil {
		return targets, err
	}
	for name := range targets.sent {
		delete(targets.owners, name)
	}
	return targets, nil
}

// addBindingTargets adds the clusters that get an object of the namespace. Where an administrator has one sent, the namespace
// does not wait for what its users write. Whoever writes bindings can name any number of clusters that do not exist: they
// count only where there is a work, which stays.
func (c *NamespaceController) addBindingTargets(ctx context.Context, targets *namespaceTargets, works []workv1.ManifestWork) error {
	bindings := &workv1alpha2.ResourceBindingList{}
	if err := c.Client.List(ctx, bindings, client.InNamespace(targets.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the bindings of namespace %q: %w", targets.namespace, err)
	}
	has := map[string]bool{}
	for i := range works {
		has[works[i].Namespace] = true
	}
	clusters := c.Fleet.Snapshot()
	payers := lookup.NewPayers(c.Client)
	for i := range bindings.Items {
		b := &bindings.Items[i]
		owner, err := c.payerOfBinding(ctx, payers, b)
		if err != nil {
			return err
		}
		for name := range deliver.TargetNames(&b.Spec) {
			if _, exists := clusters.FindCluster(name); !exists && !has[name] {
				targets.awaits = true
				continue
			}
			if _, paid := targets.owners[name]; !paid || owner.ClusterWide {
				targets.owners[name] = owner
			}
		}
	}
	return nil
}

// payerOfBinding returns who pays for what a binding needs: the users of its namespace, unless it is known that a
// ClusterPropagationPolicy sends the object.
func (c *NamespaceController) payerOfBinding(ctx context.Context, payers *lookup.Payers, b *workv1alpha2.ResourceBinding) (allowance.WorkOwner, error) {
	if b.Annotations[policyv1alpha1.AnnotationClusterPropagationPolicyName] == "" {
		return usersOf(b.Namespace), nil
	}
	object, _ := c.Templates.Get(templates.KeyOf(b.Spec.Resource))
	if object == nil {
		return usersOf(b.Namespace), nil
	}
	return payers.FindPayer(ctx, b, object) //nolint:wrapcheck // it names the binding
}

// policyClusters returns the clusters that a policy for the namespace itself sends it to.
func (c *NamespaceController) policyClusters(ctx context.Context, namespace string) (map[string]bool, error) {
	usual := claims.BindingNames(corev1.SchemeGroupVersion.WithKind("Namespace"), namespace)[0]
	own := &workv1alpha2.ClusterResourceBinding{}
	err := c.Client.Get(ctx, types.NamespacedName{Name: usual}, own)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterResourceBinding %q: %w", usual, err)
	}
	clusters := map[string]bool{}
	if apierrors.IsNotFound(err) || namespaceOfBinding(own) != namespace {
		return clusters, nil
	}
	for _, target := range deliver.BindingTargets(&own.Spec) {
		clusters[target.Name] = true
	}
	return clusters, nil
}
