// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// preparation makes an object ready to be applied.
type preparation struct{ of *object }

// prepareObject does what the strategy of the object says, and then what it takes where
// server-side apply alone would not bring what the manifest means.
func (p preparation) prepareObject(ctx context.Context, how applier, stamp *apply.Stamp) (apply.FieldWriter, error) {
	o := p.of
	o.made = nil
	o.seen = nil // of an attempt before
	as, err := how.prepareApply(ctx, o, stamp)
	if err != nil {
		return as, err
	}
	o.without, stamp.Undeclared = stamp.Without, o.undeclared
	if err := p.concedeFields(ctx, as.Manager); err != nil {
		return as, err
	}
	return as, (pullSecrets{of: o}).joinLists(ctx, as.Manager, stamp)
}

// concedeFields gives up fields that the manifest does not have, or not any more, and whose
// value in the cluster has to stay. It looks at the object only if what was applied last
// may have been another manifest. It gives up nothing of what it may not read, or what the
// API treats as one value.
func (p preparation) concedeFields(ctx context.Context, manager string) error {
	o := p.of
	want := p.of.want
	if p.of.history.Past.Hash == want.Hash && p.of.history.Past.Mark.UID != "" {
		return nil
	}
	if known, listed := o.Inventory.Get(want.Object); known == nil && listed { // nothing there is ours
		return nil
	}
	content, err := o.manifestContent(ctx)
	if err != nil {
		return err
	}
	paths := concededPaths(content, want.Scales)
	if len(paths) == 0 {
		return nil
	}
	seen, err := o.Member.Get(ctx, want.Resource.Version, want.Object)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = (&retention{of: o}).disownRetained(ctx, seen, manager, nil, &paths)
	return err
}

// concededPaths returns the fields that stay in the cluster when a manifest loses them, though
// nobody may own them then: whether the object is applied or replaced. The API
// server would set replicas to their default, which is not what an autoscaler has found,
// and roles would have no rules until they are aggregated again.
func concededPaths(content map[string]any, scales bool) (paths []ignore.Path) {
	if spec, isMap := content["spec"].(map[string]any); scales && isMap {
		if _, has := spec["replicas"]; !has {
			paths = append(paths, ignore.Path{"spec", "replicas"})
		}
	}
	if apply.IsAggregated(content) {
		paths = append(paths, ignore.Path{"rules"})
	}
	return paths
}
