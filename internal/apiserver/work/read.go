// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

// shown is what Works are made of.
func shown() stored.View {
	return stored.View{
		Shown:  stored.Kind{Group: v1alpha1.GroupName, Resource: "works", Kind: "Work"},
		Stored: []stored.Kind{{Group: workv1.GroupName, Resource: "manifestworks", Kind: "ManifestWork"}},
	}
}

// manifestWorks are those of the hub in one namespace, or in all.
type manifestWorks interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*workv1.ManifestWork, error)
	List(ctx context.Context, o metav1.ListOptions, take func(*workv1.ManifestWork)) (metav1.ListMeta, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (*workv1.ManifestWork, error)
}

// reader reads Works. Nothing is cached.
type reader struct {
	in func(namespace string) manifestWorks
}

// Get implements rest.Getter.
func (r reader) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	from, err := r.stored(ctx, name, *o)
	if err != nil {
		return nil, err
	}
	return workOf(from), nil
}

// stored returns the ManifestWork of a Work.
func (r reader) stored(ctx context.Context, name string, o metav1.GetOptions) (*workv1.ManifestWork, error) {
	cluster := clusterOf(request.NamespaceValue(ctx))
	if cluster == "" {
		return nil, shown().NotFound(name)
	}
	from, err := r.in(cluster).Get(ctx, name, o)
	if err != nil {
		return nil, shown().Problem(err, name)
	}
	if !ofBinding(from) {
		return nil, shown().NotFound(name)
	}
	return from, nil
}

// List implements rest.Lister. Versions, pages and selectors are the hub's.
func (r reader) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	namespace, options, err := selected(ctx, o)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.WorkList{Items: []v1alpha1.Work{}}
	list.ListMeta, err = r.in(namespace).List(ctx, options, func(from *workv1.ManifestWork) {
		list.Items = append(list.Items, *workOf(from))
	})
	if err != nil {
		return nil, shown().Problem(err, "")
	}
	return list, nil
}

// Watch implements rest.Watcher. One whose label goes is deleted for the watcher:
// the hub sees to that.
func (r reader) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	namespace, options, err := selected(ctx, o)
	if err != nil {
		return nil, err
	}
	options.Watch = true
	events, err := r.in(namespace).Watch(ctx, options)
	if err != nil {
		return nil, shown().Problem(err, "")
	}
	return watch.Filter(events, see), nil
}

// see returns an event of a ManifestWork as one of its Work.
func see(event watch.Event) (watch.Event, bool) {
	switch object := event.Object.(type) {
	case *workv1.ManifestWork:
		if event.Type == watch.Bookmark {
			event.Object = &v1alpha1.Work{
				TypeMeta:   typeMeta(),
				ObjectMeta: metav1.ObjectMeta{ResourceVersion: object.ResourceVersion, Annotations: object.Annotations},
			}
			return event, true
		}
		event.Object = workOf(object)
	case *metav1.Status:
		event.Object = shown().Describe(object)
	}
	return event, true
}

// selected returns the namespace of the hub to read from, and what to read there:
// the ManifestWorks of bindings. In a namespace that is of no cluster there are
// none, which it is for the hub to say, in its own version.
func selected(ctx context.Context, o *internalversion.ListOptions) (namespace string, options metav1.ListOptions, err error) {
	namespace = request.NamespaceValue(ctx)
	cluster := clusterOf(namespace)
	some := namespace == "" || cluster != ""
	if cluster != "" {
		namespace = cluster
	}
	wanted := &internalversion.ListOptions{}
	if o != nil {
		wanted = o.DeepCopy()
	}
	if wanted.LabelSelector, err = ofBindings(wanted.LabelSelector, some); err != nil {
		return "", options, err
	}
	if wanted.FieldSelector, err = onHub(wanted.FieldSelector); err != nil {
		return "", options, err
	}
	options, err = stored.ListOptions(wanted)
	return namespace, options, err
}

// ofBindings narrows a selector to ManifestWorks of bindings, or to nothing.
func ofBindings(selector labels.Selector, some bool) (labels.Selector, error) {
	if selector == nil {
		selector = labels.NewSelector()
	}
	operators := []selection.Operator{selection.Exists}
	if !some {
		operators = append(operators, selection.DoesNotExist)
	}
	for _, operator := range operators {
		requirement, err := labels.NewRequirement(v1alpha1.LabelPermanentID, operator, nil)
		if err != nil {
			return nil, fmt.Errorf("select the works of bindings: %w", err)
		}
		selector = selector.Add(*requirement)
	}
	return selector, nil
}

// onHub returns a selector of Works as one of ManifestWorks: these are in other
// namespaces. None is in the namespace "", which stands for those of no cluster.
func onHub(selector fields.Selector) (fields.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	there, err := selector.Transform(func(field, value string) (string, string, error) {
		if field == "metadata.namespace" {
			value = clusterOf(value)
		}
		return field, value, nil
	})
	if err != nil {
		return nil, fmt.Errorf("select works by fields: %w", err)
	}
	return there, nil
}
