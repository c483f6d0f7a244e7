// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// ObjectSource is what a Watch watches: objects of one type. T is a pointer.
type ObjectSource[T client.Object] struct {
	// what names the objects in errors.
	what string
	// example has the type of the objects as the server sends them.
	example any
	list    func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watch   func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// get reads the one object that there can be; nil if there can be several.
	get func(ctx context.Context) (T, error)
	// reduce returns what is kept of an object that the server sends; nil if that is
	// the object.
	reduce func(item any) any
	// client reports whether it can stream lists; nil if they are not to be streamed.
	client any
	// from is the resourceVersion that the owner knows already; empty if none.
	from string
}

// ObjectSelector chooses objects of a type. The zero value chooses all.
type ObjectSelector struct {
	Namespace string
	Name      string
	Labels    string // as in metav1.ListOptions
}

// MetadataSource is the source of the metadata of those objects of a resource that
// the selector chooses. Their managedFields are empty.
func MetadataSource(c metadata.Interface, resource schema.GroupVersionResource, selector ObjectSelector) ObjectSource[*metav1.PartialObjectMetadata] {
	var objects metadata.ResourceInterface = c.Resource(resource)
	if selector.Namespace != "" {
		objects = c.Resource(resource).Namespace(selector.Namespace)
	}
	narrowed := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector = selector.Labels
		if selector.Name != "" {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", selector.Name).String()
		}
		return options
	}
	return ObjectSource[*metav1.PartialObjectMetadata]{
		what: resource.GroupResource().String(), example: &metav1.PartialObjectMetadata{}, client: c,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, narrowed(options))
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, narrowed(options))
		},
	}
}

// SingleSource is the source of the object that has the namespace and name of the
// given one, as a whole. The list is an empty one of its type. Where the object may be
// read but not listed or watched, it is read again and again.
//
// What the owner knows of the object may be given by its resourceVersion: then
// it is not read, and only what comes later is told. An empty one means that it
// is not known.
func SingleSource[T client.Object](c client.WithWatch, object T, list client.ObjectList, resourceVersion string) ObjectSource[T] {
	key := client.ObjectKeyFromObject(object)
	selected := func(options metav1.ListOptions) []client.ListOption {
		return []client.ListOption{
			&client.ListOptions{Raw: &options},
			client.InNamespace(key.Namespace),
			client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", key.Name)},
		}
	}
	return ObjectSource[T]{
		what: fmt.Sprintf("%T %s", object, key), example: object, from: resourceVersion,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			if options.ResourceVersion == "0" {
				options.ResourceVersion = "" // what any server remembers is not good enough to begin with
			}
			found := deepcopy.CopyObject(list)
			return found, c.List(ctx, found, selected(options)...)
		},
		watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, selected(options)...)
		},
		get: func(ctx context.Context) (T, error) {
			found := deepcopy.CopyObject(object)
			return found, c.Get(ctx, key, found)
		},
	}
}
