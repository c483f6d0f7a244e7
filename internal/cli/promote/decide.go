// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// dependenciesMax is how many objects come along at most.
const dependenciesMax = 200

// equalContent reports whether two objects are the same but for what their API servers and
// controllers wrote.
func equalContent(chain interpret.Chain, a, b *unstructured.Unstructured) bool {
	content := func(o *unstructured.Unstructured) map[string]any {
		pruned := pruneTemplate(chain, o)
		unstructured.RemoveNestedField(pruned.Object, "metadata")
		return pruned.Object
	}
	return equality.Semantic.DeepEqual(content(a), content(b))
}

// planPolicy makes the policy a part of the plan, and finds out whether it would get
// the object.
func (p *promotionRun) planPolicy(ctx context.Context) error {
	if !p.policy {
		return nil
	}
	policy, kind := p.newPolicy()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		return fmt.Errorf("encode the policy: %w", err)
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	p.plan.policy = &unstructured.Unstructured{Object: content}
	p.plan.policy.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind(kind))
	p.plan.objects = append(p.plan.objects, p.plan.policy)
	found := emptyObject(p.plan.policy.GroupVersionKind())
	err = p.reads.Get(ctx, client.ObjectKeyFromObject(p.plan.policy), found)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case found.GetDeletionTimestamp() != nil || !isSamePolicy(found, p.plan.policy):
		return exit.Next(fmt.Errorf("%s %s is already on the hub, and is for something else", kind, parenthesizedName(found)), "Choose another name with --policy-name.")
	default:
		p.plan.there[p.plan.policy] = true
	}
	return p.checkContenders(ctx, policy)
}

// isSamePolicy reports whether a policy of the hub is the wanted one, with what the hub has
// filled in.
func isSamePolicy(found, wanted *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "resourceSelectors"}, {"spec", "placement", "clusterAffinity"}, {"spec", "conflictResolution"}, {"spec", "propagateDeps"}} {
		is, _, _ := unstructured.NestedFieldNoCopy(found.Object, path...)
		want, _, _ := unstructured.NestedFieldNoCopy(wanted.Object, path...)
		if !equality.Semantic.DeepEqual(is, want) {
			return false
		}
	}
	return true
}

// newPolicy returns the policy that sends the object to the cluster.
func (p *promotionRun) newPolicy() (policy policyv1alpha1.Policy, kind string) {
	usual := claims.BindingNames(p.kind.GroupVersionKind, p.name)[0]
	version, objectKind := p.kind.GroupVersionKind.ToAPIVersionAndKind()
	spec := policyv1alpha1.PropagationSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: version, Kind: objectKind, Namespace: p.namespace, Name: p.name}},
		Placement:         policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{p.cluster}}},
		// The objects are there, and are what the hub has.
		ConflictResolution: policyv1alpha1.ConflictOverwrite,
		PropagateDeps:      p.dependencies,
	}
	about := metav1.ObjectMeta{Namespace: p.namespace, Name: cmp.Or(p.policyName, usual)}
	if p.namespace == "" {
		return &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: about, Spec: spec}, "ClusterPropagationPolicy"
	}
	return &policyv1alpha1.PropagationPolicy{ObjectMeta: about, Spec: spec}, "PropagationPolicy"
}

// checkContenders finds out whether another policy would get the object.
func (p *promotionRun) checkContenders(ctx context.Context, mine policyv1alpha1.Policy) error {
	others, err := p.otherPolicies(ctx)
	if err != nil {
		return err
	}
	var selections claims.Selections
	if winner := selections.ChoosePolicy(p.plan.template, p.plan.template, append(others, mine), false); winner != nil && winner != mine {
		return exit.Next(fmt.Errorf("%s would claim %s", claims.PolicyDisplayName(winner), p.promotedObjectName()),
			"It would go where that policy says. Take it out of that policy, or add cluster %s there, with conflictResolution: Overwrite, and use --auto-create-policy=false.", p.cluster)
	}
	return nil
}

// otherPolicies returns the policies of the hub that could claim what is promoted, but for that of
// the plan.
func (p *promotionRun) otherPolicies(ctx context.Context) ([]policyv1alpha1.Policy, error) {
	var all []policyv1alpha1.Policy
	isPlanned := func(policy client.Object) bool {
		return p.plan.policy != nil && client.ObjectKeyFromObject(p.plan.policy) == client.ObjectKeyFromObject(policy)
	}
	if p.namespace != "" {
		own, err := hub.ListAllPages(ctx, p.reads, func(l *policyv1alpha1.PropagationPolicyList) []policyv1alpha1.PropagationPolicy { return l.Items }, client.InNamespace(p.namespace))
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		for i := range own {
			if !isPlanned(&own[i]) {
				all = append(all, &own[i])
			}
		}
	}
	wide, err := hub.ListAllPages(ctx, p.reads, func(l *policyv1alpha1.ClusterPropagationPolicyList) []policyv1alpha1.ClusterPropagationPolicy {
		return l.Items
	})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for i := range wide {
		if !isPlanned(&wide[i]) {
			all = append(all, &wide[i])
		}
	}
	return all, nil
}

// checkDependencyClaims finds out whether a policy would get what the object refers to once it is
// on the hub: its labels are what the cluster says.
func (p *promotionRun) checkDependencyClaims(one *unstructured.Unstructured) error {
	var selections claims.Selections
	if winner := selections.ChoosePolicy(one, one, p.others, false); winner != nil {
		return exit.Next(fmt.Errorf("%s would claim %s %s, which %s refers to", claims.PolicyDisplayName(winner), one.GetKind(), parenthesizedName(one), p.promotedObjectName()),
			"It would go where that policy says. Take it out of that policy, or promote without --dependencies.")
	}
	return nil
}

// planDependencies makes what the object refers to a part of the plan, and what that refers
// to in turn.
func (p *promotionRun) planDependencies(ctx context.Context) error {
	var err error
	if p.others, err = p.otherPolicies(ctx); err != nil {
		return err
	}
	known := map[string]bool{}
	var along []*unstructured.Unstructured
	for queue := []*unstructured.Unstructured{p.plan.template}; len(queue) > 0; queue = queue[1:] {
		dependencies, err := p.chain.GetDependencies(queue[0])
		if err != nil {
			return exit.Next(fmt.Errorf("what %s %s refers to is not known: %w", queue[0].GetKind(), parenthesizedName(queue[0]), err),
				"\"capstan interpret NAME --edit\" fixes the script on the hub. Without --dependencies, the object is promoted alone.")
		}
		for _, needed := range dependencies {
			if needed.Namespace != p.namespace {
				continue // nor are dependencies sent along from another namespace
			}
			found, err := p.readDependency(ctx, needed)
			if err != nil {
				return err
			}
			for _, one := range found {
				if err := p.checkAnswer(one, schema.FromAPIVersionAndKind(needed.APIVersion, needed.Kind), needed.Namespace, needed.Name); err != nil {
					return err
				}
				key := one.GroupVersionKind().String() + " " + parenthesizedName(one)
				if known[key] || staysInCluster(one) {
					continue
				}
				if known[key] = true; len(known) > dependenciesMax {
					return fmt.Errorf("%s refers to more than %d objects", p.promotedObjectName(), dependenciesMax)
				}
				if err := p.effects.refuseEffect(one.GroupVersionKind(), one.GetKind()+" "+parenthesizedName(one)); err != nil {
					return err
				}
				here := pruneTemplate(p.chain, one)
				if err := p.checkDependencyOnHub(ctx, here); err != nil {
					return err
				}
				along, queue = append(along, here), append(queue, here)
			}
		}
	}
	// Before the object, so that nobody sees it without them.
	at := len(p.plan.objects) - 1
	for p.plan.objects[at] != p.plan.template {
		at--
	}
	p.plan.objects = append(p.plan.objects[:at:at], append(along, p.plan.objects[at:]...)...)
	return nil
}

// readDependency reads what an object refers to from the cluster. What is not there is none.
func (p *promotionRun) readDependency(ctx context.Context, needed interpret.Dependency) ([]*unstructured.Unstructured, error) {
	kind := schema.FromAPIVersionAndKind(needed.APIVersion, needed.Kind)
	if needed.Name != "" {
		one := emptyObject(kind)
		err := p.there.Client.Get(ctx, client.ObjectKey{Namespace: needed.Namespace, Name: needed.Name}, one)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, p.there.ExplainError(fmt.Errorf("read %s %s/%s from cluster %s: %w", needed.Kind, needed.Namespace, needed.Name, p.cluster, err))
		}
		return []*unstructured.Unstructured{one}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(needed.Selector)
	if err != nil {
		return nil, fmt.Errorf("read what %s refers to: %w", p.promotedObjectName(), err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := p.there.Client.List(ctx, list, client.InNamespace(needed.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, p.there.ExplainError(fmt.Errorf("list %s of namespace %s in cluster %s: %w", needed.Kind, needed.Namespace, p.cluster, err))
	}
	found := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		if selector.Matches(labels.Set(list.Items[i].GetLabels())) { // which the cluster may not have looked at
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

// staysInCluster reports whether each cluster has its own of what an object refers to.
func staysInCluster(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "ServiceAccount":
		return o.GetName() == "default"
	case "ConfigMap":
		return o.GetName() == "kube-root-ca.crt"
	case "Secret":
		return secretType(o) != ""
	default:
		return metav1.GetControllerOf(o) != nil // it comes with what makes it
	}
}

// checkDependencyOnHub finds out whether what the object refers to is on the hub already.
func (p *promotionRun) checkDependencyOnHub(ctx context.Context, one *unstructured.Unstructured) error {
	found := emptyObject(one.GroupVersionKind())
	err := p.reads.Get(ctx, client.ObjectKeyFromObject(one), found)
	switch {
	case apierrors.IsNotFound(err):
		return p.checkDependencyClaims(one)
	case err != nil:
		return err
	case !equalContent(p.chain, one, found):
		return exit.Next(fmt.Errorf("%s %s, which %s refers to, is already on the hub, and differs from the one in cluster %s", one.GetKind(), parenthesizedName(one), p.promotedObjectName(), p.cluster),
			"Promoting it would change the one in the cluster: make them equal, or promote without --dependencies.")
	}
	p.plan.there[one] = true
	return nil
}
