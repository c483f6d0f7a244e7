// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
)

// BindingSpecFor returns the spec of a binding, but for what others decide. The priority is
// that of the PriorityClass which the policy names, nil without one.
func BindingSpecFor(object *unstructured.Unstructured, policy policyv1alpha1.Policy, chain interpret.Chain, priority *int32) (workv1alpha2.ResourceBindingSpec, error) {
	from := policy.PropagationSpec().DeepCopy()
	spec := workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{
			APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		},
		PropagateDeps: from.PropagateDeps, Placement: &from.Placement, SchedulerName: from.SchedulerName, Failover: from.Failover,
		ConflictResolution: from.ConflictResolution, PreserveResourcesOnDeletion: from.PreserveResourcesOnDeletion,
	}
	replicas, needs, has, err := chain.GetReplicas(object)
	if err != nil {
		return spec, err
	}
	if err := checkNeeds(needs); err != nil {
		return spec, err
	}
	if has {
		spec.Replicas, spec.ReplicaRequirements = replicas, replicaNeeds(needs, object.GetNamespace())
	}
	if from.Suspension != nil {
		spec.Suspension = &workv1alpha2.Suspension{Suspension: *from.Suspension}
	}
	if priority != nil {
		spec.SchedulePriority = &workv1alpha2.SchedulePriority{Priority: *priority}
	}
	return spec, nil
}

// ComposeComponents has a binding say which parts its object has, if these are placed as a
// whole: an object with one part is divided by its replicas, if its kind has any.
func ComposeComponents(spec *workv1alpha2.ResourceBindingSpec, object *unstructured.Unstructured, chain interpret.Chain) error {
	parts, _, err := chain.GetComponents(object)
	if err != nil || len(parts) == 0 {
		return err
	}
	_, _, scales, err := chain.GetReplicas(object)
	if err != nil || len(parts) == 1 && scales {
		return err
	}
	spec.Replicas = 0
	spec.ReplicaRequirements = nil
	for _, part := range parts {
		if err := checkNeeds(part.Needs); err != nil {
			return fmt.Errorf("part %q: %w", part.Name, err)
		}
		spec.Components = append(spec.Components, workv1alpha2.Component{
			Name: part.Name, Replicas: max(0, part.Replicas), ReplicaRequirements: componentRequirements(part.Needs),
		})
	}
	return nil
}

// AffinityGroupsOf returns the groups of workloads that an object is in, as its policy has it
// kept together with others, or apart: those of the labels that it has. It is nil
// if it is in none.
func AffinityGroupsOf(object *unstructured.Unstructured, policy policyv1alpha1.Policy) *workv1alpha2.WorkloadAffinityGroups {
	asked := policy.PropagationSpec().Placement.WorkloadAffinity
	if asked == nil {
		return nil
	}
	var groups workv1alpha2.WorkloadAffinityGroups
	if asked.Affinity != nil {
		groups.AffinityGroup = groupBy(object, asked.Affinity.GroupByLabelKey)
	}
	if asked.AntiAffinity != nil {
		groups.AntiAffinityGroup = groupBy(object, asked.AntiAffinity.GroupByLabelKey)
	}
	if groups == (workv1alpha2.WorkloadAffinityGroups{}) {
		return nil
	}
	return &groups
}

// groupBy returns the group of an object by a label, "" if it does not have it.
func groupBy(object *unstructured.Unstructured, key string) string {
	value, has := object.GetLabels()[key]
	if !has {
		return ""
	}
	return key + "=" + value
}

// MarkPartialPlacement has a binding say of its policy what is not part of the specs.
func MarkPartialPlacement(b metav1.Object, policy policyv1alpha1.Policy) {
	annotations := maps.Clone(b.GetAnnotations())
	delete(annotations, fleetv1alpha1.AnnotationPartialPlacement)
	if value, said := policy.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement]; said {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[fleetv1alpha1.AnnotationPartialPlacement] = value
	}
	b.SetAnnotations(annotations)
}

// PreserveDecidedFields takes over from the present spec what is not the policy's to say.
func PreserveDecidedFields(wanted, present *workv1alpha2.ResourceBindingSpec) {
	wanted.Clusters = present.Clusters
	wanted.GracefulEvictionTasks = present.GracefulEvictionTasks
	wanted.RequiredBy = present.RequiredBy
	wanted.RescheduleTriggeredAt = present.RescheduleTriggeredAt
	if present.Suspension != nil && present.Suspension.Scheduling != nil {
		if wanted.Suspension == nil {
			wanted.Suspension = &workv1alpha2.Suspension{}
		}
		wanted.Suspension.Scheduling = present.Suspension.Scheduling
	}
}
