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

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// variantsMax is how many variants of an object are kept to be copied at most.
const variantsMax = 64

// WorkSource is what the works of a binding are made of.
type WorkSource struct {
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

// ClusterCopy is the object as a cluster gets it, but for what tells there where it is
// from.
type ClusterCopy struct {
	Object *unstructured.Unstructured
	// Replicas are those of the cluster; 0 for what has none.
	Replicas int32
	// Applied says what of the policies that override made it so.
	Applied override.AppliedOverrides
}

// RenderCopies returns what each cluster gets. For a cluster whose replicas cannot be set,
// or whose overrides cannot be applied, it returns the problem instead, which is the
// user's.
func RenderCopies(s WorkSource) (copies map[string]ClusterCopy, problems map[string]error) {
	copies = map[string]ClusterCopy{}
	problems = map[string]error{}
	for cluster, one := range s.renderOutcomes() {
		if one.problem != nil {
			problems[cluster] = one.problem
			continue
		}
		copies[cluster] = one.ClusterCopy
	}
	return copies, problems
}

// copyOutcome is what a cluster gets, or why it gets nothing.
type copyOutcome struct {
	ClusterCopy

	problem error
}

// renderOutcomes makes what each cluster gets, in the order of names, when it is asked for: the
// object may be large, and its clusters many.
func (s WorkSource) renderOutcomes() iter.Seq2[string, copyOutcome] {
	return func(yield func(string, copyOutcome) bool) {
		pruned := s.Chain.PruneObject(s.Object)
		targets := BindingTargets(s.Binding.BindingSpec())
		completions, divided := divideCompletions(s.Binding, s.Chain, pruned, targets)
		made := map[variant]variantResult{}
		most := s.variants()
		for _, target := range targets {
			if s.Only != nil && !s.Only[target.Name] {
				continue
			}
			var one copyOutcome
			cluster, problem := s.targetCluster(target.Name)
			if problem != nil {
				one.problem = problem
			} else {
				v := s.variantForTarget(target, &cluster)
				if divided && !v.whole {
					v.divided = true
					v.completions = completions[target.Name]
				}
				if _, known := made[v]; !known && len(made) >= most {
					clear(made)
				}
				one = s.outcomeForVariant(pruned, v, &cluster, made)
				one.Replicas = target.Replicas
			}
			if !yield(target.Name, one) {
				return
			}
		}
	}
}

// outcomeForVariant returns what the cluster gets by its variant, which is made unless it was made for
// one of the last clusters.
func (s WorkSource) outcomeForVariant(pruned *unstructured.Unstructured, v variant, cluster *view.Cluster, made map[variant]variantResult) copyOutcome {
	if _, done := made[v]; !done {
		made[v] = s.renderVariant(pruned, v, cluster)
	}
	if made[v].problem != nil {
		return copyOutcome{problem: made[v].problem}
	}
	return copyOutcome{ClusterCopy: ClusterCopy{Object: made[v].object.DeepCopy(), Applied: made[v].applied}}
}

// targetCluster returns a cluster that something is sent to, or why nothing is.
func (s WorkSource) targetCluster(name string) (view.Cluster, error) {
	cluster, _ := s.Fleet.ClusterNamed(name)
	if s.Mistake != nil {
		return cluster, s.Mistake
	}
	return cluster, CheckWorkNamespace(s.Fleet, name)
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

// variantResult is a variant of the object, or the problem with it.
type variantResult struct {
	object  *unstructured.Unstructured
	applied override.AppliedOverrides
	problem error
}

func (s WorkSource) variantForTarget(target workv1alpha2.TargetCluster, cluster *view.Cluster) variant {
	spec := s.Binding.BindingSpec()
	rules := s.Overrides.RulesFor(cluster)
	if len(target.Components) > 0 || spec.ReplicaRequirements == nil && spec.Replicas == 0 {
		return variant{whole: true, rules: rules}
	}
	return variant{replicas: target.Replicas, rules: rules}
}

// renderVariant makes a variant; cluster is one of those that it is for.
func (s WorkSource) renderVariant(pruned *unstructured.Unstructured, v variant, cluster *view.Cluster) variantResult {
	share, problem := s.reviseShare(pruned, v)
	if problem != nil {
		return variantResult{problem: problem}
	}
	object, applied, problem := applyOverrides(share, s.Overrides, cluster)
	if problem != nil {
		return variantResult{problem: problem}
	}
	s.setConflictResolution(object)
	return variantResult{object: object, applied: applied}
}

// targetsMax is to how many clusters a binding sends its object at most for those that refer to
// it, as many as may be chosen for one: whoever writes bindings can name any number.
const targetsMax = 10_000

// BindingTargets returns the clusters that a binding sends its object to: those that were
// chosen, and those of the objects that refer to it, as long as these are not too many. They
// are in the order of names.
func BindingTargets(spec *workv1alpha2.ResourceBindingSpec) []workv1alpha2.TargetCluster {
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

// TargetNames are the names of the clusters that a binding sends its object to, in no order, and some of them several times. It
// makes nothing of them, however many they are, and leaves out none that BindingTargets has.
func TargetNames(spec *workv1alpha2.ResourceBindingSpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range spec.Clusters {
			if !yield(spec.Clusters[i].Name) {
				return
			}
		}
		for i := range spec.RequiredBy {
			for k := range spec.RequiredBy[i].Clusters {
				if !yield(spec.RequiredBy[i].Clusters[k].Name) {
					return
				}
			}
		}
	}
}

// errUndivided is the problem of clusters that were chosen before it was known that
// the object has replicas. To send it with none would stop what runs there.
var errUndivided = errors.New("how many replicas the cluster gets is not decided yet: it keeps what it has")

// errIndexed is the problem of clusters that would share an object whose pods have
// indexes: some indexes would run twice, and others never.
var errIndexed = errors.New("a Job with completionMode Indexed cannot be divided: each cluster would run the indexes from 0 on. " +
	"Have one cluster run all of them (clusterAffinity with the name of one, or replicaDivisionPreference Aggregated and spreadConstraints with maxGroups 1), " +
	"or each cluster (replicaSchedulingType Duplicated)")

// isUndivided reports whether an object has replicas of which no cluster that was chosen
// has any.
func isUndivided(spec *workv1alpha2.ResourceBindingSpec) bool {
	return spec.Replicas > 0 && len(spec.Clusters) > 0 &&
		!slices.ContainsFunc(spec.Clusters, func(t workv1alpha2.TargetCluster) bool { return t.Replicas > 0 })
}

// reviseShare returns the object with the replicas and completions of a variant. An object
// whose parts are placed together is there as a whole.
func (s WorkSource) reviseShare(pruned *unstructured.Unstructured, v variant) (*unstructured.Unstructured, error) {
	if v.whole {
		return pruned, nil
	}
	if v.replicas == 0 && isUndivided(s.Binding.BindingSpec()) {
		return nil, errUndivided
	}
	object, err := s.Chain.ReviseReplicas(pruned, v.replicas)
	if err != nil {
		return nil, err
	}
	if v.divided {
		if all, _ := s.Chain.GetCompletions(pruned); v.completions != all && s.Chain.HasIndexedCompletions(pruned) {
			return nil, errIndexed
		}
		object = s.Chain.ReviseCompletions(object, v.completions)
	}
	return object, nil
}

// newWorkFrame returns the work without its manifest.
func (s WorkSource) newWorkFrame(cluster string, applied override.AppliedOverrides, dispatch decision.DispatchDecision) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: NameOfWorks(s.Binding),
		Labels: map[string]string{
			karmadaworkv1alpha1.LabelPermanentID: workID(PermanentBindingID(s.Binding), cluster),
			idLabel(s.Binding):                   PermanentBindingID(s.Binding),
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
	recordOverrides(work, applied)
	if dispatch.Said {
		work.Annotations[workv1.AnnotationSuspendDispatching] = strconv.FormatBool(dispatch.SuspendsCluster(cluster))
		work.Annotations[annotationSuspends] = "true"
	}
	if PreservesOnDeletion(s.Binding) {
		work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	}
	return work
}

// PreservesOnDeletion reports whether what a binding has sent stays in the clusters when it is
// sent no more.
func PreservesOnDeletion(b workv1alpha2.Binding) bool {
	preserve := b.BindingSpec().PreserveResourcesOnDeletion
	return preserve != nil && *preserve
}

// recordOverrides notes on a work what was overridden.
func recordOverrides(work *workv1.ManifestWork, applied override.AppliedOverrides) {
	if applied.Overrides != "" {
		work.Annotations[policyv1alpha1.AnnotationAppliedOverrides] = applied.Overrides
	}
	if applied.ClusterOverrides != "" {
		work.Annotations[policyv1alpha1.AnnotationAppliedClusterOverrides] = applied.ClusterOverrides
	}
}

// setConflictResolution says on the object what becomes of one of the name that is in the cluster
// already, unless the template says it.
func (s WorkSource) setConflictResolution(object *unstructured.Unstructured) {
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

// stampOrigin gives the object what tells in the cluster where it is from.
func stampOrigin(object *unstructured.Unstructured, work *workv1.ManifestWork, template metav1.Object) {
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
		adoptKey(labels, work.Labels, key)
	}
	for _, key := range []string{
		workv1alpha2.AnnotationResourceBindingNamespace, workv1alpha2.AnnotationResourceBindingName, workv1alpha2.AnnotationClusterResourceBindingName,
	} {
		adoptKey(annotations, work.Annotations, key)
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

// adoptKey gives the object what its work has under a key, which may be nothing: a template that
// was copied from a cluster has what another work had.
func adoptKey(object, work map[string]string, key string) {
	delete(object, key)
	if value, has := work[key]; has {
		object[key] = value
	}
}
