// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/explain/trial"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// candidate is an object that may be concerned.
type candidate struct {
	// metadata is nil if it was not read.
	metadata *metav1.PartialObjectMetadata
	// sure says that it is concerned.
	sure  bool
	trial *trial.Trial
}

func (f *previewFacts) ensureCandidate(k objectKey) *candidate {
	if f.candidates[k] == nil {
		f.candidates[k] = &candidate{}
	}
	return f.candidates[k]
}

// declaredTemplates has the objects of the files be concerned in any case.
func (f *previewFacts) declaredTemplates() {
	for _, one := range f.templates {
		c := f.ensureCandidate(keyOf(one.Then))
		c.sure = true
		c.trial = one
	}
}

// readSelected reads the metadata of what the policies of the files select, as they
// are and as they would be, and of what they have claimed.
func (r Reader) readSelected(ctx context.Context, f *previewFacts) error {
	for _, c := range f.policies {
		for _, policy := range []policyv1alpha1.Policy{c.then, c.now} {
			if policy == nil {
				continue
			}
			for i, s := range policy.PropagationSpec().ResourceSelectors {
				if err := r.selectedBy(ctx, f, policy, s, func(text string) {
					if policy == c.then {
						f.notes[policy] = append(f.notes[policy], fmt.Sprintf("spec.resourceSelectors[%d]: %s", i, text))
					}
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// selectedBy reads what one selector selects.
func (r Reader) selectedBy(ctx context.Context, f *previewFacts, policy policyv1alpha1.Policy, s policyv1alpha1.ResourceSelector, note func(string)) error {
	kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
	if why := reserved.KindReservedReason(kind.GroupKind()); why != "" {
		note(fmt.Sprintf("%s is never sent to clusters: %s", s.Kind, why))
		return nil
	}
	mapping, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		note(fmt.Sprintf("the hub serves no kind %q of apiVersion %s, so it selects nothing before it does; \"kubectl api-resources\" lists the kinds", s.Kind, s.APIVersion))
		return nil
	}
	if err != nil {
		return err
	}
	spelled, err := r.Client.RESTMapper().KindFor(mapping.Resource) // kinds are found in lower case, too
	if err != nil {
		return err
	}
	if spelled.Kind != s.Kind {
		note(fmt.Sprintf("kind %q is spelled %s, so it selects nothing", s.Kind, spelled.Kind))
		return nil
	}
	namespace := cmp.Or(policy.GetNamespace(), s.Namespace)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		if policy.GetNamespace() != "" {
			note(fmt.Sprintf("%s is in no namespace: only a ClusterPropagationPolicy selects it", s.Kind))
			return nil
		}
		namespace = ""
	}
	options := []client.ListOption{client.InNamespace(namespace)}
	if s.Name != "" {
		options = append(options, client.MatchingFields{"metadata.name": s.Name})
	}
	found, err := hub.ListMetadata(ctx, r.Client, kind, options...)
	if err := f.recordForbidden(err, ofNamespace(mapping.Resource.GroupResource().String(), namespace), "which of them the policies select does not count here"); err != nil {
		return err
	}
	for i := range found {
		if one := &found[i]; claims.ReservedReason(kind.GroupKind(), one, f.world.Fleet) == "" && (policyMatches(policy, one) || claims.PolicyClaimsObject(policy, one)) {
			f.ensureCandidate(objectKey{kind, one.Namespace, one.Name}).metadata = one
		}
	}
	return nil
}

// policyMatches reports whether a policy selects an object. The policy may be one that the
// hub does not have.
func policyMatches(policy policyv1alpha1.Policy, object *metav1.PartialObjectMetadata) bool {
	selectors, _ := selector.CompileSelectors(policy.GetNamespace(), policy.PropagationSpec().ResourceSelectors, nil) // mistakes are told with the policy
	return selectors.PriorityOf(object) != selector.None
}

// readOverridden finds the objects with bindings that the overrides of the files are or
// would be about.
func (r Reader) readOverridden(ctx context.Context, f *previewFacts) error {
	for _, c := range f.overrides {
		bindings, err := r.allBindings(ctx, c.then.Namespace)
		if err := f.recordForbidden(err, ofNamespace("bindings", c.then.Namespace), "which objects overrides select is not known here"); err != nil {
			return err
		}
		specs := []*policyv1alpha1.OverrideSpec{&c.then.Spec}
		if c.now != nil {
			specs = append(specs, &c.now.Spec)
		}
		f.markReached(bindings, c.then.Namespace, specs)
	}
	if len(f.wide) == 0 {
		return nil
	}
	everywhere, err := hub.ListAllPages(ctx, r.Client, func(l *workv1alpha2.ResourceBindingList) []workv1alpha2.ResourceBinding { return l.Items })
	if err := f.recordForbidden(err, "bindings of all namespaces", "which objects overrides select is not known here"); err != nil {
		return err
	}
	bindings, err := r.allBindings(ctx, "")
	if err := f.recordForbidden(err, "ClusterResourceBindings", "which objects overrides select is not known here"); err != nil {
		return err
	}
	for i := range everywhere {
		bindings = append(bindings, &everywhere[i])
	}
	for _, c := range f.wide {
		specs := []*policyv1alpha1.OverrideSpec{&c.then.Spec}
		if c.now != nil {
			specs = append(specs, &c.now.Spec)
		}
		f.markReached(bindings, "", specs)
	}
	return nil
}

// markReached notes the objects of the bindings that one of the specs may be about:
// labels are not known here.
func (f *previewFacts) markReached(bindings []workv1alpha2.Binding, namespace string, specs []*policyv1alpha1.OverrideSpec) {
	for _, b := range bindings {
		of := b.BindingSpec().Resource
		if slices.ContainsFunc(specs, func(s *policyv1alpha1.OverrideSpec) bool { return mayOverride(s, namespace, of) }) {
			f.ensureCandidate(objectKey{schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), of.Namespace, of.Name}).sure = true
		}
	}
}

func mayOverride(spec *policyv1alpha1.OverrideSpec, namespace string, of workv1alpha2.ObjectReference) bool {
	if len(spec.ResourceSelectors) == 0 {
		return true
	}
	anyLabels := slices.Clone(spec.ResourceSelectors)
	for i := range anyLabels {
		anyLabels[i].LabelSelector = nil
	}
	selectors, _ := selector.CompileSelectors(namespace, anyLabels, nil) // forecasts tell of mistakes
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind))
	object.Namespace = of.Namespace
	object.Name = of.Name
	return selectors.PriorityOf(object) != selector.None
}

// readPolicies reads the policies that may claim the candidates.
func (r Reader) readPolicies(ctx context.Context, f *previewFacts) error {
	var namespaces []string
	for k := range f.candidates {
		if k.namespace != "" {
			namespaces = append(namespaces, k.namespace)
		}
	}
	slices.Sort(namespaces)
	if namespaces = slices.Compact(namespaces); len(namespaces) > fewMax {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		own, err := hub.ListAllPages(ctx, r.Client, func(l *policyv1alpha1.PropagationPolicyList) []policyv1alpha1.PropagationPolicy { return l.Items }, client.InNamespace(namespace))
		if err := f.recordForbidden(err, ofNamespace("PropagationPolicies", namespace), "they do not count here"); err != nil {
			return err
		}
		for i := range own {
			f.world.Present.Propagation = append(f.world.Present.Propagation, &own[i])
		}
	}
	wide, err := hub.ListAllPages(ctx, r.Client, func(l *policyv1alpha1.ClusterPropagationPolicyList) []policyv1alpha1.ClusterPropagationPolicy {
		return l.Items
	})
	if err := f.recordForbidden(err, "ClusterPropagationPolicies", "they do not count here"); err != nil {
		return err
	}
	for i := range wide {
		f.world.Present.Propagation = append(f.world.Present.Propagation, &wide[i])
	}
	f.world.Planned.Propagation = slices.DeleteFunc(slices.Clone(f.world.Present.Propagation), func(p policyv1alpha1.Policy) bool {
		return slices.ContainsFunc(f.policies, func(c changedPolicy[policyv1alpha1.Policy]) bool {
			return claims.PolicyDisplayName(c.then) == claims.PolicyDisplayName(p)
		})
	})
	for _, c := range f.policies {
		if !c.trial.Gone {
			f.world.Planned.Propagation = append(f.world.Planned.Propagation, c.then)
		}
	}
	return nil
}

// markConcerned finds the candidates that are concerned: of those that a policy
// selects, the ones that it has claimed or would claim.
func (r Reader) markConcerned(_ context.Context, f *previewFacts) error {
	for k, c := range f.candidates {
		for _, p := range f.policies {
			if c.metadata == nil {
				continue
			}
			if policyMatches(p.then, c.metadata) {
				f.selected[p.then]++
			}
			chosen := f.world.WouldClaim(c.metadata, false)
			taken := f.world.WouldClaim(c.metadata, true)
			if chosen == p.then {
				f.claimed[p.then]++
			}
			c.sure = c.sure || chosen == p.then || taken == p.then || p.now != nil && claims.PolicyClaimsObject(p.now, c.metadata)
		}
		if c.sure {
			f.subjects = append(f.subjects, &previewSubject{objectKey: k, trial: c.trial})
		}
	}
	slices.SortFunc(f.subjects, func(a, b *previewSubject) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.kind.Kind, b.kind.Kind), strings.Compare(a.name, b.name), strings.Compare(a.kind.Group, b.kind.Group))
	})
	return nil
}
