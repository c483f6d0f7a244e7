// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/agent/work/ledger"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/replace"
)

// ownership brings what the work owns of an object into the one entry of managedFields that
// counts when it is applied, after it was.
type ownership struct {
	of *object
	as apply.FieldWriter
}

// inheritFields applies the body again if we own fields of the object in another way than by
// applying it: it was made as CreateOnly does, or replaced by a pass that did not come to its
// end. The server would leave those that the manifest does not have.
func (w ownership) inheritFields(ctx context.Context, seen *metav1.PartialObjectMetadata, body []byte) (*metav1.PartialObjectMetadata, error) {
	o := w.of
	as := w.as
	after, taken, err := replace.TakeOver(seen.ManagedFields, func(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) *fieldpath.Set {
		if o.isCreation(entry) || entry.Manager == as.Manager && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			return fields
		}
		return fieldpath.NewSet()
	}, as.Manager, o.want.Manifest.Kind.GroupVersion().String())
	if err != nil || taken.Empty() {
		return seen, err
	}
	patch, err := apply.SetManagers(seen, after)
	if err != nil {
		return nil, err
	}
	if _, err = o.Member.MergePatch(ctx, o.want.Resource.Version, o.want.Object, patch, as); err != nil {
		return nil, err
	}
	return o.applyBody(ctx, body, as)
}

// releaseOldManagers ends what the work owns under other names than the one that it applies
// with now, from other strategies: it would keep fields that the manifest
// loses later.
func (w ownership) releaseOldManagers(ctx context.Context, seen *metav1.PartialObjectMetadata) (*metav1.PartialObjectMetadata, error) {
	o := w.of
	want := w.of.want
	for _, old := range apply.ManagersOf(seen, o.Record.UID()) {
		if old == w.as.Manager || ledger.IsShared(seen, old, o.Record.UID()) {
			continue
		}
		body, err := apply.RenderRelease(want.Manifest.Kind, want.Object, seen.UID, seen.ResourceVersion)
		if err != nil {
			return nil, err
		}
		if seen, err = o.Member.Apply(ctx, want.Resource.Version, want.Object, body, apply.FieldWriter{Manager: old}); err != nil {
			return nil, err
		}
	}
	return seen, nil
}
