// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EachCached calls a function for each object of a kind that a cache has, which it must
// not change. Unlike a list, that copies nothing, however many there are. The
// controllers have to watch the kind anyway.
func EachCached[O client.Object](ctx context.Context, from cache.Cache, kind O, see func(O)) error {
	informer, err := from.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("reading what is cached of %T: %w", kind, err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return fmt.Errorf("the informer of %T is a %T, which has no indexer", kind, informer)
	}
	for _, object := range indexed.GetIndexer().List() {
		if object, ok := object.(O); ok {
			see(object)
		}
	}
	return nil
}
