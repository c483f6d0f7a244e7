// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package teardown

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/paging"
	"github.com/capstan-io/capstan/internal/operator/install"
)

const (
	// patchesMax is how many works are patched at a time.
	patchesMax = 8
	// orphan makes an agent leave on its member what a deleted work delivered.
	orphan = `{"spec":{"deleteOption":{"propagationPolicy":"Orphan","selectivelyOrphans":null}}}`
	// orphanTemplate does so for the works of a ManifestWorkReplicaSet.
	orphanTemplate = `{"spec":{"manifestWorkTemplate":{"deleteOption":{"propagationPolicy":"Orphan","selectivelyOrphans":null}}}}`
	// preserve does so for the works of a binding, in the binding itself and in the
	// policy that it follows.
	preserve = `{"spec":{"preserveResourcesOnDeletion":true}}`
)

func workKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"}
}

// KeepsWorks reports whether the user wants the members to keep what works
// delivered. Whoever annotates anything but "false" means it: what is lost is
// not got back.
func KeepsWorks(cm *operatorv1.ClusterManager) bool {
	value, ok := cm.Annotations[operatorv1.AnnotationKeepWorks]
	return ok && !strings.EqualFold(value, "false")
}

// OrphanWorks makes all works of a hub leave on their members what they delivered,
// but for those that somebody has deleted already. It returns how many.
func OrphanWorks(ctx context.Context, hub *install.Target) (int, error) {
	count, _, err := patchAll(ctx, hub, workKind(), orphan)
	return count, err
}

// OrphanTemplates makes the works of all ManifestWorkReplicaSets such works, or
// their controller would undo it. It returns how many it has changed.
func OrphanTemplates(ctx context.Context, hub *install.Target) (int, error) {
	_, changed, err := patchAll(ctx, hub, workv1alpha1.GroupVersion.WithKind("ManifestWorkReplicaSet"), orphanTemplate)
	return changed, err
}

// OrphanBindings makes the works of all bindings such works, for the same reason. It
// returns how many policies and bindings it has changed.
func OrphanBindings(ctx context.Context, hub *install.Target) (int, error) {
	total := 0
	for _, kind := range []schema.GroupVersionKind{
		policyv1alpha1.GroupVersion.WithKind("PropagationPolicy"), policyv1alpha1.GroupVersion.WithKind("ClusterPropagationPolicy"),
		workv1alpha2.GroupVersion.WithKind("ResourceBinding"), workv1alpha2.GroupVersion.WithKind("ClusterResourceBinding"),
	} {
		_, changed, err := patchAll(ctx, hub, kind, preserve)
		if err != nil {
			return total, err
		}
		total += changed
	}
	return total, nil
}

// patchAll patches all objects of a kind that nobody has deleted, and returns how
// many these are, and how many of them have changed by that.
func patchAll(ctx context.Context, hub *install.Target, kind schema.GroupVersionKind, patch string) (count, changed int, err error) {
	empty := func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}
	for list, err := range paging.EachPage(ctx, paging.NewPages(hub.Live, pageSize, paging.ObjectsMax), empty) {
		if err != nil {
			return count, changed, unlessUnknown(err, kind.Kind+"s")
		}
		group, patching := errgroup.WithContext(ctx)
		group.SetLimit(patchesMax)
		var written atomic.Int64
		for i := range list.Items {
			item := &list.Items[i]
			if !item.DeletionTimestamp.IsZero() {
				continue
			}
			item.SetGroupVersionKind(kind)
			count++
			before := item.ResourceVersion
			group.Go(func() error {
				err := hub.Client.Patch(patching, item, client.RawPatch(types.MergePatchType, []byte(patch)))
				if client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("orphaning %s %q: %w", kind.Kind, client.ObjectKeyFromObject(item), err)
				}
				if item.ResourceVersion != before {
					written.Add(1)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return count, changed, err
		}
		changed += int(written.Load())
	}
	return count, changed, nil
}
