// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/explain/trial"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// declaredObjects is what is in the files, as the hub would have it.
type declaredObjects struct {
	policies  []changedPolicy[policyv1alpha1.Policy]
	wide      []changedPolicy[*policyv1alpha1.ClusterOverridePolicy]
	overrides []changedPolicy[*policyv1alpha1.OverridePolicy]
	templates []*trial.Trial
	// failed are the answers for those that the hub does not take.
	failed []error
}

// changedPolicy is a policy as it is, nil if there is none, and as it would be.
type changedPolicy[T any] struct {
	now, then T
	trial     *trial.Trial
}

// declareObjects lets the hub check what is in the files.
func (r Reader) declareObjects(ctx context.Context, written []*unstructured.Unstructured) (*declaredObjects, error) {
	d := &declaredObjects{}
	for _, object := range written {
		kind := object.GroupVersionKind()
		if kind.Group != policyv1alpha1.GroupName && reserved.KindReservedReason(kind.GroupKind()) != "" {
			continue // it is about the hub itself
		}
		if object.GetName() == "" {
			d.refuseObject(fmt.Errorf("%s: metadata.name: Required value: an object without a name cannot be planned", kind.Kind), "Give it a name.")
			continue
		}
		mapping, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			d.refuseObject(fmt.Errorf("%s %q: the hub serves no kind %s of apiVersion %s", kind.Kind, object.GetName(), kind.Kind, kind.GroupVersion()),
				"Fix apiVersion and kind, or apply the definition of the kind first.")
			continue
		}
		if err != nil {
			return nil, err
		}
		switch {
		case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
			object.SetNamespace("")
		case object.GetNamespace() == "":
			object.SetNamespace(r.Namespace)
		}
		tried, err := r.dryRunObject(ctx, object)
		switch refusal, refused := errors.AsType[*exit.Error](err); {
		case refused:
			d.failed = append(d.failed, refusal)
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			d.refuseObject(err, "Fix the field in the file.")
		case err != nil:
			return nil, err
		default:
			if err := d.addTrial(tried, kind); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// dryRunObject lets the hub check one object. An *exit.Error is about what cannot be planned.
func (r Reader) dryRunObject(ctx context.Context, object *unstructured.Unstructured) (*trial.Trial, error) {
	if !r.Delete {
		return trial.DryRunApply(ctx, r.Client, object)
	}
	if object.GroupVersionKind().Group != policyv1alpha1.GroupName {
		return nil, exit.Next(fmt.Errorf("%s %q: only the deletion of policies is planned", object.GetKind(), object.GetName()), "Leave it out of what -f names.")
	}
	tried, err := trial.DryRunDelete(ctx, r.Client, object)
	if apierrors.IsNotFound(err) {
		return nil, exit.Next(err, "There is nothing to delete: look at the name and the namespace.")
	}
	return tried, err
}

func (d *declaredObjects) refuseObject(err error, next string) {
	d.failed = append(d.failed, &exit.Error{Err: err, Next: next})
}

func (d *declaredObjects) addTrial(tried *trial.Trial, kind schema.GroupVersionKind) error {
	if kind.Group != policyv1alpha1.GroupName {
		d.templates = append(d.templates, tried)
		return nil
	}
	switch kind.Kind {
	case "PropagationPolicy":
		one, err := decodePolicy(tried, func() *policyv1alpha1.PropagationPolicy { return &policyv1alpha1.PropagationPolicy{} })
		d.policies = append(d.policies, asPolicy(one))
		return err
	case "ClusterPropagationPolicy":
		one, err := decodePolicy(tried, func() *policyv1alpha1.ClusterPropagationPolicy { return &policyv1alpha1.ClusterPropagationPolicy{} })
		d.policies = append(d.policies, asPolicy(one))
		return err
	case "OverridePolicy":
		one, err := decodePolicy(tried, func() *policyv1alpha1.OverridePolicy { return &policyv1alpha1.OverridePolicy{} })
		d.overrides = append(d.overrides, one)
		return err
	case "ClusterOverridePolicy":
		one, err := decodePolicy(tried, func() *policyv1alpha1.ClusterOverridePolicy { return &policyv1alpha1.ClusterOverridePolicy{} })
		d.wide = append(d.wide, one)
		return err
	default:
		return nil
	}
}

// decodePolicy decodes a policy.
func decodePolicy[T any](tried *trial.Trial, empty func() *T) (changedPolicy[*T], error) {
	one := changedPolicy[*T]{then: empty(), trial: tried}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tried.Then.Object, one.then); err != nil {
		return one, fmt.Errorf("decode %s %s: %w", tried.Then.GetKind(), tried.Then.GetName(), err)
	}
	if tried.Now == nil {
		return one, nil
	}
	one.now = empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tried.Now.Object, one.now); err != nil {
		return one, fmt.Errorf("decode %s %s: %w", tried.Now.GetKind(), tried.Now.GetName(), err)
	}
	return one, nil
}

// asPolicy makes sure that a policy that is not there is nil.
func asPolicy[T interface {
	policyv1alpha1.Policy
	comparable
}](c changedPolicy[T],
) changedPolicy[policyv1alpha1.Policy] {
	one := changedPolicy[policyv1alpha1.Policy]{then: c.then, trial: c.trial}
	var none T
	if c.now != none {
		one.now = c.now
	}
	return one
}

// notPropagating explains that the hub does not serve policies.
func notPropagating() error {
	return exit.Next(errors.New("the hub sends no objects to clusters by policies: it does not serve PropagationPolicies"),
		"Turn on feature gate Propagation of its ClusterManager.")
}
