// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// KeptAfter is how long a cluster may take to let go of a work before it is told of.
const KeptAfter = 30 * time.Second

// KeptCondition returns the condition of a binding whose object is deleted, and which clusters
// keep from going; nil if none does yet. Works are what there still is for it. Again is
// how soon another cluster may be among them; 0 is never.
func KeptCondition(works []workv1.ManifestWork, now time.Time) (kept *metav1.Condition, again time.Duration) {
	var clusters []string
	for _, work := range works {
		if work.DeletionTimestamp.IsZero() {
			continue // it comes again when it is
		}
		left := KeptAfter - now.Sub(work.DeletionTimestamp.Time)
		switch {
		case left <= 0:
			clusters = append(clusters, work.Namespace)
		case again == 0 || left < again:
			again = left
		}
	}
	if len(clusters) == 0 {
		return nil, again
	}
	slices.Sort(clusters)
	names := strings.Join(clusters[:min(len(clusters), clustersTold)], ", ")
	if more := len(clusters) - clustersTold; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return &metav1.Condition{
		Type: workv1alpha2.BindingConditionFullyApplied, Status: metav1.ConditionFalse, Reason: workv1alpha2.BindingReasonFullyAppliedFailed,
		Message: fmt.Sprintf("The object is deleted. These clusters have not released it for more than %s: %s. "+
			"The binding is deleted when their agents have removed their finalizers from the ManifestWorks.", KeptAfter, names),
	}, again
}
