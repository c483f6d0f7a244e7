// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// pageSize is how many whole objects there are at a time while they are listed, unless they are too
// much for one answer.
const pageSize = 250

// ReducedSource is the source of those objects that the selector chooses, each made by
// the function from a whole one as that arrives: of whole objects there is a page
// at most. The list is an empty one of the whole type. The function keeps the
// resourceVersion, and nothing that it does not need. Names, UIDs and versions are cut
// to what they are in Kubernetes at most; it bounds whatever else it keeps.
func ReducedSource[W, T client.Object](c client.WithWatch, list client.ObjectList, selector fields.Selector, reduce func(W) T) ObjectSource[T] {
	r := reducer[W, T]{client: c, empty: list, selector: selector, make: reduce}
	var example W
	return ObjectSource[T]{what: fmt.Sprintf("%T", list), example: example, list: r.listReduced, watch: r.watchWhole, reduce: r.reduceItem}
}

type reducer[W, T client.Object] struct {
	client   client.WithWatch
	empty    client.ObjectList
	selector fields.Selector
	make     func(W) T
}

// reduceItem makes what is kept of a whole object, and returns anything else as it is.
func (r reducer[W, T]) reduceItem(item any) any {
	if whole, ok := item.(W); ok {
		return boundIdentity(r.make(whole))
	}
	return item
}

// listReduced returns what is kept of all objects.
func (r reducer[W, T]) listReduced(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return listReducedPages(r.reduceItem, func(limit int64, next string) (client.ObjectList, error) {
		page := deepcopy.CopyObject(r.empty)
		return page, r.client.List(ctx, page, &client.ListOptions{
			FieldSelector: r.selector, Limit: limit, Continue: next, Raw: &metav1.ListOptions{TimeoutSeconds: options.TimeoutSeconds},
		})
	})
}

// listReducedPages lists objects page by page, and returns what is kept of them. They are read without a
// resourceVersion, as a server would send what it remembers in one piece. A page that is too much for an answer is requested
// again with half as many objects, down to one, and so are those after it.
func listReducedPages(keep func(any) any, read func(limit int64, next string) (client.ObjectList, error)) (*metav1.List, error) {
	kept := &metav1.List{}
	for size := int64(pageSize); ; {
		page, err := read(size, kept.Continue)
		var tooLarge *dial.LimitError
		switch {
		case size > 1 && errors.As(err, &tooLarge):
			size /= 2
			continue
		case err != nil:
			return nil, err
		}
		err = meta.EachListItem(page, func(object runtime.Object) error {
			reduced, ok := keep(object).(runtime.Object)
			if !ok {
				return fmt.Errorf("a %T has a %T", page, object)
			}
			kept.Items = append(kept.Items, runtime.RawExtension{Object: reduced})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading what was listed: %w", err)
		}
		kept.ResourceVersion, kept.Continue = page.GetResourceVersion(), page.GetContinue()
		if kept.Continue == "" {
			return kept, nil
		}
	}
}

func (r reducer[W, T]) watchWhole(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	list := deepcopy.CopyObject(r.empty)
	return r.client.Watch(ctx, list, &client.ListOptions{FieldSelector: r.selector, Raw: &options})
}
