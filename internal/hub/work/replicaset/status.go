// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// namesMax is how many clusters a message names.
const namesMax = 5

// replicaSetStatus is what is reported about a replica set. Without Placements, only the
// conditions are.
type replicaSetStatus struct {
	Summary    workv1alpha1.ManifestWorkReplicaSetSummary
	Placements []workv1alpha1.PlacementSummary
	Conditions []metav1.Condition
	// Lasts says that works are held back until somebody does something about it.
	Lasts bool
}

// planOutcome is what came of a plan.
type planOutcome struct {
	Paused bool
	// Failed is what could not be written, and Held what has to wait for room or time.
	Failed error
	Held   allowance.HeldWorks
}

// tooManyStatus is the status of a replica set that refers to more than it may.
func tooManyStatus(problems field.ErrorList) replicaSetStatus {
	return replicaSetStatus{Conditions: []metav1.Condition{{
		Type: workv1alpha1.ConditionPlacementVerified, Status: metav1.ConditionFalse, Reason: workv1alpha1.ReasonNotAsExpected,
		Message: problems[0].Error() + ". No ManifestWork is changed until this is corrected",
	}}}
}

// invalidNameStatus is the status of a replica set whose works could not be labelled.
func invalidNameStatus(set types.NamespacedName, problems []string) replicaSetStatus {
	return replicaSetStatus{Conditions: []metav1.Condition{{
		Type: workv1alpha1.ConditionManifestworkApplied, Status: metav1.ConditionFalse, Reason: workv1alpha1.ReasonInvalidManifestWorkName,
		Message: fmt.Sprintf("ManifestWorks have the label %s=%s, which is invalid: %s. Create the ManifestWorkReplicaSet with a shorter name",
			workv1.LabelManifestWorkReplicaSet, ownerLabel(set), strings.Join(problems, "; ")),
	}}}
}

// summarizeStatus sums up what there is, what is planned, and what could not be written.
func summarizeStatus(f planFacts, p rolloutPlan, o planOutcome) replicaSetStatus {
	s := replicaSetStatus{Placements: make([]workv1alpha1.PlacementSummary, 0, len(p.Progress)), Lasts: o.Failed == nil && o.Held.NeedsAction()}
	byPlacement := map[string]*workv1alpha1.ManifestWorkReplicaSetSummary{}
	for _, part := range p.Progress {
		byPlacement[part.Choice.Placement] = &workv1alpha1.ManifestWorkReplicaSetSummary{}
	}
	var wrong []string
	for _, cluster := range slices.Sorted(maps.Keys(f.Works)) {
		for _, work := range f.Works[cluster] {
			if !work.DeletionTimestamp.IsZero() {
				continue
			}
			countWork(&s.Summary, work)
			if own := byPlacement[work.Labels[workv1.LabelPlacementName]]; own != nil {
				countWork(own, work)
			}
			if why := workProblem(work); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s (%s)", cluster, why))
			}
		}
	}
	for _, part := range p.Progress {
		s.Placements = append(s.Placements, workv1alpha1.PlacementSummary{
			Name: part.Choice.Placement, Summary: *byPlacement[part.Choice.Placement],
			AvailableDecisionGroups: fmt.Sprintf("%d (%d / %d clusters applied)", len(part.Choice.Groups), part.countUpdated(), part.Choice.Clusters),
		})
	}
	verified := verifiedCondition(p.Progress)
	s.Conditions = []metav1.Condition{verified, rolledOutCondition(p.Progress, o.Paused), appliedCondition(s.Summary, verified, wrong, o.Failed)}
	if o.Failed == nil && o.Held.AnyHeld() {
		s.Conditions[2] = heldCondition(o.Held)
	}
	return s
}

// heldCondition is condition ManifestworkApplied while works are held back.
func heldCondition(held allowance.HeldWorks) metav1.Condition {
	return metav1.Condition{Type: workv1alpha1.ConditionManifestworkApplied, Status: metav1.ConditionFalse, Reason: heldReason(held.Reason), Message: held.ConditionMessage()}
}

// heldReason returns what condition ManifestworkApplied calls a reason of the allowance.
func heldReason(why allowance.HoldReason) string {
	switch why {
	case allowance.Full:
		return workv1alpha1.ReasonNamespaceFull
	case allowance.HubFull:
		return workv1alpha1.ReasonHubFull
	default:
		return workv1alpha1.ReasonNamespaceThrottled
	}
}

func countWork(s *workv1alpha1.ManifestWorkReplicaSetSummary, work *workv1.ManifestWork) {
	s.Total++
	for name, n := range map[string]*int{
		workv1.ManifestWorkConditionApplied: &s.Applied, workv1.ManifestWorkConditionAvailable: &s.Available,
		workv1.ManifestWorkConditionProgressing: &s.Progressing, workv1.ManifestWorkConditionDegraded: &s.Degraded,
	} {
		if meta.IsStatusConditionTrue(work.Status.Conditions, name) {
			*n++
		}
	}
}

// workProblem returns why the objects of a work are not all available and well.
func workProblem(work *workv1.ManifestWork) string {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	available := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionAvailable)
	degraded := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionDegraded)
	switch {
	case applied != nil && applied.Status != metav1.ConditionTrue:
		return explain(applied)
	case hasStatus(degraded, metav1.ConditionTrue):
		return explain(degraded)
	case available == nil:
		return "its agent has not reported yet"
	case available.Status != metav1.ConditionTrue:
		return explain(available)
	}
	return ""
}

// verifiedCondition is condition PlacementVerified.
func verifiedCondition(all []progress) metav1.Condition {
	condition := metav1.Condition{Type: workv1alpha1.ConditionPlacementVerified, Status: metav1.ConditionFalse}
	clusters := 0
	var names []string
	for n, part := range all {
		clusters += part.Choice.Clusters
		names = append(names, part.Choice.Placement)
		switch {
		case part.Choice.Missing:
			condition.Reason = workv1alpha1.ReasonPlacementDecisionNotFound
			condition.Message = fmt.Sprintf("spec.placementRefs[%d]: Placement %q does not exist in this namespace: create it, or remove the reference. "+
				"No ManifestWork is deleted until then", n, part.Choice.Placement)
			return condition
		case len(part.Choice.Problems) > 0:
			condition.Reason = workv1alpha1.ReasonNotAsExpected
			condition.Message = fmt.Sprintf("%v. The ManifestWorks of Placement %q are not changed until this is corrected",
				part.Choice.Problems.ToAggregate(), part.Choice.Placement)
			return condition
		}
	}
	if clusters == 0 {
		condition.Reason = workv1alpha1.ReasonPlacementDecisionEmpty
		condition.Message = "no cluster is chosen: see condition PlacementSatisfied of " + describeNames("Placement", names)
		return condition
	}
	condition.Status = metav1.ConditionTrue
	condition.Reason = workv1alpha1.ReasonAsExpected
	condition.Message = fmt.Sprintf("%d clusters are chosen by %s", clusters, describeNames("Placement", names))
	return condition
}

// appliedCondition is condition ManifestworkApplied.
func appliedCondition(sum workv1alpha1.ManifestWorkReplicaSetSummary, verified metav1.Condition, wrong []string, failed error) metav1.Condition {
	condition := metav1.Condition{Type: workv1alpha1.ConditionManifestworkApplied, Status: metav1.ConditionFalse}
	switch {
	case failed != nil:
		condition.Reason, condition.Message = workv1alpha1.ReasonNotAsExpected, failed.Error()
	case sum.Total == 0 && verified.Reason == workv1alpha1.ReasonPlacementDecisionEmpty:
		condition.Reason = workv1alpha1.ReasonPlacementDecisionEmpty
		condition.Message = "no cluster is chosen"
	case sum.Total == 0:
		condition.Reason = workv1alpha1.ReasonNotAsExpected
		condition.Message = "there is no ManifestWork yet"
	case sum.Available == sum.Total && sum.Progressing == 0 && sum.Degraded == 0 && len(wrong) == 0:
		condition.Status = metav1.ConditionTrue
		condition.Reason = workv1alpha1.ReasonAsExpected
		condition.Message = fmt.Sprintf("the objects of all %d ManifestWorks are available", sum.Total)
	case sum.Progressing > 0 && sum.Degraded == 0:
		condition.Reason = workv1alpha1.ReasonProcessing
		condition.Message = fmt.Sprintf("%d of %d ManifestWorks are progressing", sum.Progressing, sum.Total)
	default:
		condition.Reason = workv1alpha1.ReasonNotAsExpected
		condition.Message = fmt.Sprintf("%d of %d ManifestWorks are not as expected: %s", len(wrong), sum.Total, joinSome(wrong))
	}
	return condition
}

// rolledOutCondition is condition PlacementRolledOut.
func rolledOutCondition(all []progress, paused bool) metav1.Condition {
	condition := metav1.Condition{Type: workv1alpha1.ConditionPlacementRolledOut, Status: metav1.ConditionTrue, Reason: workv1alpha1.ReasonComplete}
	var parts []string
	if paused {
		parts = append(parts, "paused by annotation "+fleetv1alpha1.AnnotationPaused+": no ManifestWork is changed")
	}
	for _, part := range all {
		if part.Choice.Missing {
			condition.Status = metav1.ConditionFalse
			continue // PlacementVerified says so
		}
		text, done := part.describeProgress()
		parts = append(parts, fmt.Sprintf("Placement %q: %s", part.Choice.Placement, text))
		if !done {
			condition.Status = metav1.ConditionFalse
		}
	}
	if condition.Status == metav1.ConditionFalse {
		condition.Reason = workv1alpha1.ReasonProgressing
	}
	condition.Message = strings.Join(append(parts, judgedBy(all)...), ". ")
	return condition
}

// describeProgress says how far the clusters of a Placement are, and whether they are done.
func (p progress) describeProgress() (string, bool) {
	of := map[rollout.ClusterStatus]int{}
	var wrong []string
	for _, group := range p.Choice.Groups {
		for _, cluster := range group.Clusters {
			s := p.States[cluster]
			of[s.Status]++
		}
	}
	for _, cluster := range p.Decision.Failed {
		why := p.States[cluster].Why
		if p.States[cluster].Status == rollout.Progressing {
			why = "not done by the deadline"
		}
		wrong = append(wrong, fmt.Sprintf("%s (%s)", cluster, why))
	}
	text := fmt.Sprintf("%d of %d clusters succeeded", of[rollout.Succeeded], p.Choice.Clusters)
	if n := len(p.Decision.Apply); n > 0 {
		text += fmt.Sprintf(", %d being changed", n)
	}
	if n := of[rollout.Progressing]; n > 0 {
		text += fmt.Sprintf(", %d in progress", n)
	}
	if n := p.Decision.Waiting; n > 0 {
		text += fmt.Sprintf(", %d waiting for others", n)
	}
	if len(wrong) > 0 {
		text += fmt.Sprintf(", %d failed: %s", len(wrong), joinSome(wrong))
	}
	text += describeProving(p.Decision.Proving)
	if p.Decision.Stopped != "" {
		text += fmt.Sprintf(". The rollout has stopped: %s. Change the template, or maxFailures", p.Decision.Stopped)
	}
	text += p.describeUnplaced()
	return text, len(p.Choice.Problems) == 0 && p.Choice.Settled && len(p.Absent)+len(p.Foreign) == 0 && of[rollout.Succeeded] == p.Choice.Clusters && p.Decision.Done
}

// describeUnplaced says which clusters get no works, since they have no namespace for them.
func (p progress) describeUnplaced() string {
	text := ""
	if len(p.Absent) > 0 {
		text += fmt.Sprintf(". %d have no namespace on the hub, because they have not been accepted: %s", len(p.Absent), joinSome(p.Absent))
	}
	if len(p.Foreign) > 0 {
		text += fmt.Sprintf(". %d have a namespace on the hub that is not for their works, because it is being deleted, or has no label %s "+
			"and nobody who may accept them has registered them: accept them, or label their namespaces: %s",
			len(p.Foreign), clusterv1.LabelClusterName, joinSome(p.Foreign))
	}
	return text
}

// describeProving says which clusters the rollout waits for although they have succeeded, and until
// when: what is left of the time would change the status again and again.
func describeProving(all []rollout.ProvingCluster) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, fmt.Sprintf("%s until %s", p.Cluster, p.Until.UTC().Format(time.RFC3339)))
	}
	if len(texts) == 0 {
		return ""
	}
	return ". Works have to stay successful for minSuccessTime: " + joinSome(texts)
}

// countUpdated is how many clusters have the template.
func (p progress) countUpdated() int {
	n := 0
	for _, s := range p.States {
		if s.Status != rollout.ToApply {
			n++
		}
	}
	return n
}

// judgedBy says which conditions the states are from.
func judgedBy(all []progress) []string {
	rich := 0
	plain := 0
	for _, part := range all {
		for _, s := range part.States {
			switch {
			case s.Status == rollout.ToApply:
			case s.ByProgressing:
				rich++
			default:
				plain++
			}
		}
	}
	switch {
	case rich+plain == 0:
		return nil
	case plain == 0:
		return []string{"Judged by condition Progressing of the ManifestWorks"}
	case rich == 0:
		return []string{"Judged by conditions Applied and Available of the ManifestWorks, because they have no condition Progressing"}
	}
	return []string{fmt.Sprintf("Judged by condition Progressing of %d ManifestWorks, and by Applied and Available of %d, which have none", rich, plain)}
}

// joinSome joins some of the items.
func joinSome(items []string) string {
	if more := len(items) - namesMax; more > 0 {
		return strings.Join(items[:namesMax], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(items, ", ")
}

func describeNames(kind string, names []string) string {
	if len(names) != 1 {
		kind += "s"
	}
	return kind + " " + joinSome(names)
}
