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

// ChangeKind is what would become of the cluster.
func (c ClusterForecast) ChangeKind() string {
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

// forecastClusters returns what would become of each cluster.
func (f *forecast) forecastClusters() []ClusterForecast {
	found := map[string]*ClusterForecast{}
	of := func(name string) *ClusterForecast {
		if found[name] == nil {
			found[name] = &ClusterForecast{Name: name}
		}
		return found[name]
	}
	if f.Binding != nil && f.Now != nil {
		copies, problems := f.renderCopies(f.Binding, f.Now, f.Present)
		for _, target := range deliver.BindingTargets(f.Binding.BindingSpec()) {
			of(target.Name).Now = copyForTarget(target, copies, problems)
		}
	}
	if f.after != nil {
		copies, problems := f.renderCopies(f.after, f.Then, f.Planned)
		for _, target := range deliver.BindingTargets(f.after.BindingSpec()) {
			c := of(target.Name)
			if c.Then = copyForTarget(target, copies, problems); problems[target.Name] != nil {
				c.Reason = problems[target.Name].Error()
				f.addProblem("%s", c.Reason)
			}
		}
	}
	all := make([]ClusterForecast, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := *found[name]
		if c.ChangeKind() == Lost {
			c.Reason = f.lossReason(name)
		}
		all = append(all, c)
	}
	return all
}

// renderCopies returns what clusters get of an object by a binding, or what keeps it
// from them.
func (f *forecast) renderCopies(b workv1alpha2.Binding, object *unstructured.Unstructured, by PolicySet) (map[string]deliver.ClusterCopy, map[string]error) {
	policies, mistake := override.SelectPolicies(object, by.ClusterOverrides, by.Overrides)
	return deliver.RenderCopies(deliver.WorkSource{Binding: b, Object: object, Fleet: f.Fleet, Chain: f.Chain, Overrides: policies, Mistake: mistake})
}

func copyForTarget(target workv1alpha2.TargetCluster, copies map[string]deliver.ClusterCopy, problems map[string]error) *ObjectCopy {
	if problems[target.Name] != nil {
		return &ObjectCopy{Replicas: target.Replicas}
	}
	one := copies[target.Name]
	return &ObjectCopy{Replicas: target.Replicas, Object: stripClaimMarks(one.Object), Overrides: one.Applied.PolicyNames()}
}

// stripClaimMarks returns an object without what says who sends it.
func stripClaimMarks(object *unstructured.Unstructured) *unstructured.Unstructured {
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

// lossReason says why a cluster would lose its copy.
func (f *forecast) lossReason(cluster string) string {
	reason := ""
	if f.decided.is {
		if verdict, found := f.decided.VerdictForCluster(cluster); found && !verdict.Chosen {
			reason = verdict.Reason
		}
	}
	leaving := f.after
	if leaving == nil { // it is deleted
		leaving = f.Binding
	}
	if deliver.PreservesOnDeletion(leaving) {
		if reason != "" {
			reason += "; "
		}
		reason += "what is there stays (preserveResourcesOnDeletion)"
	}
	return reason
}
