// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// policyNeed is something that a policy names, and waits for if it does not exist.
type policyNeed struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

func (n policyNeed) String() string { return qualifiedName(n.kind.Kind, n.namespace, n.name) }

// policyNeeds are what a policy waits for: nothing if it is not applied, whatever is there.
func policyNeeds(policy policyv1alpha1.Policy) []policyNeed {
	var all []policyNeed
	spec := policy.PropagationSpec()
	if len(claims.CheckAwaitedNames(spec, nil)) > 0 {
		return nil
	}
	for _, name := range spec.DependentOverrides {
		all = append(all, overrideNeed(policy, name))
	}
	if asked := spec.SchedulePriority; asked != nil {
		all = append(all, classNeed(asked.PriorityClassName))
	}
	return all
}

func overrideNeed(policy policyv1alpha1.Policy, name string) policyNeed {
	kind := policyv1alpha1.GroupVersion.WithKind("ClusterOverridePolicy")
	if policy.GetNamespace() != "" {
		kind.Kind = "OverridePolicy"
	}
	return policyNeed{kind, policy.GetNamespace(), name}
}

func classNeed(name string) policyNeed {
	return policyNeed{kind: schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}, name: name}
}

// readAbsentNeeds finds out what the policies that select the object wait for.
func (r Reader) readAbsentNeeds(ctx context.Context, f *ObjectFacts) error {
	for _, c := range f.policyContenders() {
		if c.match.Exact == selector.None {
			continue
		}
		for _, n := range policyNeeds(c.match.Policy) {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(n.kind)
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: n.namespace, Name: n.name}, object)
			if apierrors.IsNotFound(err) {
				f.Absent = append(f.Absent, n.String())
				continue
			}
			if err := f.recordUnread(err, n.String(), "it is assumed to exist"); err != nil {
				return err
			}
		}
	}
	return nil
}

// readServedScope finds out whether the hub sends objects of the kind, as it does itself: by
// its nodes, and by the labels of the namespace.
func (r Reader) readServedScope(ctx context.Context, f *ObjectFacts) error {
	kind := f.Template.GroupVersionKind().GroupKind()
	if !(scope.Hub{Runs: true}).OwnsKind(kind) {
		return nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	err := r.Client.List(ctx, nodes, client.Limit(1))
	if err != nil || len(nodes.Items) == 0 {
		return f.recordUnread(err, "Nodes", "the hub is assumed to run no workloads itself")
	}
	labels := f.Template.GetLabels()
	if f.Ref.Namespace != "" {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		if err := r.Client.Get(ctx, client.ObjectKey{Name: f.Ref.Namespace}, namespace); err != nil {
			return f.recordUnread(client.IgnoreNotFound(err), "Namespace "+f.Ref.Namespace, "it is assumed to be one that objects are sent from")
		}
		labels = namespace.Labels
	}
	f.Unserved = !scope.Hub{Runs: true}.ServesKind(kind, labels)
	return nil
}

// waitNotes says what keeps the policy that claims the object, or would, from being
// applied as it is.
func (f *ObjectFacts) waitNotes() []string {
	if f.Template == nil {
		return nil
	}
	switch _, reason := decision.DecideObject(f.Template, f.decisionFacts()); reason.Code {
	case decision.Applied, decision.Unclaimed:
		return nil
	case decision.ReplicasUnknown, decision.ComponentsUnknown:
		return nil // failedOperations says more
	default:
		return []string{reason.ToSentence()}
	}
}

// decisionFacts are what the hub decides by. Feature gates are taken to be on if bindings show it.
func (f *ObjectFacts) decisionFacts() decision.ObjectFacts {
	facts := decision.ObjectFacts{Fleet: f.viewFleet(), Policy: f.decidingPolicy(), Unserved: f.Unserved}
	if f.Known != nil {
		facts.Chain = f.Known.Chain()
	}
	if f.Binding != nil {
		facts.Binding = f.Binding.asBinding()
	}
	if facts.Policy == nil {
		return facts
	}
	spec := facts.Policy.PropagationSpec()
	absent := func(n policyNeed) bool { return slices.Contains(f.Absent, n.String()) }
	if i := slices.IndexFunc(spec.DependentOverrides, func(name string) bool { return absent(overrideNeed(facts.Policy, name)) }); i >= 0 {
		facts.AbsentOverride = spec.DependentOverrides[i]
	}
	facts.AbsentClass = spec.SchedulePriority != nil && absent(classNeed(spec.SchedulePriority.PriorityClassName))
	return facts
}

// decidingPolicy returns the policy that claims the object or, if it does not select it or none
// has claimed it, the one that would; nil if none does.
func (f *ObjectFacts) decidingPolicy() policyv1alpha1.Policy {
	var bound metav1.Object
	if f.Binding != nil {
		bound = f.Binding
	}
	return new(claims.Selections).ChoosePolicy(f.Template, claims.ClaimHolder(f.Template, bound), f.allPolicies(), false)
}

// asBinding returns the binding as the hub has it.
func (b *BindingObject) asBinding() workv1alpha2.Binding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: b.ObjectMeta, Spec: b.Spec, Status: b.Status}
}

// isReserved reports whether the object is never sent to clusters, and why.
func (f *ObjectFacts) isReserved() (decision.Reason, bool) {
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: f.Ref.APIVersion, Kind: f.Ref.Kind}}
	object.Namespace = f.Ref.Namespace
	object.Name = f.Ref.Name
	if f.Template != nil {
		object.Labels = f.Template.GetLabels()
		object.Annotations = f.Template.GetAnnotations()
	}
	reason := decision.DecideClaim(object, decision.ObjectFacts{Fleet: f.viewFleet()})
	return reason, reason.Code == decision.Reserved
}

// viewFleet returns the clusters as the hub sees them.
func (f *ObjectFacts) viewFleet() view.Fleet {
	clusters := make([]view.Cluster, 0, len(f.Clusters))
	for i := range f.Clusters {
		clusters = append(clusters, view.FromClusterWithRoom(&f.Clusters[i], f.Connections[f.Clusters[i].Name]))
	}
	return view.NewFleet(clusters...)
}
