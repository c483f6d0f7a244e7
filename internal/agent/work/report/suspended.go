// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ComposeSuspended is as ComposeStatus for a work of which nothing is applied: what
// is said about that stays as it was, and only what was observed is new.
func ComposeSuspended(outcomes PassOutcomes, status *workv1.ManifestWorkStatus) (again time.Duration) {
	before := status.DeepCopy()
	again = ComposeStatus(outcomes, status)
	status.Conditions = withApplied(status.Conditions, before.Conditions)
	manifests := status.ResourceStatus.Manifests
	for i := range manifests {
		is := &manifests[i]
		at := slices.IndexFunc(before.ResourceStatus.Manifests, func(was workv1.ManifestCondition) bool {
			a := &was.ResourceMeta
			b := &is.ResourceMeta
			return a.Group == b.Group && a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
		})
		var had []metav1.Condition
		if at >= 0 {
			had = before.ResourceStatus.Manifests[at].Conditions
		}
		is.Conditions = withApplied(is.Conditions, had)
	}
	return again
}

// withApplied returns the conditions with those about applying as they were.
func withApplied(list, before []metav1.Condition) []metav1.Condition {
	var with []metav1.Condition
	for i := range list {
		c := &list[i]
		if c.Type == workv1.ManifestConditionApplied || c.Type == workv1.ManifestConditionAvailable {
			c = meta.FindStatusCondition(before, c.Type)
		}
		if c != nil {
			with = append(with, *c)
		}
	}
	return with
}
