// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// IndexBinding finds the works of a binding in the cache by its permanent ID.
	IndexBinding = "binding-id"
	// indexName finds them by its name.
	indexName = "binding-name"
	// indexReaches finds the override policies that may be about an object, by
	// selector.Keys, and by all those that may be about any.
	indexReaches = "reaches"
	anything     = "*"
)

// Index adds the indexes by which the controller reads works and override
// policies.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]client.IndexerFunc{IndexBinding: byBinding, indexName: byBindingName} {
		if err := indexer.IndexField(ctx, &workv1.ManifestWork{}, name, values); err != nil {
			return fmt.Errorf("indexing ManifestWorks by %s: %w", name, err)
		}
	}
	for _, kind := range []client.Object{&policyv1alpha1.OverridePolicy{}, &policyv1alpha1.ClusterOverridePolicy{}} {
		if err := indexer.IndexField(ctx, kind, indexReaches, reaches); err != nil {
			return fmt.Errorf("indexing %T: %w", kind, err)
		}
	}
	return nil
}

func byBinding(object client.Object) []string {
	if work, ok := object.(*workv1.ManifestWork); ok {
		if id := deliver.BindingID(work); id != "" {
			return []string{id}
		}
	}
	return nil
}

func byBindingName(object client.Object) []string {
	if name := bindingOf(object); name.Name != "" {
		return []string{name.String()}
	}
	return nil
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
