// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many whole objects there are at a time while they are listed.
const pageSize = 250

// Reduced is the source of those objects that the selector chooses, each made by
// the function from a whole one as that arrives: of whole objects there is a page
// at most. The list is an empty one of the whole type. The function keeps the
// resourceVersion, and nothing that it does not need.
func Reduced[W, T client.Object](c client.WithWatch, list client.ObjectList, selector fields.Selector, reduce func(W) T) Source[T] {
	r := reducer[W, T]{client: c, empty: list, selector: selector, make: reduce}
	var example W
	return Source[T]{what: fmt.Sprintf("%T", list), example: example, list: r.list, watch: r.watch, reduce: r.reduce}
}

type reducer[W, T client.Object] struct {
	client   client.WithWatch
	empty    client.ObjectList
	selector fields.Selector
	make     func(W) T
}

// reduce makes what is kept of a whole object, and returns anything else as it is.
func (r reducer[W, T]) reduce(item any) any {
	if whole, ok := item.(W); ok {
		return r.make(whole)
	}
	return item
}

func (r reducer[W, T]) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	reduced := &metav1.List{}
	for {
		page, _ := r.empty.DeepCopyObject().(client.ObjectList)
		// Without a resourceVersion, as a server would send what it remembers in one piece.
		options := &client.ListOptions{
			FieldSelector: r.selector, Limit: pageSize, Continue: reduced.Continue,
			Raw: &metav1.ListOptions{TimeoutSeconds: options.TimeoutSeconds},
		}
		if err := r.client.List(ctx, page, options); err != nil {
			return nil, err //nolint:wrapcheck // the session says what it did
		}
		err := meta.EachListItem(page, func(object runtime.Object) error {
			kept, ok := r.reduce(object).(T)
			if !ok {
				return fmt.Errorf("a %T has a %T", page, object)
			}
			reduced.Items = append(reduced.Items, runtime.RawExtension{Object: kept})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading what was listed: %w", err)
		}
		reduced.ResourceVersion, reduced.Continue = page.GetResourceVersion(), page.GetContinue()
		if reduced.Continue == "" {
			return reduced, nil
		}
	}
}

func (r reducer[W, T]) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	list, _ := r.empty.DeepCopyObject().(client.ObjectList)
	return r.client.Watch(ctx, list, &client.ListOptions{FieldSelector: r.selector, Raw: &options})
}
