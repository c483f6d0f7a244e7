// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/override"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// render returns the works that a binding is to have.
func (c *Controller) render(ctx context.Context, b binding, object *unstructured.Unstructured) (map[string]*workv1.ManifestWork, map[string]error, error) {
	wide, own, err := c.overrides(ctx, object.GetNamespace())
	if err != nil {
		return nil, nil, err
	}
	policies, mistake := override.Select(object, wide.Items, own.Items)
	works, problems, err := deliver.Render(deliver.Source{
		Binding: b, Object: object, Fleet: c.Fleet.Snapshot(), Chain: c.Chain, Overrides: policies, Mistake: mistake,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making the works of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return works, problems, nil
}

// overridden tells whether policies have changed the object of some of the works.
func overridden(works map[string]*workv1.ManifestWork) bool {
	for _, work := range works {
		if work.Annotations[policyv1alpha1.AnnotationAppliedOverrides] != "" || work.Annotations[policyv1alpha1.AnnotationAppliedClusterOverrides] != "" {
			return true
		}
	}
	return false
}

// overrides returns the policies that may change objects of the namespace.
func (c *Controller) overrides(
	ctx context.Context, namespace string,
) (*policyv1alpha1.ClusterOverridePolicyList, *policyv1alpha1.OverridePolicyList, error) {
	wide, own := &policyv1alpha1.ClusterOverridePolicyList{}, &policyv1alpha1.OverridePolicyList{}
	if err := c.Client.List(ctx, wide, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the ClusterOverridePolicies: %w", err)
	}
	if namespace == "" {
		return wide, own, nil
	}
	if err := c.Client.List(ctx, own, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the OverridePolicies of namespace %q: %w", namespace, err)
	}
	return wide, own, nil
}

func (c *Controller) writer() send.Writer { return send.Writer{Client: c.Client, Created: c.Created} }
