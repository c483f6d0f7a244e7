// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/replace"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// claimantsMax is how many owners and managers of an object a message names.
const claimantsMax = 5

// nameBytesMax is how much of the names of records and managers a message has: the member chooses them.
// Those of Kubernetes are not longer.
const nameBytesMax = 253

// takenError says that an object is somebody else's, and is left alone.
type takenError struct{ text string }

func (e *takenError) Error() string { return e.text }

// encounter is that of a work with an object that may be somebody else's.
type encounter struct{ of *object }

// inspectObject looks at the object before it is applied, unless it is known to be the work's. It
// returns an error if that is somebody else's, and has to stay so; of a namespace that others share
// it notes that. What the work takes over whole, it is to adopt; nil for nothing.
func (e encounter) inspectObject(ctx context.Context, as *apply.FieldWriter, stamp *apply.Stamp) (*fieldAdoption, error) {
	want := e.of.want
	if known := e.of.isOwnedByRecord() || !want.Yields && !as.Force; known && !want.Adopts {
		return nil, nil
	}
	seen, err := e.of.Member.Get(ctx, want.Resource.Version, want.Object)
	switch {
	case apierrors.IsNotFound(err):
		as.Force = as.Force && !want.Yields // what somebody makes in between is not taken over, either
		return nil, nil
	case apierrors.IsForbidden(err) && !want.Yields && !want.Adopts:
		return nil, nil // who may only write takes nothing over
	case err != nil:
		return nil, err
	case want.Yields && !e.belongsToWork(ctx, seen):
		return nil, &takenError{text: e.takenMessage(seen)}
	case want.Adopts:
		e.stampAdopted(ctx, seen, stamp)
	}
	if !e.shouldAdopt(seen, *as) {
		return nil, nil
	}
	return &fieldAdoption{of: e.of, as: *as, seen: seen}, nil
}

// shouldAdopt reports whether the work takes over what was brought by hand: not if the object is of a
// work, which has done so, or others have a part in it.
func (e encounter) shouldAdopt(seen *metav1.PartialObjectMetadata, as apply.FieldWriter) bool {
	isNamespace := e.of.want.Object.Group == "" && e.of.want.Object.Resource == "namespaces"
	return !isNamespace && as.Force && !isOwnedByWork(seen)
}

// stampAdopted has the object say that it was there before the work, if it was.
func (e encounter) stampAdopted(ctx context.Context, seen *metav1.PartialObjectMetadata, stamp *apply.Stamp) {
	if seen.Annotations[workv1.AnnotationAdopted] != "true" && (e.belongsToWork(ctx, seen) || isOwnedByWork(seen)) {
		return
	}
	if stamp.Annotations == nil {
		stamp.Annotations = map[string]string{}
	}
	stamp.Annotations[workv1.AnnotationAdopted] = "true"
}

// isOwnedByWork reports whether a work owns the object.
func isOwnedByWork(seen *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(seen.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == workv1.KindAppliedManifestWork
	})
}

// belongsToWork reports whether the object is the work's: the work brought it, whether
// or not with the record that it has now.
func (e encounter) belongsToWork(ctx context.Context, seen *metav1.PartialObjectMetadata) bool {
	if id := plan.PermanentID(e.of.Work); id != "" &&
		seen.Labels[workv1alpha2.LabelManaged] == "true" && seen.Labels[workv1alpha2.LabelWorkID] == id {
		return true
	}
	return slices.ContainsFunc(seen.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == workv1.KindAppliedManifestWork && (owner.UID == e.of.Record.UID() || e.of.Ledger.InheritsFrom(ctx, e.of.Record.Object().Name, owner.Name))
	})
}

// takenMessage says whose the object is, and what to do. Clients of Karmada know the
// sentence that it begins with.
func (e encounter) takenMessage(seen *metav1.PartialObjectMetadata) string {
	name := e.of.want.Object.Name
	if e.of.want.Object.Namespace != "" {
		name = e.of.want.Object.Namespace + "/" + name
	}
	return fmt.Sprintf("resource(kind=%s, %s) already exists in the cluster %s and the %s strategy value is empty, "+
		"Karmada will not manage this resource; it belongs to %s. Delete it in the cluster, or annotate the object on the hub with %s=%s to take it over.",
		e.of.want.Manifest.Kind.Kind, name, e.of.Work.Namespace, policyv1alpha1.AnnotationConflictResolution, e.claimantNames(seen),
		policyv1alpha1.AnnotationConflictResolution, policyv1alpha1.ConflictResolutionOverwrite)
}

// claimantNames names the owners of an object, and who manages its fields.
func (e encounter) claimantNames(seen *metav1.PartialObjectMetadata) string {
	var names []string
	known := sets.New[string]()
	add := func(name string) {
		if !known.Has(name) {
			known.Insert(name)
			names = append(names, name)
		}
	}
	for i := range seen.OwnerReferences {
		owner := &seen.OwnerReferences[i]
		if owner.Kind == workv1.KindAppliedManifestWork {
			add(e.workOf(owner.Name))
			continue
		}
		add(owner.Kind + " " + owner.Name)
	}
	for i := range seen.ManagedFields {
		if entry := &seen.ManagedFields[i]; entry.Subresource == "" {
			add("field manager " + entry.Manager)
		}
	}
	switch {
	case len(names) == 0:
		return "somebody else"
	case len(names) > claimantsMax:
		names = append(names[:claimantsMax], fmt.Sprintf("and %d more", len(names)-claimantsMax))
	}
	return strings.Join(names, ", ")
}

// disagreement is a conflict with other works, by their field managers.
type disagreement struct {
	works    map[string]string
	conflict error
}

func (d *disagreement) Error() string {
	return strings.Join(slices.Sorted(maps.Values(d.works)), ", ") + ": " + d.conflict.Error()
}
func (d *disagreement) Unwrap() error { return d.conflict }

// explainMessage puts the works into the message of the conflict. No name is looked for in what has been put in:
// the member chooses the names of both, and a message could multiply itself.
func (d *disagreement) explainMessage(message string) string {
	var names []string
	for _, manager := range slices.Sorted(maps.Keys(d.works)) {
		if len(manager) <= nameBytesMax {
			names = append(names, "("+manager+")", "("+d.works[manager]+")")
		}
	}
	message = strings.NewReplacer(names...).Replace(message)
	return conditions.ShortenText(message, apply.MessageBytesMax) + " Works do not overwrite each other: keep the fields in one of them only."
}

// otherWorks returns the records of other works that own an object, by UID. Those that the work takes the place of are not in it.
func (e encounter) otherWorks(ctx context.Context, owners []metav1.OwnerReference) map[types.UID]string {
	others := map[types.UID]string{}
	for i := range owners {
		owner := &owners[i]
		if _, twice := others[owner.UID]; twice || owner.Kind != workv1.KindAppliedManifestWork || owner.UID == e.of.Record.UID() {
			continue
		}
		if !e.of.Ledger.TakesOver(ctx, owner.Name) {
			others[owner.UID] = owner.Name
		}
	}
	return others
}

// oneOf returns one of the records for which the manager of an entry of managedFields applied the object, always the same.
func oneOf(records map[types.UID]string, entry *metav1.ManagedFieldsEntry) (record string, is bool) {
	for uid := range apply.AppliedOwners(entry) {
		if name, owns := records[uid]; owns && (!is || name < record) {
			record = name
			is = true
		}
	}
	return record, is
}

// overruledFields returns the fields of other works that a draft changes, at most as many as a message names, and of which record
// each manager is. Each entry of managedFields is read once: an object may have thousands, and as many owners.
func overruledFields(
	ctx context.Context, draft *replace.Draft, managers []metav1.ManagedFieldsEntry, others map[types.UID]string, ours func(*metav1.ManagedFieldsEntry) bool,
) (records map[string]string, causes []metav1.StatusCause, err error) {
	records = map[string]string{}
	for i := range managers {
		if len(causes) == overruledMax || len(others) == 0 {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		record, theirs := oneOf(others, &managers[i])
		if !theirs || ours(&managers[i]) {
			continue
		}
		fields, err := draft.OverriddenPaths(&managers[i], overruledMax-len(causes))
		if err != nil {
			return nil, nil, err
		}
		for _, field := range fields {
			records[managers[i].Manager] = record
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldManagerConflict, Field: field, Message: `conflict with "` + managers[i].Manager + `"`,
			})
		}
	}
	return records, causes, nil
}

// workOf names the work of a record for messages.
func (e encounter) workOf(record string) string {
	return e.of.Ledger.WorkOf(conditions.ShortenText(record, nameBytesMax))
}
