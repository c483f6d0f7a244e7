// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// attempts is how often an object is looked at anew that changes all the while.
const attempts = 5

// departure is the removal of one object.
type departure struct {
	*ObjectRemover
	job       *RemoveJob
	candidate removalCandidate
	end       plan.Fate
	left      plan.Leftover
}

// releaseObject deletes an object that only the record owns, unless it is to stay, and
// ends the share of the record in others. It reports whether nothing is left to be
// done; the problem of what is left says why not, if it is not only a matter of
// time.
func (d *departure) releaseObject(ctx context.Context) (gone bool) {
	object := d.left.Object
	owner := d.job.Record.UID()
	live, _ := d.Inventory.Get(object)
	if live != nil && d.end == plan.FateDelete && !isNamespace(object) && apply.OwnershipOf(owner, live.OwnerUIDs()) == apply.ClaimSole {
		if live.Going != nil || d.job.Record.DeletionRequests().WasRequestedLately(object, d.Clock.Now()) {
			return false
		}
		switch err := d.Member.Delete(ctx, d.candidate.version, object, live.Mark.UID, live.ResourceVersion); {
		case err == nil:
			d.job.Record.DeletionRequests().NoteRequest(object, d.Clock.Now())
			return false // until the watch says so
		case apierrors.IsNotFound(err):
			return false
		case !apierrors.IsConflict(err):
			d.left.Problem = apply.ExplainError(err, "delete", object)
			return false
		}
	}
	for range attempts {
		gone, err := d.releaseLive(ctx)
		if !apierrors.IsConflict(err) {
			verb := "patch"
			if d.end == plan.FateDelete {
				verb = "delete"
			}
			d.left.Problem = apply.ExplainError(err, verb, object)
			return gone && err == nil
		}
	}
	d.left.Problem = apply.ObjectProblem{Trouble: apply.TroubleRaced, Message: "The object keeps changing."}
	return false
}

// releaseLive lets go of an object as it is on the server now.
func (d *departure) releaseLive(ctx context.Context) (gone bool, err error) {
	seen, err := d.Member.Get(ctx, d.candidate.version, d.left.Object)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !d.Kinds.ServesResource(d.objectResource()) {
		return true, nil // of a kind that is gone, our right to it may be gone, too
	}
	if err != nil {
		return false, err
	}
	var owners []types.UID
	for i := range seen.OwnerReferences {
		if seen.OwnerReferences[i].Kind == workv1.KindAppliedManifestWork {
			owners = append(owners, seen.OwnerReferences[i].UID)
		}
	}
	switch {
	case !slices.Contains(owners, d.job.Record.UID()):
		return true, nil
	case len(owners) == 1 && shouldDelete(d.end, d.left.Object, seen):
		if seen.DeletionTimestamp == nil {
			return false, d.Member.Delete(ctx, d.candidate.version, d.left.Object, seen.UID, seen.ResourceVersion)
		}
		d.left.Finalizers, d.left.Since = seen.Finalizers, seen.DeletionTimestamp.Unix()
		return false, nil
	default:
		return true, d.releaseOwnership(ctx, seen)
	}
}

func (d *departure) objectResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: d.left.Object.Group, Version: d.candidate.version, Resource: d.left.Object.Resource}
}

// releaseOwnership ends the share of the record in an object that stays. If it has to
// go, but for others, the fields that only our manifest had go, too; otherwise
// only the ownership ends or moves.
func (d *departure) releaseOwnership(ctx context.Context, seen *metav1.PartialObjectMetadata) error {
	if d.end == plan.FateDelete {
		released, err := d.releaseFields(ctx, seen)
		if err != nil {
			return err
		}
		seen = released
	}
	record := d.job.Record
	keeper := d.job.Keeper
	rest := slices.DeleteFunc(slices.Clone(seen.OwnerReferences),
		func(o metav1.OwnerReference) bool { return o.UID == record.UID() })
	if len(rest) < len(seen.OwnerReferences) {
		if d.end == plan.FateMove && !slices.ContainsFunc(rest, func(o metav1.OwnerReference) bool { return o.UID == keeper.UID() }) {
			rest = append(rest, keeper.OwnerReference())
		}
		metadata := map[string]any{"resourceVersion": seen.ResourceVersion, "ownerReferences": rest}
		if !slices.ContainsFunc(rest, func(o metav1.OwnerReference) bool { return o.Kind == workv1.KindAppliedManifestWork }) {
			labels := map[string]any{}
			if d.end == plan.FateOrphan && sentBy(d.job.Work, seen) {
				labels, metadata["annotations"] = nullMarks(seen.Labels), nullMarks(seen.Annotations)
			}
			labels[workv1.LabelManaged] = nil
			metadata["labels"] = labels
		}
		body, err := json.Marshal(map[string]any{"metadata": metadata})
		if err != nil {
			return fmt.Errorf("encoding the release of %s: %w", d.left.Object, err)
		}
		if seen, err = d.Member.MergePatch(ctx, d.candidate.version, d.left.Object, body, apply.FieldWriter{Manager: record.FieldManager()}); err != nil {
			return err
		}
	}
	d.Inventory.ObserveWrite(d.left.Object, seen, record.UID())
	return nil
}

// releaseFields gives up the fields that the work of the record applied, and
// returns the object without those that nobody else did.
func (d *departure) releaseFields(ctx context.Context, seen *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	object := d.left.Object
	for _, manager := range apply.ManagersOf(seen, d.job.Record.UID()) {
		if ledger.IsShared(seen, manager, d.job.Record.UID()) {
			continue
		}
		kind, err := d.Kinds.KindOf(d.objectResource())
		if err != nil {
			return nil, err
		}
		body, err := apply.RenderRelease(kind, object, seen.UID, seen.ResourceVersion)
		if err != nil {
			return nil, err
		}
		released, err := d.Member.Apply(ctx, d.candidate.version, object, body, apply.FieldWriter{Manager: manager})
		if apierrors.IsInvalid(err) {
			continue // the object would lack something without our fields, so they stay
		}
		if err != nil {
			return nil, err
		}
		seen = released
	}
	return seen, nil
}
