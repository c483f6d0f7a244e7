// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/report"
	"github.com/capstan-io/capstan/internal/agent/work/size"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

const (
	// shorterRetry is how soon a list is written shorter that the member refused.
	shorterRetry = 100 * time.Millisecond
	// heardDelay is how long a list waits that nobody waits for. What happens to
	// objects meanwhile does not wait for it, and costs no write more.
	heardDelay = time.Second
)

// AppliedList is the list of the objects of a record, status.appliedResources.
type AppliedList struct {
	record *AppliedRecord
	plan   *plan.Plan
	// Gone are objects that are not there any more, although nothing tells of
	// their type.
	Gone map[apply.ObjectRef]bool
	// Heard says that the hub has heard before that these manifests are applied, so
	// that nobody waits for the list.
	Heard bool
}

// AppliedList returns the list of the objects that the plan applies, and of those
// that the record owned before.
func (r *AppliedRecord) AppliedList(p *plan.Plan) *AppliedList {
	return &AppliedList{record: r, plan: p}
}

// UnlistGone takes off the list of the record what is gone.
func UnlistGone(ctx context.Context, r *AppliedRecord, gone func(apply.ObjectRef) bool) error {
	after := r.object.DeepCopy()
	after.Status.AppliedResources = slices.DeleteFunc(after.Status.AppliedResources,
		func(listed workv1.AppliedManifestResourceMeta) bool { return gone(ObjectOf(&listed)) })
	if err := conditions.PatchStatus(ctx, r.ledger.Client, r.object, after); err != nil {
		return fmt.Errorf("unlisting objects of manifestwork %q that are gone: %w", r.work, err)
	}
	r.setObject(after)
	return nil
}

// Write writes which objects there are into the record's status, and drops
// types that have none any more, provided that nothing is left of what had to
// go. Again is when to call it again if nothing happens; zero is never.
func (l *AppliedList) Write(ctx context.Context, leftovers bool) (again time.Duration, err error) {
	r := l.record
	after := r.object.DeepCopy()
	after.Status.EvictionStartTime = nil
	after.Status.AppliedResources = l.fitResources().list
	if wait := l.writeDelay(after); wait > 0 {
		return wait, nil
	}
	if err := conditions.PatchStatus(ctx, r.ledger.Client, r.object, after); err != nil {
		if shorter := l.roomBytes() / 2; size.TooLarge(err) && shorter >= listBytesLeast {
			r.memory.listRoom = shorter
			return shorterRetry, nil // and says first what the list will lack
		}
		return 0, fmt.Errorf("listing the objects of manifestwork %q: %w", r.work, err)
	}
	if after.ResourceVersion != r.object.ResourceVersion {
		r.setObject(after)
		// The cache may have it already, and then nothing else looks again.
		if _, _, err := r.ledger.readRecord(ctx, r.memory, after.Name); err != nil {
			return 0, err
		}
	}
	wanted := l.plan.OwnedTypes()
	if leftovers || r.IsPending() || len(wanted) == len(TypesOf(r.object)) || !l.plan.IsResolved() {
		return 0, nil
	}
	if err := r.writeNotes(ctx, wanted, testament{option: r.object.Annotations[workv1.AnnotationDeleteOption]}); err != nil {
		return 0, err
	}
	r.WatchTypes(plan.SortTypes(slices.Concat(wanted, TypesOf(r.object))))
	return 0, nil
}

// writeDelay returns how long the list can wait, zero if it is to be written now.
// Objects that the inventory knows are found without the list, which says the
// same for people and other agents; so while many works wait for their first
// write it gives way to these, and many changes cost one write.
func (l *AppliedList) writeDelay(after *workv1.AppliedManifestWork) time.Duration {
	r := l.record
	now := r.ledger.Clock.Now()
	var delay time.Duration
	switch {
	case equality.Semantic.DeepEqual(after.Status, r.object.Status), r.object.Status.EvictionStartTime != nil, r.hasBlindType():
	case r.ledger.Busy():
		delay = r.ledger.ListDelay
		r.ledger.Postponed(r.work)
	case l.Heard && !r.memory.listAt.After(now.Add(heardDelay)): // not one that was busy's
		delay = min(heardDelay, r.ledger.ListDelay)
	}
	if delay > 0 && r.memory.listAt.IsZero() {
		r.memory.listAt = now.Add(delay)
	}
	if delay > 0 && now.Before(r.memory.listAt) {
		return r.memory.listAt.Sub(now)
	}
	r.memory.listAt = time.Time{}
	return 0
}

// allResources returns the objects that there are, sorted.
func (l *AppliedList) allResources() []workv1.AppliedManifestResourceMeta {
	var list []workv1.AppliedManifestResourceMeta
	have := map[apply.ObjectRef]struct{}{}
	for _, it := range l.plan.Items {
		// What was done for an object of a kind that is not known now, the
		// inventory and the record know.
		want := &it.Desired
		uid := it.History.Past.Mark.UID
		if !it.IsResolved() || uid == "" || want.ReadOnly {
			continue
		}
		have[want.Object] = struct{}{}
		list = append(list, metaOf(want.Object, want.Resource.Version, uid))
	}
	known := l.record.ledger.Inventory
	for _, object := range known.OwnedBy(l.record.UID()) {
		live, _ := known.Get(object)
		if _, ok := have[object]; !ok && live != nil {
			have[object] = struct{}{}
			list = append(list, metaOf(object, live.Version, live.Mark.UID))
		}
	}
	// What cannot be watched, or is not listed yet, stays until it is known to be gone.
	for i := range l.record.object.Status.AppliedResources {
		old := &l.record.object.Status.AppliedResources[i]
		_, ok := have[ObjectOf(old)]
		if !ok && known.TypeState(GroupResource(old)) != nil && !l.Gone[ObjectOf(old)] {
			list = append(list, *old)
		}
	}
	slices.SortFunc(list, compareListed)
	return list
}

// compareListed orders by group, version and resource, then by namespace and
// name, as other agents do.
func compareListed(a, b workv1.AppliedManifestResourceMeta) int {
	return cmp.Or(
		strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Resource, b.Resource),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
	)
}

// ShortageNote says what the list lacks, and whether that is a fault.
func (l *AppliedList) ShortageNote() report.ListNote {
	record := l.record.object
	if (len(l.plan.Items)+l.record.ledger.Inventory.CountOwned(record.UID)+len(record.Status.AppliedResources))*listedBytesMax <= l.roomBytes() {
		return report.ListNote{}
	}
	fits := l.fitResources()
	switch {
	case fits.lost > 0:
		return report.ListNote{Failed: true, Text: fmt.Sprintf("AppliedManifestWork %q on the cluster has no room for all objects of the types "+
			"that the agent may not list and watch: grant it list and watch, or split the work.", record.Name)}
	case fits.left > 0:
		return report.ListNote{Text: fmt.Sprintf("AppliedManifestWork %q on the cluster is full and does not list %d of the objects, "+
			"which still have its ownerReference.", record.Name, fits.left)}
	}
	return report.ListNote{}
}

// ItemsWithoutRoom returns those items whose objects would have to be in the list, and
// do not fit: they must not be applied.
func (l *AppliedList) ItemsWithoutRoom() map[*plan.ManifestItem]apply.ObjectProblem {
	old := l.record.object.Status.AppliedResources
	if (len(l.plan.Items)+len(old))*listedBytesMax <= l.roomBytes() {
		return nil
	}
	unknown := map[schema.GroupResource]bool{}
	needed := func(resource schema.GroupResource) bool {
		is, seen := unknown[resource]
		if !seen {
			is = l.record.ledger.Inventory.TypeState(resource) != nil
			unknown[resource] = is
		}
		return is
	}
	bytes := 0
	listed := make(map[apply.ObjectRef]struct{}, len(old))
	for i := range old {
		if needed(GroupResource(&old[i])) {
			listed[ObjectOf(&old[i])] = struct{}{}
			bytes += listedSize(&old[i])
		}
	}
	noRoom := map[*plan.ManifestItem]apply.ObjectProblem{}
	for _, it := range l.plan.Items {
		want := &it.Desired
		if !it.IsDeliverable() || want.ReadOnly || !needed(want.Resource.GroupResource()) {
			continue
		}
		if _, ok := listed[want.Object]; ok {
			continue
		}
		entry := metaOf(want.Object, want.Resource.Version, anyUID)
		if bytes += listedSize(&entry); bytes > l.roomBytes() {
			noRoom[it] = l.cannotList(want)
		}
	}
	return noRoom
}

// cannotList is why an object is not applied that could not be listed.
func (l *AppliedList) cannotList(want *plan.DesiredObject) apply.ObjectProblem {
	return apply.ObjectProblem{
		Trouble: apply.TroubleForbidden,
		Message: fmt.Sprintf("Not applied: AppliedManifestWork %q has no room to list it, and without that it could not be "+
			"found again: the agent may not list and watch %s, or has not listed them yet. Grant it list and watch, or split the work.",
			l.record.object.Name, want.Resource.GroupResource()),
	}
}
