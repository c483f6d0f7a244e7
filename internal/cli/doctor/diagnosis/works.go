// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/health"
)

// worksMax is how many works one step tells about.
const worksMax = 5

func clusterWorks(e *evidence.Evidence) []Finding {
	c := e.Cluster
	var found []Finding
	if c.Works.Err != nil {
		found = append(found, unseenFinding("some or all of the works in namespace "+c.Name, c.Works.Err))
	}
	found = append(found, clusterForgotten(e)...)
	if !c.Works.Found {
		return found
	}
	more := 0
	for i := range c.Works.Value.Items {
		f, stuck := workFinding(e, &c.Works.Value.Items[i])
		switch {
		case stuck && len(found) >= worksMax:
			more++
		case stuck:
			found = append(found, f)
		}
	}
	if more > 0 {
		found = append(found, oddFinding("MoreWorks", "namespace "+c.Name, fmt.Sprintf("%d more works are not ready", more), "capstan tree "+c.Name+" --unready"))
	}
	return found
}

// clusterForgotten says what the agent keeps because a restored hub forgot its works.
func clusterForgotten(e *evidence.Evidence) []Finding {
	c := findClusterCondition(e, clusterv1.ManagedClusterConditionWorksMissing)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return []Finding{oddFinding(c.Reason, managedClusterName(e.Cluster), c.Message, fmt.Sprintf(
		"Recreate what is to stay, then confirm that the rest may be deleted: kubectl annotate managedcluster %s %s-",
		e.Cluster.Name, fleetv1alpha1.AnnotationRestored))}
}

func workFinding(e *evidence.Evidence, work *workv1.ManifestWork) (f Finding, stuck bool) {
	state := health.WorkReadiness(work)
	if state.Ready == metav1.ConditionTrue {
		return Finding{}, false
	}
	f = brokenFinding(state.Reason, fmt.Sprintf("ManifestWork %s/%s", work.Namespace, work.Name), state.Message, "capstan tree "+work.Namespace+" --unready")
	since := work.CreationTimestamp.Time
	switch state.Reason {
	case health.NotSeen, health.OutOfDate:
		f.Next = lookAtAgent(e)
		if applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied); applied != nil {
			// When it was changed is not known; an agent that is heard of is not far behind.
			since = applied.LastTransitionTime.Time
		}
	case health.Deleting:
		since = work.DeletionTimestamp.Time
		f.Next = "Its agent has to remove the objects first. " + lookAtAgent(e)
		if state.Message != "" {
			f.Cause = "it was deleted and waits: " + state.Message
		}
	default:
		if meta.IsStatusConditionTrue(work.Status.Conditions, workv1.ManifestWorkConditionApplied) {
			f.State = Odd // it was delivered; whether it runs is another matter
		}
		firstObject(work, &f)
	}
	if e.Hub.Now.Sub(since) < soon && (state.Reason == health.NotSeen || state.Reason == health.OutOfDate || state.Reason == health.Deleting) {
		f.State = Odd
	}
	return f, true
}

// firstObject makes the finding about the first object of the work that could
// not be applied, or else is not as it should be, and says what helps with that.
func firstObject(work *workv1.ManifestWork, f *Finding) {
	objects := work.Status.ResourceStatus.Manifests
	i := slices.IndexFunc(objects, func(o workv1.ManifestCondition) bool {
		return meta.IsStatusConditionFalse(o.Conditions, workv1.ManifestConditionApplied)
	})
	if i < 0 {
		i = slices.IndexFunc(objects, func(o workv1.ManifestCondition) bool {
			return health.ObjectReadiness(o.Conditions).Ready != metav1.ConditionTrue
		})
	}
	if i < 0 {
		return
	}
	object := objects[i].ResourceMeta
	state := health.ObjectReadiness(objects[i].Conditions)
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	f.Reason, f.Cause = state.Reason, fmt.Sprintf("%s %s: %s", object.Kind, name, state.Message)
	switch {
	case strings.Contains(state.Message, "does not know the kind"):
		f.Next = "Install the CRD of the kind in the member: another ManifestWork can deliver it."
	case strings.Contains(state.Message, "forbidden") && work.Spec.Executor != nil:
		f.Next = "Grant the executor's ServiceAccount this permission in the member."
	case strings.Contains(state.Message, "forbidden"):
		f.Next = "Give the agent this right in the member: by a ClusterRole with label open-cluster-management.io/aggregate-to-work=true."
	}
}

// memberRecords compares what the hub believes to be delivered with the records
// in the member.
func memberRecords(e *evidence.Evidence) []Finding {
	if e.Member.Applied.Err != nil {
		return []Finding{unseenFinding("the AppliedManifestWorks of the member", e.Member.Applied.Err)}
	}
	recorded := map[string]bool{}
	if e.Member.Applied.Found {
		for i := range e.Member.Applied.Value.Items {
			recorded[e.Member.Applied.Value.Items[i].Spec.ManifestWorkName] = true
		}
	}
	var found []Finding
	for i := range e.Cluster.Works.Value.Items {
		work := &e.Cluster.Works.Value.Items[i]
		delivered := meta.IsStatusConditionTrue(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
		if delivered && work.DeletionTimestamp.IsZero() && !recorded[work.Name] && len(found) < worksMax {
			found = append(found, brokenFinding("RecordMissing", "AppliedManifestWork of ManifestWork "+work.Name,
				"the hub reports it as applied, but the member has no record of it",
				"The agent recreates it: check that it is running. If it is, this may not be the member that joined."))
		}
	}
	return found
}

func recordsSeen(e *evidence.Evidence) bool {
	return memberSeen(e) && !e.Member.Hosted() && e.Cluster.Works.Found
}
