// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/deletion"
)

const (
	// retry is when to look again for objects that are not watched.
	retry = 5 * time.Second
	// soon is when to go on after something was deleted that is gone at once.
	soon = 100 * time.Millisecond
	// deletesMax is how many deletions of one cluster are under way at once.
	deletesMax = 8
	// pageItems is the size of one page of a list.
	pageItems = 500
)

// NamespaceCollector deletes what is in the namespaces of clusters.
type NamespaceCollector struct {
	// client deletes, live lists: deletions are rare, and what a cache does not
	// know of yet would be left behind.
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
	kinds  []schema.GroupVersionResource
}

// NewNamespaceCollector returns a collector of the kinds, in this order.
func NewNamespaceCollector(c client.Client, live client.Reader, clk clock.PassiveClock, kinds []schema.GroupVersionResource) *NamespaceCollector {
	return &NamespaceCollector{client: c, live: live, clock: clk, kinds: kinds}
}

// DefaultKinds returns the kinds that are deleted unless others are named.
func DefaultKinds() []string {
	return []string{
		"addon.open-cluster-management.io/v1alpha1/managedclusteraddons",
		"work.open-cluster-management.io/v1/manifestworks",
	}
}

// ParseKinds reads kinds of the form group/version/resource.
func ParseKinds(values []string) ([]schema.GroupVersionResource, error) {
	kinds := make([]schema.GroupVersionResource, 0, len(values))
	for _, value := range values {
		parts := strings.Split(value, "/")
		if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
			return nil, fmt.Errorf("resource %q: want group/version/resource, for example %s", value, DefaultKinds()[1])
		}
		kinds = append(kinds, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
	}
	return kinds, nil
}

// Collect deletes the next batch and tells what remains. Call it again when
// something is gone, and after Remaining.RetryAfter.
func (c *NamespaceCollector) Collect(ctx context.Context, mc *clusterv1.ManagedCluster) (Remaining, error) {
	for _, kind := range c.kinds {
		remaining, err := c.collectKind(ctx, mc, kind)
		if err != nil || remaining.Count > 0 {
			return remaining, err
		}
	}
	return Remaining{}, nil
}

func (c *NamespaceCollector) collectKind(
	ctx context.Context, mc *clusterv1.ManagedCluster, kind schema.GroupVersionResource,
) (Remaining, error) {
	objects, err := c.listObjects(ctx, mc.Name, kind)
	if err != nil || len(objects) == 0 {
		return Remaining{}, err
	}
	batch := lowestPriority(objects)
	patience := patienceWith(mc, c.clock.Now())
	remaining := Remaining{
		Resource: kind.Resource, Count: len(objects), Names: objectNames(objects), Pending: countPending(objects),
		Why: patience.why, RetryAfter: retry,
	}
	if patience.left > 0 {
		remaining.RetryAfter = min(retry, patience.left)
	}
	outcomes := make([]deletionOutcome, len(batch))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesMax)
	for i := range batch {
		group.Go(func() error {
			var err error
			outcomes[i], err = c.deleteOne(ctx, &batch[i], patience.over)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Remaining{}, err
	}
	for _, o := range outcomes {
		if o == released {
			remaining.Released++
		}
		if o != waiting {
			remaining.RetryAfter = soon
		}
	}
	return remaining, nil
}

// deletionOutcome is what became of an object.
type deletionOutcome int

const (
	waiting  deletionOutcome = iota // for its finalizers
	deleted                         // at once
	released                        // lost its finalizers
)

// deleteOne deletes an object and, if nobody is waited for, takes its
// finalizers off.
func (c *NamespaceCollector) deleteOne(ctx context.Context, obj *metav1.PartialObjectMetadata, release bool) (deletionOutcome, error) {
	what := fmt.Sprintf("%s %q", obj.Kind, client.ObjectKeyFromObject(obj))
	if obj.DeletionTimestamp.IsZero() {
		err := deletion.DeleteObject(ctx, c.client, namedObject(obj), foreignFinalizers(obj.Finalizers))
		if client.IgnoreNotFound(err) != nil {
			return waiting, fmt.Errorf("deleting %s of the deleted cluster: %w", what, err)
		}
		if len(obj.Finalizers) == 0 {
			return deleted, nil
		}
	}
	kept := foreignFinalizers(obj.Finalizers)
	if !release || len(kept) == len(obj.Finalizers) {
		return waiting, nil
	}
	before := obj.DeepCopy()
	obj.Finalizers = kept
	// No resourceVersion: the deletion has just changed it, and from now on
	// finalizers can only go.
	if err := c.client.Patch(ctx, obj, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return waiting, fmt.Errorf("removing the finalizers of %s: %w", what, err)
	}
	return released, nil
}

// namedObject returns what names an object to those who delete it. The client decodes
// what stays for its finalizers, and of metadata alone it takes the kind for one
// that its scheme has to know.
func namedObject(obj *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(obj.GroupVersionKind())
	u.SetNamespace(obj.Namespace)
	u.SetName(obj.Name)
	u.SetUID(obj.UID)
	return u
}

// listObjects returns the objects of a kind. A kind that the hub does not have, or
// that it had until its definition was removed, has none.
func (c *NamespaceCollector) listObjects(ctx context.Context, namespace string, kind schema.GroupVersionResource) ([]metav1.PartialObjectMetadata, error) {
	gvk, err := c.client.RESTMapper().KindFor(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", kind, err)
	}
	var objects []metav1.PartialObjectMetadata
	token := ""
	for {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := c.live.List(ctx, page, client.InNamespace(namespace), client.Limit(pageItems), client.Continue(token))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s in namespace %q: %w", kind.Resource, namespace, err)
		}
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(gvk)
		}
		objects = append(objects, page.Items...)
		if token = page.Continue; token == "" {
			return objects, nil
		}
	}
}

func objectNames(objects []metav1.PartialObjectMetadata) []string {
	all := make([]string, 0, len(objects))
	for i := range objects {
		all = append(all, objects[i].Name)
	}
	slices.Sort(all)
	return all[:min(len(all), namesMax)]
}

func countPending(objects []metav1.PartialObjectMetadata) int {
	n := 0
	for i := range objects {
		if !objects[i].DeletionTimestamp.IsZero() && len(objects[i].Finalizers) > 0 {
			n++
		}
	}
	return n
}
