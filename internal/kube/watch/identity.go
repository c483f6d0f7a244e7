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

// Identities is the source of the Identity of those objects of a resource that the selector chooses. It
// is for a server whose objects others write, who may give each a megabyte of annotations: run it with
// a context of dial.Reduced, so that these are not counted as if they were kept.
func Identities(c metadata.Interface, resource schema.GroupVersionResource, selector Selector) Source[*metav1.PartialObjectMetadata] {
	return ReducedMetadata(c, resource, selector, Identity)
}

// ReducedMetadata is what Reduced is, for the metadata of objects. It streams lists if the server can.
func ReducedMetadata[T client.Object](
	c metadata.Interface, resource schema.GroupVersionResource, selector Selector, reduce func(*metav1.PartialObjectMetadata) T,
) Source[T] {
	whole := Metadata(c, resource, selector)
	keep := func(item any) any {
		if object, is := item.(*metav1.PartialObjectMetadata); is {
			return reduce(object)
		}
		return item
	}
	return Source[T]{
		what: whole.what, example: whole.example, client: c, watch: whole.watch, reduce: keep,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return pages(keep, func(limit int64, next string) (client.ObjectList, error) {
				page, err := whole.list(ctx, metav1.ListOptions{TimeoutSeconds: options.TimeoutSeconds, Limit: limit, Continue: next})
				list, _ := page.(client.ObjectList)
				return list, err
			})
		},
	}
}

// Identity returns what tells an object and its versions apart, and nothing else of its metadata. No
// text is longer than it is in Kubernetes.
func Identity(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: whole.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: cut(whole.Namespace, nameBytesMax), Name: cut(whole.Name, nameBytesMax), UID: types.UID(cut(string(whole.UID), versionBytesMax)),
		ResourceVersion: cut(whole.ResourceVersion, versionBytesMax), Generation: whole.Generation, DeletionTimestamp: whole.DeletionTimestamp,
	}}
}

// cut returns the beginning of a text, and keeps nothing of the rest.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.Clone(text[:bytesMax])
}
