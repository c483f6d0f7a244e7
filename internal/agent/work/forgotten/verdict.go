// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forgotten

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/controlplane/restored"
)

// namesMax is how many works a message names.
const namesMax = 5

// restoreVerdict is what the hub says that it has forgotten. The zero value is nothing.
type restoreVerdict struct {
	// text is the annotation.
	text string
	// published says that there is one; err is why it cannot be read.
	published bool
	versions  restored.VersionRange
	err       error
}

func verdictOf(cluster metav1.Object) restoreVerdict {
	versions, err := restored.RangeOf(cluster)
	v := restoreVerdict{text: cluster.GetAnnotations()[fleetv1alpha1.AnnotationRestored], published: versions != nil || err != nil, err: err}
	if versions != nil {
		v.versions = *versions
	}
	return v
}

// keepsRecord reports whether a record stays whose work the hub does not have. It does in
// doubt: if it is not known which versions the hub forgot, or of which version the
// work was.
func (v restoreVerdict) keepsRecord(record *workv1.AppliedManifestWork) bool {
	return v.published && (v.err != nil || v.versions.MayHaveForgotten(ledger.FirstVersion(record)))
}

// missingCondition returns what to say of the works of these names.
func (v restoreVerdict) missingCondition(missing []string) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ManagedClusterConditionWorksMissing, Status: metav1.ConditionTrue}
	switch {
	case len(missing) == 0:
		c.Status = metav1.ConditionFalse
		c.Reason = clusterv1.ManagedClusterReasonNothingKept
		c.Message = "the agent keeps nothing whose ManifestWork is missing"
	case v.err != nil:
		c.Reason = clusterv1.ManagedClusterReasonRestoredInvalid
		c.Message = fmt.Sprintf("%v; until it is corrected or removed, nothing is deleted for missing ManifestWorks, of which there are %s",
			v.err, formatWorkNames(missing))
	default:
		c.Reason = clusterv1.ManagedClusterReasonHubRestored
		c.Message = fmt.Sprintf("the hub was restored from a backup that lacks %s, whose objects are on the cluster and stay; "+
			"create these ManifestWorks again to have their objects taken over, or remove the annotation %s from the ManagedCluster to have them deleted",
			formatWorkNames(missing), fleetv1alpha1.AnnotationRestored)
	}
	return c
}

// formatWorkNames counts works and names the first of them.
func formatWorkNames(works []string) string {
	works = slices.Sorted(slices.Values(works))
	var named []string
	for _, work := range works[:min(len(works), namesMax)] {
		named = append(named, fmt.Sprintf("%q", work))
	}
	if rest := len(works) - len(named); rest > 0 {
		named = append(named, fmt.Sprintf("%d more", rest))
	}
	noun := "ManifestWorks"
	if len(works) == 1 {
		noun = "ManifestWork"
	}
	return fmt.Sprintf("%d %s (%s)", len(works), noun, strings.Join(named, ", "))
}

// workNameOf returns the name of the work of a record.
func workNameOf(record *workv1.AppliedManifestWork) string {
	return cmp.Or(record.Spec.ManifestWorkName, record.Name)
}
