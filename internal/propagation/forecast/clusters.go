// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// What would become of a cluster.
const (
	Same    = "unchanged"
	Gained  = "gained"
	Lost    = "lost"
	Changed = "changed"
	// Stuck is a cluster whose copy cannot be made: it keeps what it has.
	Stuck = "stuck"
)

// Change is what would become of the cluster.
func (c Cluster) Change() string {
	switch {
	case c.Then == nil:
		return Lost
	case c.Then.Object == nil:
		return Stuck
	case c.Now == nil:
		return Gained
	case c.Now.Replicas == c.Then.Replicas && equality.Semantic.DeepEqual(c.Now.Object, c.Then.Object):
		return Same
	default:
		return Changed
	}
}

// clusters returns what would become of each cluster.
func (f *forecast) clusters() []Cluster {
	found := map[string]*Cluster{}
	of := func(name string) *Cluster {
		if found[name] == nil {
			found[name] = &Cluster{Name: name}
		}
		return found[name]
	}
	if f.Binding != nil && f.Now != nil {
		copies, problems := f.copies(f.Binding, f.Now, f.Present)
		for _, target := range deliver.Targets(f.Binding.BindingSpec()) {
			of(target.Name).Now = copied(target, copies, problems)
		}
	}
	if f.after != nil {
		copies, problems := f.copies(f.after, f.object(), f.Planned)
		for _, target := range deliver.Targets(f.after.BindingSpec()) {
			c := of(target.Name)
			if c.Then = copied(target, copies, problems); problems[target.Name] != nil {
				c.Reason = problems[target.Name].Error()
				f.problem("%s", c.Reason)
			}
		}
	}
	all := make([]Cluster, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := *found[name]
		if c.Change() == Lost {
			c.Reason = f.why(name)
		}
		all = append(all, c)
	}
	return all
}

// copies returns what clusters get of an object by a binding, or what keeps it
// from them.
func (f *forecast) copies(b workv1alpha2.Binding, object *unstructured.Unstructured, by Policies) (map[string]deliver.Copy, map[string]error) {
	policies, mistake := override.Select(object, by.ClusterOverrides, by.Overrides)
	return deliver.Copies(deliver.Source{Binding: b, Object: object, Fleet: f.Fleet, Chain: f.Chain, Overrides: policies, Mistake: mistake})
}

func copied(target workv1alpha2.TargetCluster, copies map[string]deliver.Copy, problems map[string]error) *Copy {
	if problems[target.Name] != nil {
		return &Copy{Replicas: target.Replicas}
	}
	one := copies[target.Name]
	return &Copy{Replicas: target.Replicas, Object: content(one.Object), Overrides: one.Applied.Policies()}
}

// content returns an object without what says who sends it.
func content(object *unstructured.Unstructured) *unstructured.Unstructured {
	labels := object.GetLabels()
	annotations := object.GetAnnotations()
	for _, key := range claims.LabelKeys() {
		delete(labels, key)
	}
	for _, key := range append(claims.AnnotationKeys(), corev1.LastAppliedConfigAnnotation) {
		delete(annotations, key)
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return object
}

// why says why a cluster would lose its copy.
func (f *forecast) why(cluster string) string {
	reason := ""
	if f.decision.is {
		if verdict, found := f.decision.Verdict(cluster); found && !verdict.Chosen {
			reason = verdict.Reason
		}
	}
	if preserve := f.after.BindingSpec().PreserveResourcesOnDeletion; preserve != nil && *preserve {
		if reason != "" {
			reason += "; "
		}
		reason += "what is there stays (preserveResourcesOnDeletion)"
	}
	return reason
}
