// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package compressed

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ErrCompressed says that a type cannot be read from the cache as others can.
var ErrCompressed = errors.New("objects of this type are compressed in this cache: read them by a compressed.ObjectStore")

// guardedCache is a cache that refuses to give out what is compressed in it.
type guardedCache struct {
	cache.Cache
	codec *objectCodec
}

// NewWorkCache is a cache.NewCacheFunc. ManifestWorks are compressed in the cache
// that it returns. A client with such a cache has to have it disabled for them.
func NewWorkCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	return newCache(config, options, &workv1.ManifestWork{}, (*shrinker).slimWork)
}

// NewRecordCache is the same for AppliedManifestWorks.
func NewRecordCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	return newCache(config, options, &workv1.AppliedManifestWork{}, (*shrinker).slimRecord)
}

func newCache(config *rest.Config, options cache.Options, of client.Object, shrink func(*shrinker, any) (any, error)) (cache.Cache, error) {
	s, err := newShrinker()
	if err != nil {
		return nil, err
	}
	shared := true // a ObjectStore gives out copies
	byObject := map[client.Object]cache.ByObject{
		of: {UnsafeDisableDeepCopy: &shared, Transform: func(obj any) (any, error) { return shrink(s, obj) }},
	}
	maps.Copy(byObject, options.ByObject)
	options.ByObject = byObject
	inner, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	return &guardedCache{Cache: inner, codec: s.codec}, nil
}

// Get implements client.Reader.
func (g *guardedCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	switch object.(type) {
	case *workv1.ManifestWork, *workv1.AppliedManifestWork:
		return fmt.Errorf("reading %T %q: %w", object, key, ErrCompressed)
	}
	return g.Cache.Get(ctx, key, object, options...) //nolint:wrapcheck // it is that cache
}

// List implements client.Reader.
func (g *guardedCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *workv1.ManifestWorkList, *workv1.AppliedManifestWorkList:
		return fmt.Errorf("listing %T: %w", list, ErrCompressed)
	}
	return g.Cache.List(ctx, list, options...) //nolint:wrapcheck // it is that cache
}

// GetInformer implements cache.Informers.
func (g *guardedCache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	switch object.(type) {
	case *workv1.ManifestWork, *workv1.AppliedManifestWork:
		return nil, fmt.Errorf("watching %T: %w", object, ErrCompressed)
	}
	return g.Cache.GetInformer(ctx, object, options...) //nolint:wrapcheck // it is that cache
}

// GetInformerForKind implements cache.Informers.
func (g *guardedCache) GetInformerForKind(
	ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	if kind.Group == workv1.GroupName {
		return nil, fmt.Errorf("watching %s: %w", kind, ErrCompressed)
	}
	return g.Cache.GetInformerForKind(ctx, kind, options...) //nolint:wrapcheck // it is that cache
}
