// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package teardown

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/install"
)

const (
	// patchesMax is how many works are patched at a time.
	patchesMax = 8
	// orphan makes an agent leave on its member what a deleted work delivered.
	orphan = `{"spec":{"deleteOption":{"propagationPolicy":"Orphan","selectivelyOrphans":null}}}`
)

func workKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"}
}

// KeepsWorks tells whether the user wants the members to keep what works
// delivered. Whoever annotates anything but "false" means it: what is lost is
// not got back.
func KeepsWorks(cm *operatorv1.ClusterManager) bool {
	value, ok := cm.Annotations[operatorv1.AnnotationKeepWorks]
	return ok && !strings.EqualFold(value, "false")
}

// Orphan makes all works of a hub leave on their members what they delivered,
// but for those that somebody has deleted already. It returns how many.
func Orphan(ctx context.Context, hub *install.Target) (int, error) {
	count, next := 0, ""
	for {
		works := worksList()
		if err := hub.Live.List(ctx, works, client.Limit(pageSize), client.Continue(next)); err != nil {
			return count, unlessUnknown(err, "ManifestWorks")
		}
		group, patching := errgroup.WithContext(ctx)
		group.SetLimit(patchesMax)
		for i := range works.Items {
			work := &works.Items[i]
			if !work.DeletionTimestamp.IsZero() {
				continue
			}
			work.SetGroupVersionKind(workKind())
			count++
			group.Go(func() error {
				err := hub.Client.Patch(patching, work, client.RawPatch(types.MergePatchType, []byte(orphan)))
				if client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("orphaning ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return count, err
		}
		if next = works.Continue; next == "" {
			return count, nil
		}
	}
}
