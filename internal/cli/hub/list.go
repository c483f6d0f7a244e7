// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects that one request for a list asks for.
const pageSize = 500

// ListAllPages reads a list page by page.
func ListAllPages[T any, L interface {
	client.ObjectList
	*S
}, S any](ctx context.Context, c client.Client, items func(L) []T, options ...client.ListOption) ([]T, error) {
	var found []T
	err := eachPage(ctx, c, func() L { return L(new(S)) }, func(page L) { found = append(found, items(page)...) }, options...)
	return found, err
}

// ListMetadata reads the metadata of the objects of a kind page by page.
func ListMetadata(ctx context.Context, c client.Client, kind schema.GroupVersionKind, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	var found []metav1.PartialObjectMetadata
	err := eachPage(ctx, c, func() *metav1.PartialObjectMetadataList {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return page
	}, func(page *metav1.PartialObjectMetadataList) {
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(kind)
			page.Items[i].ManagedFields = nil
		}
		found = append(found, page.Items...)
	}, options...)
	return found, err
}

// VisitObjects reads the objects of a kind page by page, so that not all of them
// have to be kept.
func VisitObjects(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, visit func(*unstructured.Unstructured), options ...client.ListOption,
) error {
	return eachPage(ctx, c, func() *unstructured.UnstructuredList {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return page
	}, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			visit(&page.Items[i])
		}
	}, options...)
}

func eachPage[L client.ObjectList](ctx context.Context, c client.Client, empty func() L, visit func(L), options ...client.ListOption) error {
	next := ""
	for {
		page := empty()
		if err := c.List(ctx, page, append(options, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return err
		}
		visit(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
