// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/override"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// works returns the works of a binding: those with its ID, and those that name it and
// have another ID, which it is to take over. Works of another object that had the name of
// this one are deleted, as their binding does not exist any more.
//
// A member can write into the works that it has been sent whatever it likes, so what they
// say counts only if their names agree with it.
func (c *Controller) works(ctx context.Context, b binding) ([]workv1.ManifestWork, error) {
	found, err := c.Works.WithID(deliver.ID(b))
	if err != nil {
		return nil, err
	}
	named, err := c.Works.WithName(client.ObjectKeyFromObject(b))
	if err != nil {
		return nil, err
	}
	mine := make([]workv1.ManifestWork, 0, len(found))
	for _, work := range found {
		if deliver.MayHave(b, work) {
			mine = append(mine, *work)
		}
	}
	for _, work := range named {
		if deliver.BindingID(work) == deliver.ID(b) || !deliver.MayHave(b, work) {
			continue
		}
		lost, err := c.ofEarlierObject(ctx, b, work)
		if err != nil {
			return nil, err
		}
		if !lost {
			mine = append(mine, *work)
			continue
		}
		if err := send.Joined(c.writer().Write(ctx, deliver.Changes{Gone: []workv1.ManifestWork{*work}})); err != nil {
			return nil, err
		}
	}
	return mine, nil
}

// ofEarlierObject tells whether a work was made of an object that had the kind and the
// name of that of the binding, and that does not exist any more. One that says to be made
// of anything else belies its name.
func (c *Controller) ofEarlierObject(ctx context.Context, b binding, work *workv1.ManifestWork) (bool, error) {
	of, ok := deliver.TemplateOf(work)
	says, is := templates.KeyOf(of), templates.KeyOf(b.BindingSpec().Resource)
	if !ok || says.Kind.GroupKind() != is.Kind.GroupKind() || says.Name != is.Name {
		return false, nil
	}
	return c.ending.lost(ctx, work)
}

// render returns the works that a binding is to have now.
func (c *Controller) render(ctx context.Context, b binding, object *unstructured.Unstructured, present []workv1.ManifestWork) (staging.Verdict, error) {
	wide, own, err := c.overrides(ctx, object)
	if err != nil {
		return staging.Verdict{}, err
	}
	policies, mistake := override.Select(object, wide, own)
	defer c.Stages.Turns.Done(client.ObjectKeyFromObject(b))
	if policies.Expands() {
		if err := c.Stages.Turns.Take(client.ObjectKeyFromObject(b)); err != nil {
			return staging.Verdict{}, err
		}
	}
	source := deliver.Source{Binding: b, Object: object, Fleet: c.Fleet.Snapshot(), Chain: c.Chain, Overrides: policies, Mistake: mistake}
	works, problems, err := deliver.Render(source)
	if err != nil {
		return staging.Verdict{}, fmt.Errorf("making the works of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return c.Stages.Stage(ctx, staging.Input{
		Binding: b, Source: source, Wide: wide, Own: own, Works: present, Wanted: works, Problems: problems,
	})
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

// overrides returns the policies that may change an object.
func (c *Controller) overrides(
	ctx context.Context, object *unstructured.Unstructured,
) (wide []policyv1alpha1.ClusterOverridePolicy, own []policyv1alpha1.OverridePolicy, err error) {
	for _, value := range append(selector.KeysOf(object.GroupVersionKind(), object.GetName()), anything) {
		by := client.MatchingFields{indexReaches: value}
		wides, owns := &policyv1alpha1.ClusterOverridePolicyList{}, &policyv1alpha1.OverridePolicyList{}
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

func (c Deps) writer() send.Writer {
	return send.Writer{Client: c.Client, Live: c.Live, Created: c.Created}
}
