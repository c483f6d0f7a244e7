// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// AppliedOverrides says what was applied to an object for a cluster, as the annotations
// of a work record it. Both are empty if nothing was.
type AppliedOverrides struct {
	// ClusterOverrides is for AnnotationAppliedClusterOverrides.
	ClusterOverrides string
	// Overrides is for AnnotationAppliedOverrides.
	Overrides string
}

// appliedBytesMax is how long the rules are together that a work records: API servers take no more
// annotations of an object.
const appliedBytesMax = 256 << 10

// appliedRule is a rule that was applied, in the form of the annotations.
type appliedRule struct {
	PolicyName string                    `json:"policyName"`
	Overriders policyv1alpha1.Overriders `json:"overriders"`
}

// PolicyNames returns the policies that were applied, each once and as Policy.String
// has them, but without their namespace, which is that of the object.
func (a AppliedOverrides) PolicyNames() []string {
	var all []string
	for _, by := range []struct{ kind, annotation string }{{kindClusterPolicy, a.ClusterOverrides}, {kindPolicy, a.Overrides}} {
		var items []appliedRule
		if by.annotation == "" {
			continue
		}
		if err := json.Unmarshal([]byte(by.annotation), &items); err != nil {
			all = append(all, by.kind+" (its annotation cannot be read)")
		}
		for _, i := range items {
			if name := by.kind + " " + i.PolicyName; !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// RulesFor names the rules of the policies that are for a cluster. Clusters with the same
// rules get the same by ApplyToObject, so that it need not be made for each of them: what a rule
// makes can be large (docs/security.md).
func (p Policies) RulesFor(cluster *view.Cluster) string {
	var names []byte
	for i, policy := range p {
		for j, r := range policy.rules {
			if r.clusters.SelectsCluster(cluster) {
				names = fmt.Appendf(names, "%d.%d ", i, j)
			}
		}
	}
	return string(names)
}

// ExpandsDocuments reports whether the policies change documents within strings, for any cluster.
// Read, these take many times the memory of the object that they are in.
func (p Policies) ExpandsDocuments() bool {
	return slices.ContainsFunc(p, func(policy Policy) bool {
		return slices.ContainsFunc(policy.rules, func(r rule) bool { return len(r.overriders.FieldOverrider) > 0 })
	})
}

// MaxAddedBytes returns how many bytes the policies can add to an object and what a work records of them, if
// none of them ExpandsDocuments.
func (p Policies) MaxAddedBytes() int {
	sum := 0
	for _, policy := range p {
		sum += policy.bytes
	}
	return min(sum, appliedBytesMax)
}

// ApplyToObject returns what a cluster gets of an object, which itself stays as it is,
// and what of the policies made it so. An error is about this object and this
// cluster, and names the policy and the field; nothing is to be sent then.
func (p Policies) ApplyToObject(object *unstructured.Unstructured, cluster *view.Cluster) (*unstructured.Unstructured, AppliedOverrides, error) {
	return p.applyWithin(object, cluster, &effortBudget{left: effortMax})
}

// applyWithin is ApplyToObject with another limit on what it may cost.
func (p Policies) applyWithin(object *unstructured.Unstructured, cluster *view.Cluster, left *effortBudget) (*unstructured.Unstructured, AppliedOverrides, error) {
	changed := object.DeepCopy()
	applied := overrideRecord{}
	for _, policy := range p {
		for _, r := range policy.rules {
			if err := r.mistakes.ToAggregate(); err != nil {
				return nil, AppliedOverrides{}, fmt.Errorf("%s: %w", policy, err)
			}
			if !r.clusters.SelectsCluster(cluster) {
				continue
			}
			if err := applyOverriders(changed, r.overriders, r.path, left); err != nil {
				return nil, AppliedOverrides{}, fmt.Errorf("%s: %w", policy, err)
			}
			if err := applied.addRule(policy, r); err != nil {
				return nil, AppliedOverrides{}, fmt.Errorf("%s: %w", policy, err)
			}
		}
	}
	said, err := applied.appliedAnnotations()
	return changed, said, err
}

// overrideRecord are the rules that were applied, as JSON by the kind of their policies.
type overrideRecord struct {
	items map[string][]json.RawMessage
	bytes int
}

// addRule adds a rule, unless all of them are more than a work records. They are many times in memory
// before anybody is asked to store them.
func (r *overrideRecord) addRule(policy Policy, applied rule) error {
	text, err := json.Marshal(appliedRule{PolicyName: policy.Name, Overriders: applied.overriders})
	if err != nil {
		return fmt.Errorf("record the overrides: %w", err)
	}
	if r.bytes += len(text); r.bytes > appliedBytesMax {
		return fmt.Errorf("all overriders for this object have more than the %d bytes that its works can record: use fewer or shorter ones", appliedBytesMax)
	}
	if r.items == nil {
		r.items = map[string][]json.RawMessage{}
	}
	r.items[policy.Kind] = append(r.items[policy.Kind], text)
	return nil
}

// appliedAnnotations returns the record in the form of the annotations.
func (r *overrideRecord) appliedAnnotations() (AppliedOverrides, error) {
	var said AppliedOverrides
	for kind, into := range map[string]*string{kindClusterPolicy: &said.ClusterOverrides, kindPolicy: &said.Overrides} {
		if len(r.items[kind]) == 0 {
			continue
		}
		text, err := json.Marshal(r.items[kind])
		if err != nil {
			return AppliedOverrides{}, fmt.Errorf("record the overrides: %w", err)
		}
		*into = string(text)
	}
	return said, nil
}

// applyOverriders makes the changes of one rule, in the order that the API promises.
func applyOverriders(object *unstructured.Unstructured, o policyv1alpha1.Overriders, path *field.Path, left *effortBudget) error {
	for _, step := range []func() error{
		func() error {
			return applyEach(o.ImageOverrider, path.Child("imageOverrider"), func(i policyv1alpha1.ImageOverrider) error { return overrideImage(object, i, left) })
		},
		func() error {
			return applyEach(o.CommandOverrider, path.Child("commandOverrider"), func(c policyv1alpha1.CommandArgsOverrider) error { return overrideList(object, "command", c, left) })
		},
		func() error {
			return applyEach(o.ArgsOverrider, path.Child("argsOverrider"), func(c policyv1alpha1.CommandArgsOverrider) error { return overrideList(object, "args", c, left) })
		},
		func() error {
			return applyEach(o.LabelsOverrider, path.Child("labelsOverrider"), func(l policyv1alpha1.LabelAnnotationOverrider) error { return overrideMap(object, "labels", l, left) })
		},
		func() error {
			return applyEach(o.AnnotationsOverrider, path.Child("annotationsOverrider"), func(a policyv1alpha1.LabelAnnotationOverrider) error {
				return overrideMap(object, "annotations", a, left)
			})
		},
		func() error {
			return applyEach(o.FieldOverrider, path.Child("fieldOverrider"), func(f policyv1alpha1.FieldOverrider) error { return overrideField(object, f, left) })
		},
		func() error { return overridePlaintext(object, o.Plaintext, path.Child("plaintext"), left) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// applyEach makes changes one after the other, until one fails.
func applyEach[T any](overriders []T, path *field.Path, change func(T) error) error {
	for i, o := range overriders {
		if err := change(o); err != nil {
			return fmt.Errorf("%s: %w", path.Index(i), err)
		}
	}
	return nil
}
