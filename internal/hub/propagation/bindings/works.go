// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// listWorks returns the works of a binding, and those of earlier objects that had its name,
// which are to go: their binding does not exist any more.
//
// They are found by their names, which are all of a work that a member cannot change. What
// the works say spares a look at the hub.
func (c *BindingController) listWorks(ctx context.Context, b binding) (own, earlier []workv1.ManifestWork, err error) {
	for _, name := range deliver.NamesOfWorks(b) {
		called, err := c.Works.ListByName(name)
		if err != nil {
			return nil, nil, err
		}
		for _, work := range called {
			whose, err := c.workOwnership(ctx, b, work)
			switch {
			case err != nil:
				return nil, nil, err
			case whose == deliver.Own:
				own = append(own, *work)
			case whose == deliver.Earlier:
				earlier = append(earlier, *work)
			}
		}
	}
	return own, earlier, nil
}

// workOwnership tells whose a work is that has a name of the works of a binding.
func (c *BindingController) workOwnership(ctx context.Context, b binding, work *workv1.ManifestWork) (deliver.WorkOwnership, error) {
	if deliver.WorkClaimsBinding(b, work) {
		return deliver.Own, nil
	}
	if name := deliver.BindingOf(work); name.Name != "" && name != client.ObjectKeyFromObject(b) {
		other := emptyBinding(name)
		if c.Client.Get(ctx, name, other, client.UnsafeDisableDeepCopy) == nil && deliver.WorkClaimsBinding(other, work) {
			return deliver.Others, nil
		}
	}
	live := &workv1.ManifestWork{} // the cache does not have what it was made of
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(work), live)
	if apierrors.IsNotFound(err) || err == nil && live.UID != work.UID {
		return deliver.Others, nil
	}
	if err != nil {
		return deliver.Others, fmt.Errorf("reading ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	return deliver.OwnershipOfWork(b, live), nil
}

// anyOverridden reports whether policies have changed the object of some of the works.
func anyOverridden(works map[string]*workv1.ManifestWork) bool {
	for _, work := range works {
		if work.Annotations[policyv1alpha1.AnnotationAppliedOverrides] != "" || work.Annotations[policyv1alpha1.AnnotationAppliedClusterOverrides] != "" {
			return true
		}
	}
	return false
}

// listOverrides returns the policies that may change an object.
func (c *BindingController) listOverrides(
	ctx context.Context, object *unstructured.Unstructured,
) (wide []policyv1alpha1.ClusterOverridePolicy, own []policyv1alpha1.OverridePolicy, err error) {
	for _, value := range append(selector.KeysOf(object.GroupVersionKind(), object.GetName()), anything) {
		by := client.MatchingFields{indexReaches: value}
		wides := &policyv1alpha1.ClusterOverridePolicyList{}
		owns := &policyv1alpha1.OverridePolicyList{}
		if err := c.Client.List(ctx, wides, by, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("listing the ClusterOverridePolicies: %w", err)
		}
		wide = append(wide, wides.Items...)
		if object.GetNamespace() == "" {
			continue
		}
		if err := c.Client.List(ctx, owns, by, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("listing the OverridePolicies of namespace %q: %w", object.GetNamespace(), err)
		}
		own = append(own, owns.Items...)
	}
	// Some may select it in more than one way.
	slices.SortFunc(wide, func(a, b policyv1alpha1.ClusterOverridePolicy) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(own, func(a, b policyv1alpha1.OverridePolicy) int { return strings.Compare(a.Name, b.Name) })
	wide = slices.CompactFunc(wide, func(a, b policyv1alpha1.ClusterOverridePolicy) bool { return a.Name == b.Name })
	return wide, slices.CompactFunc(own, func(a, b policyv1alpha1.OverridePolicy) bool { return a.Name == b.Name }), nil
}

func (c BindingControllerDeps) workWriter() send.WorkWriter {
	return send.WorkWriter{Client: c.Client, Live: c.Live, Created: c.Created, Restless: c.Restless}
}
