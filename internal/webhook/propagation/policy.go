// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/affinity"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// sentContent is what is asked about of a policy: all but whether clusters keep what they
// have. The operator changes that for whoever removes a hub and wants to keep it.
func sentContent(policy policyv1alpha1.Policy) any {
	spec := *policy.PropagationSpec()
	spec.PreserveResourcesOnDeletion = nil
	return []any{spec, policy.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement], movementAnnotations(policy)}
}

// checkPolicy returns what is wrong with a policy.
func checkPolicy(policy policyv1alpha1.Policy) (admission.Warnings, fieldMistakes) {
	warnings, wrong := checkPropagation(policy.GetNamespace(), policy.PropagationSpec())
	if value, said := policy.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement]; said && value != "true" && value != "false" {
		path := field.NewPath("metadata", "annotations").Key(fleetv1alpha1.AnnotationPartialPlacement)
		wrong = append(wrong, field.NotSupported(path, value, []string{"true", "false"}))
	}
	more, problems := checkMovement(policy)
	return append(warnings, more...), append(wrong, problems...)
}

// checkPropagation returns what is wrong with the spec of a policy in a namespace,
// or of one that is for all. What the rules in the definition tell is not asked
// about again.
func checkPropagation(namespace string, spec *policyv1alpha1.PropagationSpec) (admission.Warnings, fieldMistakes) {
	var warnings admission.Warnings
	path := field.NewPath("spec")
	if spec.Association {
		warnings = append(warnings, "spec.association has no effect: use propagateDeps")
	}
	warnings = append(warnings, reservedWarnings(namespace, spec.ResourceSelectors, path.Child("resourceSelectors"))...)
	wrong := checkSelectors(namespace, spec.ResourceSelectors, path.Child("resourceSelectors"))
	wrong = append(wrong, claims.CheckAwaitedNames(spec, path)...)
	wrong = append(wrong, checkPlacement(&spec.Placement, path.Child("placement"))...)
	if spec.Failover != nil {
		more, problems := checkFailover(spec.Failover, path.Child("failover"))
		warnings, wrong = append(warnings, more...), append(wrong, problems...)
	}
	if len(wrong) == 0 {
		wrong = claims.CheckCopies(spec, path)
	}
	return warnings, wrong
}

// reservedWarnings warns of selectors of what is never sent to clusters. They are allowed,
// as they are in Karmada: a policy may come with an application.
func reservedWarnings(namespace string, selectors []policyv1alpha1.ResourceSelector, path *field.Path) admission.Warnings {
	var warnings admission.Warnings
	for i, s := range selectors {
		kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind).GroupKind()
		object := &metav1.ObjectMeta{Namespace: cmp.Or(namespace, s.Namespace), Name: s.Name}
		if why := claims.ReservedReason(kind, object, view.Fleet{}); why != "" {
			warnings = append(warnings, fmt.Sprintf("%s: %s", path.Index(i), why))
		}
	}
	if len(warnings) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: %s", path, claims.InsteadOfPolicy))
	}
	return warnings
}

// checkSelectors returns what is wrong with the selectors of a policy.
func checkSelectors(namespace string, selectors []policyv1alpha1.ResourceSelector, path *field.Path) fieldMistakes {
	_, wrong := selector.CompileSelectors(namespace, selectors, path)
	for i, s := range selectors {
		if _, err := schema.ParseGroupVersion(s.APIVersion); err != nil || s.APIVersion == "" {
			wrong = append(wrong, field.Invalid(path.Index(i).Child("apiVersion"), s.APIVersion, "want VERSION or GROUP/VERSION, such as apps/v1"))
		}
		if s.Kind == "" {
			wrong = append(wrong, field.Required(path.Index(i).Child("kind"), "such as Deployment"))
		}
	}
	return wrong
}

func checkPlacement(placement *policyv1alpha1.Placement, path *field.Path) fieldMistakes {
	if wrong := affinity.CheckPlacement(placement, path); len(wrong) > 0 {
		return wrong // and nothing more is looked at
	}
	_, wrong := affinity.CompileAffinity(placement.ClusterAffinity, path.Child("clusterAffinity"))
	wrong = append(wrong, checkGroups(placement.ClusterAffinities, path.Child("clusterAffinities"))...)
	for i := range placement.ClusterTolerations {
		wrong = append(wrong, checkToleration(&placement.ClusterTolerations[i], path.Child("clusterTolerations").Index(i))...)
	}
	for i, c := range placement.SpreadConstraints {
		if c.SpreadByLabel != "" {
			wrong = append(wrong, checkLabelKey(c.SpreadByLabel, path.Child("spreadConstraints").Index(i).Child("spreadByLabel"))...)
		}
	}
	if s := placement.ReplicaScheduling; s != nil && s.WeightPreference != nil {
		list := path.Child("replicaScheduling", "weightPreference", "staticWeightList")
		for i := range s.WeightPreference.StaticWeightList {
			_, problems := affinity.CompileAffinity(&s.WeightPreference.StaticWeightList[i].TargetCluster, list.Index(i).Child("targetCluster"))
			wrong = append(wrong, problems...)
		}
	}
	if w := placement.WorkloadAffinity; w != nil {
		if w.Affinity != nil {
			wrong = append(wrong, checkLabelKey(w.Affinity.GroupByLabelKey, path.Child("workloadAffinity", "affinity", "groupByLabelKey"))...)
		}
		if w.AntiAffinity != nil {
			wrong = append(wrong, checkLabelKey(w.AntiAffinity.GroupByLabelKey, path.Child("workloadAffinity", "antiAffinity", "groupByLabelKey"))...)
		}
	}
	return wrong
}

// checkGroups returns what is wrong with groups of clusters. The names of all of
// them differ, those of overflow groups included: status says which one is used.
func checkGroups(groups []policyv1alpha1.ClusterAffinityTerm, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	names := map[string]bool{}
	check := func(name string, a *policyv1alpha1.ClusterAffinity, path *field.Path) {
		if names[name] {
			wrong = append(wrong, field.Duplicate(path.Child("affinityName"), name))
		}
		names[name] = true
		_, problems := affinity.CompileAffinity(a, path)
		wrong = append(wrong, problems...)
	}
	for i := range groups {
		check(groups[i].AffinityName, &groups[i].ClusterAffinity, path.Index(i))
		for j := range groups[i].OverflowAffinities {
			o := &groups[i].OverflowAffinities[j]
			check(o.AffinityName, &o.ClusterAffinity, path.Index(i).Child("overflowAffinities").Index(j))
		}
	}
	return wrong
}

// checkToleration returns what is wrong with a toleration of taints of clusters. It is what
// Kubernetes checks of those of Pods, but for the operator of one without a key: Karmada
// takes it, and it is for the taints of every key that have its value.
func checkToleration(t *corev1.Toleration, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	if t.Key != "" {
		wrong = append(wrong, checkLabelKey(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			wrong = append(wrong, field.Invalid(path.Child("value"), t.Value, problem))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			wrong = append(wrong, field.Invalid(path.Child("value"), t.Value, "leave it out with operator Exists"))
		}
	default:
		wrong = append(wrong, field.NotSupported(path.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch t.Effect {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		wrong = append(wrong, field.NotSupported(path.Child("effect"), t.Effect,
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		wrong = append(wrong, field.Invalid(path.Child("effect"), t.Effect, "tolerationSeconds is for effect NoExecute only: set it, or leave tolerationSeconds out"))
	}
	return wrong
}

// checkFailover warns of older names and returns what is wrong.
func checkFailover(failover *policyv1alpha1.FailoverBehavior, path *field.Path) (admission.Warnings, fieldMistakes) {
	var warnings admission.Warnings
	var wrong fieldMistakes
	check := func(mode policyv1alpha1.PurgeMode, state *policyv1alpha1.StatePreservation, path *field.Path) {
		switch mode {
		case policyv1alpha1.PurgeModeImmediately:
			warnings = append(warnings, fmt.Sprintf("%s: Immediately is deprecated: use Directly", path.Child("purgeMode")))
		case policyv1alpha1.PurgeModeGraciously:
			warnings = append(warnings, fmt.Sprintf("%s: Graciously is deprecated: use Gracefully", path.Child("purgeMode")))
		}
		if state == nil {
			return
		}
		for i, rule := range state.Rules {
			at := path.Child("statePreservation", "rules").Index(i)
			wrong = append(wrong, checkLabelKey(rule.AliasLabelName, at.Child("aliasLabelName"))...)
			wrong = append(wrong, checkJSONPath(rule.JSONPath, at.Child("jsonPath"))...)
		}
	}
	if a := failover.Application; a != nil {
		check(a.PurgeMode, a.StatePreservation, path.Child("application"))
	}
	if c := failover.Cluster; c != nil {
		check(c.PurgeMode, c.StatePreservation, path.Child("cluster"))
	}
	return warnings, wrong
}

// checkJSONPath returns what is wrong with a JSONPath in braces.
func checkJSONPath(text string, path *field.Path) fieldMistakes {
	switch _, err := jsonpath.ParseTemplate(text); {
	case len(text) > jsonpath.TemplateBytesMax:
		return fieldMistakes{field.TooLong(path, "", jsonpath.TemplateBytesMax)} // the message repeats nothing
	case err != nil || strings.TrimSpace(text) == "":
		return fieldMistakes{field.Invalid(path, text, "want a JSONPath in braces, such as {.jobStatus.jobID}")}
	default:
		return nil
	}
}

func checkLabelKey(key string, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	for _, problem := range validation.IsQualifiedName(key) {
		wrong = append(wrong, field.Invalid(path, key, "invalid label key: "+problem))
	}
	return wrong
}
