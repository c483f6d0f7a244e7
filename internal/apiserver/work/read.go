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

// workView is what Works are made of.
func workView() stored.ProjectedView {
	return stored.ProjectedView{
		Shown:  stored.ResourceKind{Group: v1alpha1.GroupName, Resource: "works", Kind: "Work"},
		Stored: []stored.ResourceKind{{Group: workv1.GroupName, Resource: "manifestworks", Kind: "ManifestWork"}},
	}
}

// manifestWorks are those of the hub in one namespace, or in all.
type manifestWorks interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*workv1.ManifestWork, error)
	List(ctx context.Context, o metav1.ListOptions, take func(*workv1.ManifestWork)) (metav1.ListMeta, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (*workv1.ManifestWork, error)
}

// workReader reads Works. Nothing is cached.
type workReader struct {
	in func(namespace string) manifestWorks
}

// Get implements rest.Getter.
func (r workReader) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	from, err := r.getManifestWork(ctx, name, *o)
	if err != nil {
		return nil, err
	}
	return workOf(from), nil
}

// getManifestWork returns the ManifestWork of a Work.
func (r workReader) getManifestWork(ctx context.Context, name string, o metav1.GetOptions) (*workv1.ManifestWork, error) {
	cluster := clusterOfNamespace(request.NamespaceValue(ctx))
	if cluster == "" {
		return nil, workView().NotFoundError(name)
	}
	from, err := r.in(cluster).Get(ctx, name, o)
	if err != nil {
		return nil, workView().TranslateError(err, name)
	}
	if !ofBinding(from) {
		return nil, workView().NotFoundError(name)
	}
	return from, nil
}

// List implements rest.Lister. Versions, pages and selectors are the hub's.
func (r workReader) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	namespace, options, err := hubListOptions(ctx, o)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.WorkList{Items: []v1alpha1.Work{}}
	list.ListMeta, err = r.in(namespace).List(ctx, options, func(from *workv1.ManifestWork) {
		list.Items = append(list.Items, *workOf(from))
	})
	if err != nil {
		return nil, workView().TranslateError(err, "")
	}
	return list, nil
}

// Watch implements rest.Watcher. One whose label goes is deleted for the watcher:
// the hub sees to that.
func (r workReader) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	namespace, options, err := hubListOptions(ctx, o)
	if err != nil {
		return nil, err
	}
	options.Watch = true
	events, err := r.in(namespace).Watch(ctx, options)
	if err != nil {
		return nil, workView().TranslateError(err, "")
	}
	return watch.Filter(events, translateEvent), nil
}

// translateEvent returns an event of a ManifestWork as one of its Work.
func translateEvent(event watch.Event) (watch.Event, bool) {
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
		event.Object = workView().TranslateStatus(object)
	}
	return event, true
}

// hubListOptions returns the namespace of the hub to read from, and what to read there:
// the ManifestWorks of bindings. In a namespace that is of no cluster there are
// none, which it is for the hub to say, in its own version.
func hubListOptions(ctx context.Context, o *internalversion.ListOptions) (namespace string, options metav1.ListOptions, err error) {
	namespace = request.NamespaceValue(ctx)
	cluster := clusterOfNamespace(namespace)
	some := namespace == "" || cluster != ""
	if cluster != "" {
		namespace = cluster
	}
	wanted := &internalversion.ListOptions{}
	if o != nil {
		wanted = o.DeepCopy()
	}
	if wanted.LabelSelector, err = narrowToBindings(wanted.LabelSelector, some); err != nil {
		return "", options, err
	}
	if wanted.FieldSelector, err = hubFieldSelector(wanted.FieldSelector); err != nil {
		return "", options, err
	}
	options, err = stored.HubListOptions(wanted)
	return namespace, options, err
}

// narrowToBindings narrows a selector to ManifestWorks of bindings, or to nothing.
func narrowToBindings(selector labels.Selector, some bool) (labels.Selector, error) {
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

// hubFieldSelector returns a selector of Works as one of ManifestWorks: these are in other
// namespaces. None is in the namespace "", which stands for those of no cluster.
func hubFieldSelector(selector fields.Selector) (fields.Selector, error) {
	if selector == nil {
		return nil, nil
	}
	there, err := selector.Transform(func(field, value string) (string, string, error) {
		if field == "metadata.namespace" {
			value = clusterOfNamespace(value)
		}
		return field, value, nil
	})
	if err != nil {
		return nil, fmt.Errorf("select works by fields: %w", err)
	}
	return there, nil
}
