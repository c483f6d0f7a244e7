// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/karmadauid"
	"github.com/capstan-io/capstan/internal/untrusted/nesting"
)

// clusterOfNamespace returns the cluster whose Works are in a namespace, "" if there can be
// none.
func clusterOfNamespace(namespace string) (cluster string) {
	cluster, ok := strings.CutPrefix(namespace, v1alpha1.NamespacePrefix)
	if !ok {
		return ""
	}
	return cluster
}

// ofBinding reports whether a binding made the ManifestWork.
func ofBinding(from *workv1.ManifestWork) bool {
	_, is := from.Labels[v1alpha1.LabelPermanentID]
	return is
}

func typeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Work"}
}

// workOf returns the Work that a ManifestWork shows as.
func workOf(from *workv1.ManifestWork) *v1alpha1.Work {
	return &v1alpha1.Work{TypeMeta: typeMeta(), ObjectMeta: workObjectMeta(from), Spec: workSpec(from), Status: workStatus(from)}
}

func workObjectMeta(from *workv1.ManifestWork) metav1.ObjectMeta {
	o := metav1.ObjectMeta{
		Namespace:                  v1alpha1.NamespacePrefix + from.Namespace,
		Name:                       from.Name,
		UID:                        karmadauid.WorkUID(from.UID),
		ResourceVersion:            from.ResourceVersion,
		Generation:                 from.Generation,
		CreationTimestamp:          from.CreationTimestamp,
		DeletionTimestamp:          from.DeletionTimestamp.DeepCopy(),
		DeletionGracePeriodSeconds: from.DeletionGracePeriodSeconds,
		Labels:                     maps.Clone(from.Labels),
		Annotations:                maps.Clone(from.Annotations),
	}
	if len(from.Finalizers) > 0 {
		o.Finalizers = []string{v1alpha1.Finalizer}
	}
	return o
}

func workSpec(from *workv1.ManifestWork) v1alpha1.WorkSpec {
	to := v1alpha1.WorkSpec{}
	for i := range from.Spec.Workload.Manifests {
		to.Workload.Manifests = append(to.Workload.Manifests, runtime.RawExtension{Raw: slices.Clone(from.Spec.Workload.Manifests[i].Raw)})
	}
	if option := from.Spec.DeleteOption; option != nil && option.PropagationPolicy == workv1.DeletePropagationPolicyOrphan {
		preserves := true
		to.PreserveResourcesOnDeletion = &preserves
	}
	if value, written := from.Annotations[workv1.AnnotationSuspendDispatching]; written {
		suspends := value == "true"
		to.SuspendDispatching = &suspends
	}
	return to
}

func workStatus(from *workv1.ManifestWork) v1alpha1.WorkStatus {
	to := v1alpha1.WorkStatus{}
	if applied := meta.FindStatusCondition(from.Status.Conditions, workv1.ManifestWorkConditionApplied); applied != nil {
		to.Conditions = []metav1.Condition{{
			Type: v1alpha1.WorkConditionApplied, Status: applied.Status, Reason: v1alpha1.WorkReasonAppliedFailed,
			Message: applied.Message, LastTransitionTime: applied.LastTransitionTime,
		}}
		if applied.Status == metav1.ConditionTrue {
			to.Conditions[0].Reason = v1alpha1.WorkReasonAppliedSuccessful
		}
	}
	if dispatching := dispatchingCondition(from, len(to.Conditions) > 0); dispatching != nil {
		to.Conditions = append(to.Conditions, *dispatching)
	}
	for i := range from.Status.ResourceStatus.Manifests {
		to.ManifestStatuses = append(to.ManifestStatuses, manifestStatus(&from.Status.ResourceStatus.Manifests[i]))
	}
	return to
}

// dispatchingCondition returns what the agent says about that; about a work that was never
// suspended it says nothing, but brings it to the cluster.
func dispatchingCondition(from *workv1.ManifestWork, reported bool) *metav1.Condition {
	said := meta.FindStatusCondition(from.Status.Conditions, workv1.ManifestWorkConditionDispatching)
	switch {
	case said != nil && said.Status == metav1.ConditionFalse:
		return &metav1.Condition{
			Type: v1alpha1.WorkConditionDispatching, Status: metav1.ConditionFalse, Reason: v1alpha1.WorkReasonSuspendDispatching,
			Message: "The work is suspended: changes are not dispatched to the cluster.", LastTransitionTime: said.LastTransitionTime,
		}
	case said == nil && !reported:
		return nil
	}
	since := from.CreationTimestamp
	if said != nil {
		since = said.LastTransitionTime
	}
	return &metav1.Condition{
		Type: v1alpha1.WorkConditionDispatching, Status: metav1.ConditionTrue, Reason: v1alpha1.WorkReasonDispatching,
		Message: "Changes are dispatched to the cluster.", LastTransitionTime: since,
	}
}

func manifestStatus(from *workv1.ManifestCondition) v1alpha1.ManifestStatus {
	is := &from.ResourceMeta
	to := v1alpha1.ManifestStatus{
		Identifier: v1alpha1.ResourceIdentifier{
			Ordinal: int(is.Ordinal), Group: is.Group, Version: is.Version, Kind: is.Kind,
			Resource: is.Resource, Namespace: is.Namespace, Name: is.Name,
		},
		Health: v1alpha1.ResourceUnknown,
	}
	for _, value := range from.StatusFeedback.Values {
		switch field := value.FieldValue; {
		case value.Name == v1alpha1.FeedbackStatus && field.JSONRaw != nil && isStorable(*field.JSONRaw):
			to.Status = &runtime.RawExtension{Raw: []byte(*field.JSONRaw)}
		case value.Name == v1alpha1.FeedbackHealth && field.String != nil && isHealth(*field.String):
			to.Health = v1alpha1.ResourceHealth(*field.String)
		}
	}
	return to
}

// isStorable reports whether text is an object in JSON that can be read where it is a part of others. Agents write it, and
// anything else would make the answers invalid that it is in, those with Works of other clusters among them.
func isStorable(text string) bool {
	return json.Valid([]byte(text)) && nesting.IsStorableObject(text)
}

func isHealth(text string) bool {
	return slices.Contains([]v1alpha1.ResourceHealth{v1alpha1.ResourceHealthy, v1alpha1.ResourceUnhealthy, v1alpha1.ResourceUnknown}, v1alpha1.ResourceHealth(text))
}
