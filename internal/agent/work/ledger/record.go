// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// askAgain is after how long an object, or a record, is asked again to go that
// shows no sign of it.
const askAgain = 10 * time.Second

// errGoing ends a pass that met a record which someone deletes.
var errGoing = errors.New("it is being deleted")

// RecordMemory is what is remembered of a record from pass to pass. The zero value
// is that of one never seen. Only the pass that is under way uses it, but for
// ObserveRecord and DeletionRequests.
type RecordMemory struct {
	// written is the record as last written, until the cache has caught up.
	written atomic.Pointer[workv1.AppliedManifestWork]
	// dropped is a record whose finalizer we removed; the cache may still have it.
	dropped types.UID
	// deleted is when the record was asked to go.
	deleted time.Time
	// requests are the objects that were asked to go.
	requests DeletionRequests
	// claimed and denied are when this agent claimed the record of another agent,
	// and when that one denied it.
	claimed, denied time.Time
	// listAt is when the list of objects is to be written, if it is not up to date.
	listAt time.Time
	// listRoom is how many bytes that list may have if the member takes less than
	// it should; 0 if that is not so.
	listRoom int
	// keeper is what is remembered of the keeper of the work's objects, if any.
	keeper *RecordMemory
}

// ObserveRecord takes in that the cache has a state of the record. It is safe for
// concurrent use.
func (m *RecordMemory) ObserveRecord(record *workv1.AppliedManifestWork) {
	if written := m.written.Load(); written != nil && written.ResourceVersion == record.ResourceVersion {
		m.written.CompareAndSwap(written, nil)
	}
}

// AppliedRecord is the record of a work in one pass, or the place of one that there
// is not.
type AppliedRecord struct {
	ledger     *Ledger
	memory     *RecordMemory
	name, work string
	object     *workv1.AppliedManifestWork // nil if there is none
	cached     bool
}

// Exists reports whether there is a record. Most other methods need that.
func (r *AppliedRecord) Exists() bool { return r.object != nil }

// IsCached reports whether the cache has the record, although it may be gone.
func (r *AppliedRecord) IsCached() bool { return r.cached }

// Object is the record as it was read or written last.
func (r *AppliedRecord) Object() *workv1.AppliedManifestWork { return r.object }

// UID returns the UID of the record, with which it owns objects.
func (r *AppliedRecord) UID() types.UID { return r.object.UID }

// IsDeleted reports whether someone deleted the record.
func (r *AppliedRecord) IsDeleted() bool { return r.object != nil && r.object.DeletionTimestamp != nil }

// FieldManager returns the field manager of the work with the record. It is not
// the same for two works, so that what one lets go of, the other keeps.
func (r *AppliedRecord) FieldManager() string { return FieldManagerOf(r.object.Name) }

// DeletionRequests are the objects that were asked to go.
func (r *AppliedRecord) DeletionRequests() *DeletionRequests { return &r.memory.requests }

// OwnerReference returns the ownerReference of what the record owns.
func (r *AppliedRecord) OwnerReference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: workv1.KindAppliedManifestWork, Name: r.object.Name, UID: r.object.UID,
	}
}

// FieldManagerOf is AppliedRecord.FieldManager for the record of a name.
func FieldManagerOf(record string) string {
	sum := sha256.Sum256([]byte(record))
	return workv1.DefaultFieldManager + "-" + hex.EncodeToString(sum[:8])
}

// IsShared reports whether a work other than that of the record applied the
// object with the manager.
func IsShared(seen *metav1.PartialObjectMetadata, manager string, record types.UID) bool {
	for i := range seen.ManagedFields {
		entry := &seen.ManagedFields[i]
		if entry.Manager != manager {
			continue
		}
		owners := apply.AppliedOwners(entry)
		if slices.ContainsFunc(seen.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID != record && owners.Has(owner.UID) }) {
			return true
		}
	}
	return false
}

// EnsureRecord makes sure, before anything is applied, that the record exists and
// has the types of the objects and what is to be known if the work vanishes, and
// that the types are watched.
func (r *AppliedRecord) EnsureRecord(ctx context.Context, wanted []schema.GroupVersionResource, work *workv1.ManifestWork) error {
	ending, err := formatOption(work.Spec.DeleteOption)
	if err != nil {
		return err
	}
	will := testament{option: ending, origin: originOf(work)}
	if r.object == nil {
		if err := r.createRecord(ctx, wanted, will); err != nil {
			return err
		}
		if r.object.DeletionTimestamp != nil {
			return apierrors.NewConflict(schema.GroupResource{Group: workv1.GroupName, Resource: "appliedmanifestworks"},
				r.object.Name, errGoing)
		}
	}
	if err := r.AdoptObjects(ctx); err != nil {
		return err
	}
	noted := TypesOf(r.object)
	all := plan.SortTypes(slices.Concat(noted, wanted))
	if len(all) > len(noted) || r.object.Annotations[workv1.AnnotationDeleteOption] != ending || renewedBy(r.object, work) ||
		r.object.Spec.AgentID != r.ledger.AgentID || !slices.Contains(r.object.Finalizers, workv1.FinalizerAppliedManifestWorkCleanup) {
		if err := r.writeNotes(ctx, all, will); err != nil {
			return err
		}
	}
	r.WatchTypes(all)
	return nil
}

// WatchTypes makes the inventory watch these types, and no others, on behalf of the
// record. A watch outlives the pass that starts it.
func (r *AppliedRecord) WatchTypes(resources []schema.GroupVersionResource) {
	r.ledger.Inventory.UseTypes(r.ledger.Life, r.object.Name, resources)
}

// createRecord makes the record, or takes the one that is there.
func (r *AppliedRecord) createRecord(ctx context.Context, resources []schema.GroupVersionResource, will testament) error {
	record := &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name:        r.name,
			Annotations: map[string]string{workv1.AnnotationResourceTypes: formatTypes(resources)},
			Finalizers:  []string{workv1.FinalizerAppliedManifestWorkCleanup},
		},
		Spec: workv1.AppliedManifestWorkSpec{
			HubHash: r.ledger.hubHash, AgentID: r.ledger.AgentID, ManifestWorkName: r.work,
		},
	}
	will.annotateRecord(record)
	err := r.ledger.Client.Create(ctx, record)
	if apierrors.IsAlreadyExists(err) { // made before, and not in the cache yet
		err = r.ledger.Reader.Get(ctx, client.ObjectKeyFromObject(record), record)
	}
	if err != nil {
		return fmt.Errorf("creating appliedmanifestwork %q: %w", r.name, err)
	}
	r.setObject(record)
	return nil
}

// writeNotes writes the types, the testament, and what identifies the agent.
func (r *AppliedRecord) writeNotes(ctx context.Context, resources []schema.GroupVersionResource, will testament) error {
	after := r.object.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, workv1.AnnotationResourceTypes, formatTypes(resources))
	will.annotateRecord(after)
	after.Spec.AgentID = r.ledger.AgentID
	if !slices.Contains(after.Finalizers, workv1.FinalizerAppliedManifestWorkCleanup) {
		after.Finalizers = append(after.Finalizers, workv1.FinalizerAppliedManifestWorkCleanup)
	}
	patch := client.MergeFromWithOptions(r.object, client.MergeFromWithOptimisticLock{})
	if err := r.ledger.Client.Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("recording the types of objects in appliedmanifestwork %q: %w", r.object.Name, err)
	}
	r.setObject(after)
	return nil
}

// setObject takes in a record as the server answered.
func (r *AppliedRecord) setObject(record *workv1.AppliedManifestWork) {
	compressed.BoundRecord(record)
	r.object = record
	r.memory.written.Store(record)
	r.ledger.large.keepWritten(r.memory, record)
}

// AdoptObjects labels the objects of a record that another agent left, so that they
// are seen by the inventory. Only when all are does the record get our
// annotation.
func (r *AppliedRecord) AdoptObjects(ctx context.Context) error {
	if _, ours := r.object.Annotations[workv1.AnnotationResourceTypes]; ours {
		return nil
	}
	label, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{workv1.LabelManaged: "true"}}})
	if err != nil {
		return fmt.Errorf("encoding the label %q: %w", workv1.LabelManaged, err)
	}
	resources := r.object.Status.AppliedResources
	for i := range resources {
		object := ObjectOf(&resources[i])
		seen, err := r.ledger.Member.Get(ctx, resources[i].Version, object)
		if err == nil && string(seen.UID) == resources[i].UID && seen.Labels[workv1.LabelManaged] == "" {
			_, err = r.ledger.Member.MergePatch(ctx, resources[i].Version, object, label, apply.FieldWriter{Manager: r.FieldManager()})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// FindUncached looks for a record that was made by a request whose answer we did not
// hear, and that the cache does not have yet.
func (r *AppliedRecord) FindUncached(ctx context.Context) error {
	record := &workv1.AppliedManifestWork{}
	err := r.ledger.Reader.Get(ctx, client.ObjectKey{Name: r.name}, record)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading appliedmanifestwork %q: %w", r.name, err)
	}
	if err == nil && record.UID != r.memory.dropped && r.ledger.ownsRecord(record) {
		r.setObject(record)
	}
	return nil
}

// DeleteRecord marks the record as deleted, unless that was done a moment ago; its
// finalizer keeps it.
func (r *AppliedRecord) DeleteRecord(ctx context.Context) error {
	now := r.ledger.Clock.Now()
	if r.object.DeletionTimestamp != nil || !r.memory.deleted.IsZero() && now.Sub(r.memory.deleted) < askAgain {
		return nil
	}
	err := r.ledger.Client.Delete(ctx, r.object, client.Preconditions{UID: &r.object.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting appliedmanifestwork %q: %w", r.object.Name, err)
	}
	r.memory.deleted = now
	return nil
}

// RemoveFinalizer removes the finalizer of the record, which then vanishes.
func (r *AppliedRecord) RemoveFinalizer(ctx context.Context) error {
	after := r.object.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers,
		func(f string) bool { return f == workv1.FinalizerAppliedManifestWorkCleanup })
	err := r.ledger.Client.Patch(ctx, after, client.MergeFrom(r.object))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of appliedmanifestwork %q: %w", r.object.Name, err)
	}
	r.WatchTypes(nil)
	r.memory.deleted = time.Time{} // the next record is another one
	r.memory.dropped = r.object.UID
	r.memory.written.Store(nil)
	return nil
}

// BeginEviction notes that the record has no work, and returns since when.
func (r *AppliedRecord) BeginEviction(ctx context.Context) (time.Time, error) {
	if start := r.object.Status.EvictionStartTime; start != nil {
		return start.Time, nil
	}
	after := r.object.DeepCopy()
	after.Status.EvictionStartTime = &metav1.Time{Time: r.ledger.Clock.Now()}
	if err := conditions.PatchStatus(ctx, r.ledger.Client, r.object, after); err != nil {
		return time.Time{}, fmt.Errorf("recording that appliedmanifestwork %q has no work: %w", r.object.Name, err)
	}
	r.setObject(after)
	return after.Status.EvictionStartTime.Time, nil
}
