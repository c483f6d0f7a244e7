// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// permissionResources returns the resources that say who may do what.
func permissionResources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		rbacv1.SchemeGroupVersion.WithResource("roles"),
		rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
		rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	}
}

func serviceAccounts() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
}

// followPermissions forgets decisions when objects of the resource change, until ctx
// ends. Nothing of the objects is kept, so it costs no memory however many
// there are; who is in a binding is thus not known, and all decisions that it
// could be about are forgotten.
func (k *decisionCache) followPermissions(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource) {
	run := watch.Watch[*metav1.PartialObjectMetadata]{
		Source:  watch.IdentitySource(client, resource, watch.ObjectSelector{}),
		Handler: &permissionHandler{keeper: k, resource: resource.Resource},
	}
	run.RunReflector(dial.ReducedContext(ctx))
}

// permissionHandler is told of changes of a resource. It keeps nothing.
type permissionHandler struct {
	keeper   *decisionCache
	resource string
}

// Replace forgets everything: at first, and after changes may have been missed.
func (h *permissionHandler) Replace([]*metav1.PartialObjectMetadata, string) {
	h.keeper.forgetNamespace("")
	h.keeper.markWatched(h.resource, true)
}

// Update forgets what the object could be about.
func (h *permissionHandler) Update(object *metav1.PartialObjectMetadata) {
	h.keeper.forgetNamespace(object.Namespace)
}

// Delete forgets what the object could be about.
func (h *permissionHandler) Delete(object *metav1.PartialObjectMetadata) { h.Update(object) }

// Bookmark tells nothing of interest.
func (h *permissionHandler) Bookmark(string) {}

// Failed notes that changes are not heard of.
func (h *permissionHandler) Failed(error) { h.keeper.markWatched(h.resource, false) }
