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
	// selector.Keys, and by all those that may be about any.
	indexReaches = "reaches"
	anything     = "*"
	// indexWorks finds the works of bindings.
	indexWorks = "works-of-bindings"
	// buckets is how many parts the index of works has. An index by what tells each
	// binding apart takes more memory than the works of many bindings together.
	buckets = 1024
)

// Index adds the indexes by which the controller reads override policies.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range []client.Object{&policyv1alpha1.OverridePolicy{}, &policyv1alpha1.ClusterOverridePolicy{}} {
		if err := indexer.IndexField(ctx, kind, indexReaches, reaches); err != nil {
			return fmt.Errorf("indexing %T: %w", kind, err)
		}
	}
	return nil
}

// Works finds works in a cache by the bindings that they are for.
type Works struct {
	indexer toolscache.Indexer
	// counted tells whether the allowance knows of all works and limits.
	counted func() bool
}

// IndexWorks adds to a cache the index by which works are found. It is not the
// indexer of fields that is used: this one has everything twice, and we never ask
// for the works of a binding in one namespace. The allowance is told of all works.
func IndexWorks(ctx context.Context, c cache.Cache, allowed *allowance.Allowance) (Works, error) {
	informer, err := c.GetInformer(ctx, &workv1.ManifestWork{}, cache.BlockUntilSynced(false))
	if err != nil {
		return Works{}, fmt.Errorf("watching ManifestWorks: %w", err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return Works{}, fmt.Errorf("the informer of ManifestWorks is a %T, which has no indexer", informer)
	}
	if err := informer.AddIndexers(toolscache.Indexers{indexWorks: bucketsOf}); err != nil {
		return Works{}, fmt.Errorf("indexing ManifestWorks: %w", err)
	}
	counted, err := counting.Follow(ctx, c, allowed)
	if err != nil {
		return Works{}, err
	}
	return Works{indexed.GetIndexer(), counted}, nil
}

// bucketsOf returns the parts of the index that a work is in.
func bucketsOf(object any) ([]string, error) {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return nil, nil
	}
	in := []string{bucket(work.Name)}
	if name := deliver.BindingOf(work); name.Name != "" {
		in = append(in, bucket(name.String()))
	}
	return in, nil
}

func bucket(key string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key)) // never fails
	return strconv.FormatUint(uint64(hash.Sum32()%buckets), 16)
}

// Called returns the works of a name, of all clusters. They must not be changed.
func (w Works) Called(name string) ([]*workv1.ManifestWork, error) {
	return w.find(name, func(work *workv1.ManifestWork) bool { return work.Name == name })
}

// WithName returns the works that name a binding. They must not be changed.
func (w Works) WithName(name types.NamespacedName) ([]*workv1.ManifestWork, error) {
	return w.find(name.String(), func(work *workv1.ManifestWork) bool { return deliver.BindingOf(work) == name })
}

func (w Works) find(key string, is func(*workv1.ManifestWork) bool) ([]*workv1.ManifestWork, error) {
	objects, err := w.indexer.ByIndex(indexWorks, bucket(key))
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

// reaches has one with a mistake among those that may be about any object: it holds
// all of them back.
func reaches(object client.Object) []string {
	selectors := selectorsOf(object)
	if _, problems := selector.Compile(object.GetNamespace(), selectors, nil); len(selectors) == 0 || len(problems) > 0 {
		return []string{anything}
	}
	return selector.Keys(selectors)
}
