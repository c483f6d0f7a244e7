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
			return boundIdentity(reduce(object))
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
	return boundIdentity(&metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: TruncateText(whole.Kind, nameBytesMax), APIVersion: TruncateText(whole.APIVersion, nameBytesMax)},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
			Generation: whole.Generation, DeletionTimestamp: whole.DeletionTimestamp,
		},
	})
}

// boundIdentity cuts the texts that tell an object and its versions apart, whatever made what is kept of it: they
// are kept of each object, and a server that lies gives each of them megabytes.
func boundIdentity[T client.Object](kept T) T {
	kept.SetNamespace(TruncateText(kept.GetNamespace(), nameBytesMax))
	kept.SetName(TruncateText(kept.GetName(), nameBytesMax))
	kept.SetUID(types.UID(TruncateText(string(kept.GetUID()), versionBytesMax)))
	kept.SetResourceVersion(TruncateText(kept.GetResourceVersion(), versionBytesMax))
	return kept
}

// TruncateText returns the beginning of a text, and keeps nothing of the rest.
func TruncateText(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.Clone(text[:bytesMax])
}
