// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance/counting"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// indexReaches finds the override policies that may be about an object, by
	// selector.IndexKeysOfSelectors, and by all those that may be about any.
	indexReaches = "reaches"
	anything     = "*"
	// indexWorks finds the works of bindings.
	indexWorks = "works-of-bindings"
	// buckets is how many parts the index of works has. An index by what tells each
	// binding apart takes more memory than the works of many bindings together.
	buckets = 1024
)

// IndexOverridePolicies adds the indexes by which the controller reads override policies.
func IndexOverridePolicies(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range []client.Object{&policyv1alpha1.OverridePolicy{}, &policyv1alpha1.ClusterOverridePolicy{}} {
		if err := indexer.IndexField(ctx, kind, indexReaches, overrideIndexKeys); err != nil {
			return fmt.Errorf("indexing %T: %w", kind, err)
		}
	}
	return nil
}

// WorkIndex finds works in a cache by the bindings that they are for.
type WorkIndex struct {
	indexer toolscache.Indexer
	// counted reports whether the allowance knows of all works and limits.
	counted func() bool
}

// IndexWorks adds to a cache the index by which works are found. It is not the
// indexer of fields that is used: this one has everything twice, and we never ask
// for the works of a binding in one namespace. The allowance is told of all works.
func IndexWorks(ctx context.Context, c cache.Cache, allowed *allowance.Allowance) (WorkIndex, error) {
	informer, err := c.GetInformer(ctx, &workv1.ManifestWork{}, cache.BlockUntilSynced(false))
	if err != nil {
		return WorkIndex{}, fmt.Errorf("watching ManifestWorks: %w", err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return WorkIndex{}, fmt.Errorf("the informer of ManifestWorks is a %T, which has no indexer", informer)
	}
	if err := informer.AddIndexers(toolscache.Indexers{indexWorks: bucketsOf}); err != nil {
		return WorkIndex{}, fmt.Errorf("indexing ManifestWorks: %w", err)
	}
	counted, err := counting.WatchAllowance(ctx, c, allowed)
	if err != nil {
		return WorkIndex{}, err
	}
	return WorkIndex{indexed.GetIndexer(), counted}, nil
}

// bucketsOf returns the parts of the index that a work is in.
func bucketsOf(object any) ([]string, error) {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return nil, nil
	}
	in := []string{indexBucket(work.Name)}
	if name := deliver.BindingOf(work); name.Name != "" {
		in = append(in, indexBucket(name.String()))
	}
	return in, nil
}

func indexBucket(key string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key)) // never fails
	return strconv.FormatUint(uint64(hash.Sum32()%buckets), 16)
}

// ListByName returns the works of a name, of all clusters. They must not be changed.
func (w WorkIndex) ListByName(name string) ([]*workv1.ManifestWork, error) {
	return w.findWorks(name, func(work *workv1.ManifestWork) bool { return work.Name == name })
}

// ListByBinding returns the works that name a binding. They must not be changed.
func (w WorkIndex) ListByBinding(name types.NamespacedName) ([]*workv1.ManifestWork, error) {
	return w.findWorks(name.String(), func(work *workv1.ManifestWork) bool { return deliver.BindingOf(work) == name })
}

func (w WorkIndex) findWorks(key string, is func(*workv1.ManifestWork) bool) ([]*workv1.ManifestWork, error) {
	objects, err := w.indexer.ByIndex(indexWorks, indexBucket(key))
	if err != nil {
		return nil, fmt.Errorf("looking for the works of a binding: %w", err)
	}
	var found []*workv1.ManifestWork
	for _, object := range objects {
		if work, ok := object.(*workv1.ManifestWork); ok && is(work) {
			found = append(found, work)
		}
	}
	return found, nil
}

// overrideIndexKeys has one with a mistake among those that may be about any object: it holds
// all of them back.
func overrideIndexKeys(object client.Object) []string {
	selectors := selectorsOf(object)
	if _, problems := selector.CompileSelectors(object.GetNamespace(), selectors, nil); len(selectors) == 0 || len(problems) > 0 {
		return []string{anything}
	}
	return selector.IndexKeysOfSelectors(selectors)
}
