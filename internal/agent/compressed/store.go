// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package compressed

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ObjectStore reads objects of one type from a cache in which they are compressed. It
// is safe for concurrent use. T is a pointer.
type ObjectStore[T client.Object] struct {
	cache      cache.Cache
	empty      func() T
	decompress func(T) (T, error)
}

// NewWorkStore is the ObjectStore of the ManifestWorks in a cache of NewWorkCache.
func NewWorkStore(from cache.Cache) (*ObjectStore[*workv1.ManifestWork], error) {
	guarded, err := guardedOf(from)
	if err != nil {
		return nil, err
	}
	return &ObjectStore[*workv1.ManifestWork]{
		cache: guarded.Cache, empty: func() *workv1.ManifestWork { return &workv1.ManifestWork{} }, decompress: guarded.codec.decompressWork,
	}, nil
}

// NewRecordStore is the ObjectStore of the AppliedManifestWorks in a cache of NewRecordCache.
func NewRecordStore(from cache.Cache) (*ObjectStore[*workv1.AppliedManifestWork], error) {
	guarded, err := guardedOf(from)
	if err != nil {
		return nil, err
	}
	return &ObjectStore[*workv1.AppliedManifestWork]{
		cache: guarded.Cache, empty: func() *workv1.AppliedManifestWork { return &workv1.AppliedManifestWork{} },
		decompress: guarded.codec.decompressRecord,
	}, nil
}

func guardedOf(from cache.Cache) (*guardedCache, error) {
	guarded, ok := from.(*guardedCache)
	if !ok {
		return nil, fmt.Errorf("a %T has nothing compressed: make it by compressed.NewWorks or NewRecords", from)
	}
	return guarded, nil
}

// Get returns an object as a whole. Its metadata is that of the cache: do not
// change it.
func (s *ObjectStore[T]) Get(ctx context.Context, key client.ObjectKey) (T, error) {
	object := s.empty()
	if err := s.cache.Get(ctx, key, object); err != nil {
		return object, err //nolint:wrapcheck // as a client's
	}
	return s.decompress(object)
}

// GetMarks returns an object without what is compressed. Do not change it.
func (s *ObjectStore[T]) GetMarks(ctx context.Context, key client.ObjectKey) (T, error) {
	object := s.empty()
	return object, s.cache.Get(ctx, key, object) //nolint:wrapcheck // as a client's
}

// HasObject reports whether there is an object.
func (s *ObjectStore[T]) HasObject(ctx context.Context, key client.ObjectKey) (bool, error) {
	err := s.cache.Get(ctx, key, s.empty())
	return err == nil, client.IgnoreNotFound(err) //nolint:wrapcheck // as a client's
}

// ListRecords returns all AppliedManifestWorks without what is compressed. Do not
// change them.
func ListRecords(ctx context.Context, records *ObjectStore[*workv1.AppliedManifestWork]) ([]workv1.AppliedManifestWork, error) {
	list := &workv1.AppliedManifestWorkList{}
	err := records.cache.List(ctx, list, client.UnsafeDisableDeepCopy)
	return list.Items, err //nolint:wrapcheck // as a client's
}

// ObjectInformer returns what tells of changes of the objects. Those that it tells
// of lack what is compressed: their status, and of a ManifestWork the spec.
func (s *ObjectStore[T]) ObjectInformer(ctx context.Context, options ...cache.InformerGetOption) (cache.Informer, error) {
	return s.cache.GetInformer(ctx, s.empty(), options...) //nolint:wrapcheck // as a cache's
}
