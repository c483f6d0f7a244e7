// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// nameBytesMax is how long names of objects and namespaces are in Kubernetes, and versionBytesMax
	// more than a UID or a resourceVersion has.
	nameBytesMax    = 253
	versionBytesMax = 64
)

// IdentitySource is the source of the ReduceToIdentity of those objects of a resource that the selector chooses. It
// is for a server whose objects others write, who may give each a megabyte of annotations: run it with
// a context of dial.ReducedContext, so that these are not counted as if they were kept.
func IdentitySource(c metadata.Interface, resource schema.GroupVersionResource, selector ObjectSelector) ObjectSource[*metav1.PartialObjectMetadata] {
	return ReducedMetadataSource(c, resource, selector, ReduceToIdentity)
}

// ReducedMetadataSource is what ReducedSource is, for the metadata of objects. It streams lists if the server can.
func ReducedMetadataSource[T client.Object](
	c metadata.Interface, resource schema.GroupVersionResource, selector ObjectSelector, reduce func(*metav1.PartialObjectMetadata) T,
) ObjectSource[T] {
	whole := MetadataSource(c, resource, selector)
	keep := func(item any) any {
		if object, is := item.(*metav1.PartialObjectMetadata); is {
			return reduce(object)
		}
		return item
	}
	return ObjectSource[T]{
		what: whole.what, example: whole.example, client: c, watch: whole.watch, reduce: keep,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return listReducedPages(keep, func(limit int64, next string) (client.ObjectList, error) {
				page, err := whole.list(ctx, metav1.ListOptions{TimeoutSeconds: options.TimeoutSeconds, Limit: limit, Continue: next})
				list, _ := page.(client.ObjectList)
				return list, err
			})
		},
	}
}

// ReduceToIdentity returns what tells an object and its versions apart, and nothing else of its metadata. No
// text is longer than it is in Kubernetes.
func ReduceToIdentity(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: whole.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: truncateText(whole.Namespace, nameBytesMax), Name: truncateText(whole.Name, nameBytesMax), UID: types.UID(truncateText(string(whole.UID), versionBytesMax)),
		ResourceVersion: truncateText(whole.ResourceVersion, versionBytesMax), Generation: whole.Generation, DeletionTimestamp: whole.DeletionTimestamp,
	}}
}

// truncateText returns the beginning of a text, and keeps nothing of the rest.
func truncateText(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.Clone(text[:bytesMax])
}
