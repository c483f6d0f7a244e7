// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/size"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// A status that is too large is refused for ever, and nobody would hear why. So
// what a work says of its objects gets what is left in the object, in this
// order: conditions, their messages, fields. The same state gives the same
// status, so that nothing is written without a change.

const (
	// feedbackBytesMax is the size in bytes of all fields that a work reports: as
	// much as its manifests may have, as every change of a field writes all.
	feedbackBytesMax = 512 << 10
	// smallStatusBytes is the size in bytes up to which a status fits whatever
	// else the object has: 500 KiB of manifests, 256 KiB of annotations, and their
	// configs.
	smallStatusBytes = 128 << 10
	// summaryBytes are kept in bytes for the conditions of the work itself while
	// they are not known.
	summaryBytes = 64 << 10
	// noteBytes are kept in bytes for saying what is left out.
	noteBytes = 2 << 10
	// summaryMessageBytes is the length in bytes of a message of the work itself
	// when space is short.
	summaryMessageBytes = 1 << 10
	// leastRoom is the size in bytes below which only conditions of the work are tried.
	leastRoom = 16 << 10
	// limitLife is how long less is written after the hub refused a status.
	limitLife = 10 * time.Minute
)

// ReduceAfterRefusal notes in the plan that the hub refused the status, and reports whether
// to try a smaller one.
func ReduceAfterRefusal(err error, p *plan.Plan, status *workv1.ManifestWorkStatus, now time.Time) bool {
	large := size.TooLarge(err)
	before := p.StatusLimit
	if !large && !apierrors.IsInvalid(err) || before != nil && before.Room == 0 {
		return false
	}
	var answer apierrors.APIStatus
	next := &plan.StatusLimit{Until: now.Add(limitLife)}
	if errors.As(err, &answer) {
		next.Why = conditions.ShortenText(plan.ToSentence(answer.Status().Message), summaryMessageBytes)
	}
	if room := StatusBytes(status) / 4; large && room >= leastRoom {
		next.Room = room
	}
	p.StatusLimit = next
	return true
}

// statusRoomFor returns how many bytes a status of so many bytes may take.
func (r *statusComposer) statusRoomFor(bytes int) int {
	if limit := r.Plan.StatusLimit; limit != nil {
		if left := limit.Until.Sub(r.Now); left > 0 {
			r.again = left
			return min(limit.Room, size.ObjectBytesMax)
		}
		r.Plan.StatusLimit = nil
	}
	if bytes <= smallStatusBytes {
		return smallStatusBytes
	}
	return max(leastRoom, size.ObjectBytesMax-BytesWithoutStatus(r.Work))
}

// limitFeedback leaves out the fields of those objects that have the most,
// until the others fit.
func (r *statusComposer) limitFeedback(entries []statusEntry) {
	sizes := make([]int, len(entries))
	all := summaryBytes + noteBytes
	values := 0
	var reporting []int
	for i := range entries {
		all += entryBytes(&entries[i].ManifestCondition)
		if sizes[i] = valuesBytes(entries[i].StatusFeedback.Values); sizes[i] > 0 {
			reporting = append(reporting, i)
			values += sizes[i]
		}
	}
	limit := feedbackBytesMax
	if room := r.statusRoomFor(all); room < feedbackBytesMax+all-values {
		limit = max(0, room-(all-values))
	}
	if values <= limit {
		return
	}
	slices.SortStableFunc(reporting, func(a, b int) int { return cmp.Compare(sizes[a], sizes[b]) })
	message := fmt.Sprintf("The values of this object were dropped: those of all objects of the work exceed %d KiB, "+
		"and objects with few values take precedence. Report fewer or smaller fields, or split the work.", limit>>10)
	if limit>>10 == 0 {
		message = "The values of this object were dropped: there is no room for them beside the conditions of all objects. Split the work."
	}
	for _, i := range reporting {
		if limit -= sizes[i]; limit >= 0 {
			continue
		}
		e := &entries[i]
		e.StatusFeedback.Values = nil
		meta.RemoveStatusCondition(&e.Conditions, workv1.ManifestConditionStatusFeedbackSynced)
		e.setCondition(feedbackCondition(nil, message))
	}
}

// fitStatus shortens the status if there is no room for it, and says so.
func (r *statusComposer) fitStatus() {
	status := r.status
	bytes := StatusBytes(status)
	room := r.statusRoomFor(bytes)
	refused := r.Plan.StatusLimit
	if bytes <= room && refused == nil {
		return
	}
	total := len(status.ResourceStatus.Manifests)
	left := shrinkStatus(status, room-noteBytes)
	note := ""
	switch {
	case refused != nil && left > 0:
		note = fmt.Sprintf(" status.resourceStatus omits %d of %d manifests, because the hub rejected a larger status: %s", left, total, refused.Why)
	case left > 0:
		note = fmt.Sprintf(" status.resourceStatus omits %d of %d manifests, because the ManifestWork has no room for more: "+
			"split it to see all.", left, total)
	}
	if note == "" {
		return
	}
	applied := r.appliedCondition()
	applied.Message = conditions.ShortenText(applied.Message, summaryMessageBytes) + note
	conditions.SetCondition(&status.Conditions, r.Work.Generation, applied)
}

// shrinkStatus makes the status smaller until it fits into the room, and returns how
// many manifests it has no entry for.
func shrinkStatus(status *workv1.ManifestWorkStatus, room int) (left int) {
	manifests := status.ResourceStatus.Manifests
	for _, limit := range []int{1024, 256, 96} { // bytes of a message
		if StatusBytes(status) <= room {
			return 0
		}
		for i := range manifests {
			cutMessages(manifests[i].Conditions, limit)
		}
	}
	cutMessages(status.Conditions, summaryMessageBytes)
	for i := range manifests {
		list := manifests[i].Conditions
		for j := range list {
			if isExpected(&list[j]) {
				list[j].Message = ""
			}
		}
	}
	if StatusBytes(status) <= room {
		return 0
	}
	return dropManifests(status, room)
}

// dropManifests keeps the entries of those manifests that matter most, as far as
// there is room: Complete ones, without which the objects would be applied
// again, then those about which something is wrong.
func dropManifests(status *workv1.ManifestWorkStatus, room int) (left int) {
	manifests := status.ResourceStatus.Manifests
	order := make([]int, len(manifests))
	ranks := make([]int, len(manifests))
	for i := range manifests {
		order[i], ranks[i] = i, entryRank(manifests[i].Conditions)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	status.ResourceStatus.Manifests = nil
	room -= StatusBytes(status)
	for n, i := range order {
		if room -= entryBytes(&manifests[i]); room < 0 {
			order = order[:n]
			break
		}
	}
	slices.Sort(order)
	for _, i := range order {
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, manifests[i])
	}
	return len(manifests) - len(order)
}

// entryRank is how much an entry matters; less is more.
func entryRank(list []metav1.Condition) int {
	fine := true
	for i := range list {
		if list[i].Type == workv1.ManifestConditionComplete && list[i].Status == metav1.ConditionTrue {
			return 0
		}
		fine = fine && isExpected(&list[i])
	}
	if !fine {
		return 1
	}
	return 2
}

// isExpected reports whether a condition of the agent's own says that all is well.
func isExpected(c *metav1.Condition) bool {
	switch c.Type {
	case workv1.ManifestConditionApplied, workv1.ManifestConditionAvailable, workv1.ManifestConditionStatusFeedbackSynced:
		return c.Status == metav1.ConditionTrue
	}
	return false
}

func cutMessages(list []metav1.Condition, limit int) {
	for i := range list {
		list[i].Message = conditions.ShortenText(list[i].Message, limit)
	}
}
