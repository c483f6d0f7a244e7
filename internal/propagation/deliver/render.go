// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// variantsMax is how many variants of an object are kept to be copied at most.
const variantsMax = 64

// Source is what the works of a binding are made of.
type Source struct {
	Binding   workv1alpha2.Binding
	Object    *unstructured.Unstructured
	Fleet     view.Fleet
	Chain     interpret.Chain
	Overrides override.Policies
	// ClusterWide says that a ClusterPropagationPolicy sends the object. Works of a binding with a
	// namespace have the mark of one only then: whoever writes bindings there can write the mark, and
	// would have the works count as an administrator's.
	ClusterWide bool
	// Mistake is what is wrong with a policy that may override the object. Nothing is
	// sent before it is mended: it could be what a cluster must not get.
	Mistake error
	// Conflict is what becomes of an object of the name that is in the cluster already;
	// "" is what the binding says.
	Conflict policyv1alpha1.ConflictResolution
	// Only are the clusters to make copies for; nil is all.
	Only map[string]bool
}

// Copy is the object as a cluster gets it, but for what tells there where it is
// from.
type Copy struct {
	Object *unstructured.Unstructured
	// Replicas are those of the cluster; 0 for what has none.
	Replicas int32
	// Applied says what of the policies that override made it so.
	Applied override.Applied
}

// Copies returns what each cluster gets. For a cluster whose replicas cannot be set,
// or whose overrides cannot be applied, it returns the problem instead, which is the
// user's.
func Copies(s Source) (copies map[string]Copy, problems map[string]error) {
	copies = map[string]Copy{}
	problems = map[string]error{}
	for cluster, one := range s.outcomes() {
		if one.problem != nil {
			problems[cluster] = one.problem
			continue
		}
		copies[cluster] = one.Copy
	}
	return copies, problems
}

// outcome is what a cluster gets, or why it gets nothing.
type outcome struct {
	Copy

	problem error
}

// outcomes makes what each cluster gets, in the order of names, when it is asked for: the
// object may be large, and its clusters many.
func (s Source) outcomes() iter.Seq2[string, outcome] {
	return func(yield func(string, outcome) bool) {
		pruned := s.Chain.Prune(s.Object)
		targets := Targets(s.Binding.BindingSpec())
		completions, divided := completions(s.Binding, s.Chain, pruned, targets)
		made := map[variant]result{}
		most := s.variants()
		for _, target := range targets {
			if s.Only != nil && !s.Only[target.Name] {
				continue
			}
			var one outcome
			cluster, problem := s.cluster(target.Name)
			if problem != nil {
				one.problem = problem
			} else {
				v := s.variant(target, &cluster)
				if divided && !v.whole {
					v.divided = true
					v.completions = completions[target.Name]
				}
				if _, known := made[v]; !known && len(made) >= most {
					clear(made)
				}
				one = s.outcome(pruned, v, &cluster, made)
				one.Replicas = target.Replicas
			}
			if !yield(target.Name, one) {
				return
			}
		}
	}
}

// outcome returns what the cluster gets by its variant, which is made unless it was made for
// one of the last clusters.
func (s Source) outcome(pruned *unstructured.Unstructured, v variant, cluster *view.Cluster, made map[variant]result) outcome {
	if _, done := made[v]; !done {
		made[v] = s.make(pruned, v, cluster)
	}
	if made[v].problem != nil {
		return outcome{problem: made[v].problem}
	}
	return outcome{Copy: Copy{Object: made[v].object.DeepCopy(), Applied: made[v].applied}}
}

// cluster returns a cluster that something is sent to, or why nothing is.
func (s Source) cluster(name string) (view.Cluster, error) {
	cluster, _ := s.Fleet.Cluster(name)
	if s.Mistake != nil {
		return cluster, s.Mistake
	}
	return cluster, Barred(s.Fleet, name)
}

// variant is what distinguishes what clusters get: it is made once for all that have the
// same.
type variant struct {
	// whole says that all of the object is sent: it has no replicas, or its parts are
	// placed together.
	whole    bool
	replicas int32
	// divided says that completions are divided, and completions how many these are.
	divided     bool
	completions int32
	// rules are those of the policies that override.
	rules string
}

// result is a variant of the object, or the problem with it.
type result struct {
	object  *unstructured.Unstructured
	applied override.Applied
	problem error
}

func (s Source) variant(target workv1alpha2.TargetCluster, cluster *view.Cluster) variant {
	spec := s.Binding.BindingSpec()
	rules := s.Overrides.RulesFor(cluster)
	if len(target.Components) > 0 || spec.ReplicaRequirements == nil && spec.Replicas == 0 {
		return variant{whole: true, rules: rules}
	}
	return variant{replicas: target.Replicas, rules: rules}
}

// make makes a variant; cluster is one of those that it is for.
func (s Source) make(pruned *unstructured.Unstructured, v variant, cluster *view.Cluster) result {
	share, problem := s.share(pruned, v)
	if problem != nil {
		return result{problem: problem}
	}
	object, applied, problem := overridden(share, s.Overrides, cluster)
	if problem != nil {
		return result{problem: problem}
	}
	s.settle(object)
	return result{object: object, applied: applied}
}

// targetsMax is to how many clusters a binding sends its object at most for those that refer to
// it, as many as may be chosen for one: whoever writes bindings can name any number.
const targetsMax = 10_000

// Targets returns the clusters that a binding sends its object to: those that were
// chosen, and those of the objects that refer to it, as long as these are not too many. They
// are in the order of names.
func Targets(spec *workv1alpha2.ResourceBindingSpec) []workv1alpha2.TargetCluster {
	by := map[string]workv1alpha2.TargetCluster{}
	for _, target := range spec.Clusters {
		by[target.Name] = target
	}
	most := len(by) + targetsMax
	for _, snapshot := range spec.RequiredBy {
		for _, target := range snapshot.Clusters {
			if len(by) >= most {
				break
			}
			if _, is := by[target.Name]; !is {
				by[target.Name] = workv1alpha2.TargetCluster{Name: target.Name, Replicas: spec.Replicas}
			}
		}
	}
	return slices.SortedFunc(maps.Values(by), func(a, b workv1alpha2.TargetCluster) int { return strings.Compare(a.Name, b.Name) })
}

// errUndivided is the problem of clusters that were chosen before it was known that
// the object has replicas. To send it with none would stop what runs there.
var errUndivided = errors.New("how many replicas the cluster gets is not decided yet: it keeps what it has")

// errIndexed is the problem of clusters that would share an object whose pods have
// indexes: some indexes would run twice, and others never.
var errIndexed = errors.New("a Job with completionMode Indexed cannot be divided: each cluster would run the indexes from 0 on. " +
	"Have one cluster run all of them (clusterAffinity with the name of one, or replicaDivisionPreference Aggregated and spreadConstraints with maxGroups 1), " +
	"or each cluster (replicaSchedulingType Duplicated)")

// undivided tells whether an object has replicas of which no cluster that was chosen
// has any.
func undivided(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Replicas > 0 && len(spec.Clusters) > 0 &&
		!slices.ContainsFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return t.Replicas > 0 })
}

// share returns the object with the replicas and completions of a variant. An object
// whose parts are placed together is there as a whole.
func (s Source) share(pruned *unstructured.Unstructured, v variant) (*unstructured.Unstructured, error) {
	if v.whole {
		return pruned, nil
	}
	if v.replicas == 0 && undivided(s.Binding.BindingSpec()) {
		return nil, errUndivided
	}
	object, err := s.Chain.Revise(pruned, v.replicas)
	if err != nil {
		return nil, err
	}
	if v.divided {
		if all, _ := s.Chain.Completions(pruned); v.completions != all && s.Chain.Indexed(pruned) {
			return nil, errIndexed
		}
		object = s.Chain.ReviseCompletions(object, v.completions)
	}
	return object, nil
}

// frame returns the work without its manifest.
func (s Source) frame(cluster string, applied override.Applied, suspends suspension) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: NameOfWorks(s.Binding),
		Labels: map[string]string{
			karmadaworkv1alpha1.LabelPermanentID: workID(ID(s.Binding), cluster),
			idLabel(s.Binding):                   ID(s.Binding),
		},
		Annotations: map[string]string{},
		Finalizers:  []string{workv1.FinalizerManifestWorkCleanup},
	}}
	for _, key := range claims.LabelKeys() {
		forged := key == policyv1alpha1.LabelClusterPropagationPolicyID && s.Binding.GetNamespace() != "" && !s.ClusterWide
		if id := s.Binding.GetLabels()[key]; id != "" && !forged {
			work.Labels[key] = id
		}
	}
	if s.Binding.GetNamespace() == "" {
		work.Annotations[workv1alpha2.AnnotationClusterResourceBindingName] = s.Binding.GetName()
	} else {
		work.Annotations[workv1alpha2.AnnotationResourceBindingNamespace] = s.Binding.GetNamespace()
		work.Annotations[workv1alpha2.AnnotationResourceBindingName] = s.Binding.GetName()
	}
	record(work, applied)
	if suspended, said := suspends(cluster); said {
		work.Annotations[workv1.AnnotationSuspendDispatching], work.Annotations[annotationSuspends] = strconv.FormatBool(suspended), "true"
	}
	if Preserves(s.Binding) {
		work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	}
	return work
}

// Preserves tells whether what a binding has sent stays in the clusters when it is
// sent no more.
func Preserves(b workv1alpha2.Binding) bool {
	preserve := b.BindingSpec().PreserveResourcesOnDeletion
	return preserve != nil && *preserve
}

// suspension tells whether sending to a cluster is suspended, and whether the binding
// says anything about that.
type suspension func(cluster string) (suspended, said bool)

func suspensionOf(s *workv1alpha2.Suspension) suspension {
	switch {
	case s == nil:
	case s.Dispatching != nil:
		return func(string) (suspended, said bool) { return *s.Dispatching, true }
	case s.DispatchingOnClusters != nil:
		names := sets.New(s.DispatchingOnClusters.ClusterNames...)
		return func(cluster string) (suspended, said bool) { return names.Has(cluster), true }
	}
	return func(string) (suspended, said bool) { return false, false }
}

// record notes on a work what was overridden.
func record(work *workv1.ManifestWork, applied override.Applied) {
	if applied.Overrides != "" {
		work.Annotations[policyv1alpha1.AnnotationAppliedOverrides] = applied.Overrides
	}
	if applied.ClusterOverrides != "" {
		work.Annotations[policyv1alpha1.AnnotationAppliedClusterOverrides] = applied.ClusterOverrides
	}
}

// settle says on the object what becomes of one of the name that is in the cluster
// already, unless the template says it.
func (s Source) settle(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	if _, said := annotations[policyv1alpha1.AnnotationConflictResolution]; said {
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[policyv1alpha1.AnnotationConflictResolution] = policyv1alpha1.ConflictResolutionAbort
	if cmp.Or(s.Conflict, s.Binding.BindingSpec().ConflictResolution) == policyv1alpha1.ConflictOverwrite {
		annotations[policyv1alpha1.AnnotationConflictResolution] = policyv1alpha1.ConflictResolutionOverwrite
	}
	object.SetAnnotations(annotations)
}

// stamp gives the object what tells in the cluster where it is from.
func stamp(object *unstructured.Unstructured, work *workv1.ManifestWork, template metav1.Object) {
	labels := object.GetLabels()
	annotations := object.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	labels[workv1alpha2.LabelManaged] = "true"
	labels[workv1alpha2.LabelWorkID] = work.Labels[karmadaworkv1alpha1.LabelPermanentID]
	for _, key := range []string{workv1alpha2.LabelResourceBindingID, workv1alpha2.LabelClusterResourceBindingID} {
		adopt(labels, work.Labels, key)
	}
	for _, key := range []string{
		workv1alpha2.AnnotationResourceBindingNamespace, workv1alpha2.AnnotationResourceBindingName, workv1alpha2.AnnotationClusterResourceBindingName,
	} {
		adopt(annotations, work.Annotations, key)
	}
	annotations[workv1alpha2.AnnotationWorkNamespace] = executionNamespace(work.Namespace)
	annotations[workv1alpha2.AnnotationWorkName] = work.Name
	annotations[workv1alpha2.AnnotationTemplateUID] = string(template.GetUID())
	annotations[workv1alpha2.AnnotationTemplateGeneration] = strconv.FormatInt(template.GetGeneration(), 10)
	annotations[workv1alpha2.AnnotationManagedLabels] = strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	annotations[workv1alpha2.AnnotationManagedAnnotations] = ""
	annotations[workv1alpha2.AnnotationManagedAnnotations] = strings.Join(slices.Sorted(maps.Keys(annotations)), ",")
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

// adopt gives the object what its work has under a key, which may be nothing: a template that
// was copied from a cluster has what another work had.
func adopt(object, work map[string]string, key string) {
	delete(object, key)
	if value, has := work[key]; has {
		object[key] = value
	}
}
