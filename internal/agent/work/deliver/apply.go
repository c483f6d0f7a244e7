// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// serverSideApply leaves conflicts, the field manager and fields to ignore to
// the options of the user.
type serverSideApply struct {
	options *workv1.ServerSideApplyConfig
	ignored *ignore.CompiledFields // nil for none
}

func (serverSideApply) decideAction(hash apply.ManifestHash, past apply.LastWrite, live apply.LiveState) deliveryAction {
	return decideToApply(hash, past, live)
}
func (serverSideApply) statusNote() string { return "" }

func (s serverSideApply) deliverObject(ctx context.Context, o *object) { o.restoreObject(ctx, s) }

// prepareApply looks at the object before it is applied with the manager that the
// user chose, unless it is known to be ours alone. It leaves the ignored fields
// away if the object exists, and returns another manager if another work
// applies the object with this one: under one name, each would take away what
// only the other has.
func (s serverSideApply) prepareApply(ctx context.Context, o *object, stamp *apply.Stamp) (apply.FieldWriter, error) {
	as := apply.FieldWriter{Manager: s.options.FieldManager, Force: s.options.Force}
	if as.Manager == "" {
		as.Manager = workv1.DefaultFieldManager
	}
	if s.ignored == nil && o.isSoleOwner() {
		return as, nil
	}
	if s.ignored != nil {
		stamp.Annotations = map[string]string{workv1.AnnotationConfigSpecHash: hex.EncodeToString(o.want.Manifest.Hash[:])}
	}
	seen, err := o.Member.Get(ctx, o.want.Resource.Version, o.want.Object)
	if apierrors.IsNotFound(err) {
		return as, nil
	}
	if err != nil {
		return as, err
	}
	for i := range seen.OwnerReferences {
		owner := &seen.OwnerReferences[i]
		if owner.Kind == workv1.KindAppliedManifestWork && owner.UID != o.Record.UID() &&
			apply.IsApplier(seen, as.Manager, owner.UID) && !o.Ledger.TakesOver(ctx, owner.Name) {
			as.Manager += strings.TrimPrefix(o.Record.FieldManager(), workv1.DefaultFieldManager)
			break
		}
	}
	if s.ignored == nil {
		return as, nil
	}
	return as, s.excludeIgnored(ctx, o, stamp, seen, as.Manager)
}

// excludeIgnored takes the ignored fields out of what is applied, and gives up
// what we own of them: the server would delete that.
func (s serverSideApply) excludeIgnored(
	ctx context.Context, o *object, stamp *apply.Stamp, seen *metav1.PartialObjectMetadata, manager string,
) error {
	content, err := apply.SelectableContent(ctx, o.rawManifest())
	if err != nil {
		return malformedManifest(o.want, err)
	}
	changed := changedSince(seen.Annotations[workv1.AnnotationConfigSpecHash], o.want.Manifest.Hash)
	selected, err := s.ignored.SelectPaths(ctx, content, changed, o.Budget)
	if err != nil {
		return err
	}
	stamp.Without = apply.StoredPaths(content, selected)
	_, err = o.disownFields(ctx, seen, manager, content, stamp.Without)
	return err
}

func malformedManifest(want *plan.DesiredObject, err error) error {
	return fmt.Errorf("manifest %d: %w", want.Ordinal, err)
}

// disownFields gives up what we own of the fields at the paths of the manifest. It returns
// the object as it is then. Without items of lists in the paths, there need be no content.
func (o *object) disownFields(
	ctx context.Context, seen *metav1.PartialObjectMetadata, manager string, content map[string]any, paths []ignore.Path,
) (*metav1.PartialObjectMetadata, error) {
	rest, changed, err := ignore.DisownFields(seen.ManagedFields, func(entry *metav1.ManagedFieldsEntry) bool {
		return o.isAppliers(manager, entry)
	}, content, paths, o.Declared.DeclaredFor(ctx, o.want.Manifest.Kind))
	if err != nil || !changed {
		return seen, err
	}
	body, err := apply.SetManagers(seen, rest)
	if err != nil {
		return nil, err
	}
	return o.Member.MergePatch(ctx, o.want.Resource.Version, o.want.Object, body, apply.FieldWriter{Manager: manager})
}

// isAppliers reports whether an entry of managedFields is of what the manager applied, with
// which the work applies the object now, or of what the work wrote before.
func (o *object) isAppliers(manager string, entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply || o.isOurs(entry)
}

// changedSince reports whether an object was made from a manifest with another
// hash. A hash that is not of ours is of another agent: that the agent changed
// does not mean that the manifest did.
func changedSince(noted string, hash apply.ManifestHash) bool {
	before, err := hex.DecodeString(noted)
	ours := err == nil && len(before) == len(hash)
	return noted == "" || ours && apply.ManifestHash(before) != hash
}

// applyOverConflict applies an object again with force, if that is wanted, unless
// another work owns a field that the two do not agree about: works do not
// overrule each other.
func (o *object) applyOverConflict(ctx context.Context, body []byte, as apply.FieldWriter, conflict error) (*metav1.PartialObjectMetadata, error) {
	want := o.want
	managers := apply.ConflictingManagers(conflict)
	if len(managers) == 0 {
		return nil, conflict // the object is not the one that we looked at
	}
	seen, err := o.Member.Get(ctx, want.Resource.Version, want.Object)
	if err != nil {
		return nil, err
	}
	others := (encounter{of: o}).otherWorks(ctx, seen.OwnerReferences)
	works := map[string]string{}
	for i := range seen.ManagedFields {
		entry := &seen.ManagedFields[i]
		if !managers.Has(entry.Manager) || len(works) >= overruledMax {
			continue
		}
		if record, is := oneOf(others, entry); is {
			works[entry.Manager] = (encounter{of: o}).workOf(record)
		}
	}
	for _, record := range slices.Sorted(maps.Values(others)) { // what another work made and does not keep up is theirs, too
		if manager := ledger.FieldManagerOf(record); !as.Force && managers.Has(manager) && len(works) < overruledMax {
			works[manager] = (encounter{of: o}).workOf(record)
		}
	}
	if len(works) > 0 {
		return nil, &disagreement{works: works, conflict: conflict}
	}
	if !as.Force {
		return nil, conflict
	}
	return o.Member.Apply(ctx, want.Resource.Version, want.Object, body, as)
}
