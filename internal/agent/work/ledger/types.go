// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/report"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// IsPending reports whether the objects of a noted type are not listed yet.
func (r *AppliedRecord) IsPending() bool {
	return slices.ContainsFunc(TypesOf(r.object), func(resource schema.GroupVersionResource) bool {
		return errors.Is(r.ledger.Inventory.TypeState(resource.GroupResource()), inventory.ErrPending)
	})
}

// hasBlindType reports whether the objects of a noted type cannot be known.
func (r *AppliedRecord) hasBlindType() bool {
	return slices.ContainsFunc(TypesOf(r.object), func(resource schema.GroupVersionResource) bool {
		return IsBlindType(r.ledger.Inventory, resource.GroupResource())
	})
}

// IsBlindType reports whether the agent may not list and watch the objects of a type.
func IsBlindType(known *inventory.Inventory, resource schema.GroupResource) bool {
	err := known.TypeState(resource)
	return err != nil && !errors.Is(err, inventory.ErrPending)
}

// UnlistedTypes names the types whose objects are not known, with what the server says.
func (r *AppliedRecord) UnlistedTypes() []report.UnlistedType {
	var unlisted []report.UnlistedType
	for _, resource := range TypesOf(r.object) {
		err := r.ledger.Inventory.TypeState(resource.GroupResource())
		if !errors.Is(err, inventory.ErrPending) {
			continue
		}
		if err == inventory.ErrPending { //nolint:errorlint // alone, it is only a matter of time
			err = nil
		}
		unlisted = append(unlisted, report.UnlistedType{Type: resource.GroupResource().String(), Err: err})
	}
	return unlisted
}

// TypesOf returns the types that a record has noted, sorted.
func TypesOf(record *workv1.AppliedManifestWork) []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	known := map[schema.GroupResource]struct{}{} // both may be what a member has made up: thousands
	for noted := range strings.SplitSeq(record.Annotations[workv1.AnnotationResourceTypes], ",") {
		if parts := strings.SplitN(noted, "/", 4); len(parts) == 3 {
			resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
			known[resource.GroupResource()] = struct{}{}
			resources = append(resources, resource)
		}
	}
	for i := range record.Status.AppliedResources {
		r := &record.Status.AppliedResources[i]
		if _, ok := known[GroupResource(r)]; !ok {
			known[GroupResource(r)] = struct{}{}
			resources = append(resources, schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource})
		}
	}
	return plan.SortTypes(resources)
}

func formatTypes(resources []schema.GroupVersionResource) string {
	texts := make([]string, 0, len(resources))
	for _, r := range resources {
		texts = append(texts, r.Group+"/"+r.Version+"/"+r.Resource)
	}
	return strings.Join(texts, ",")
}

// ObjectOf returns the object of an entry of a record's list.
func ObjectOf(r *workv1.AppliedManifestResourceMeta) apply.ObjectRef {
	return apply.ObjectRef{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}
}

// GroupResource returns the type of the object of an entry of a record's list.
func GroupResource(r *workv1.AppliedManifestResourceMeta) schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

func metaOf(object apply.ObjectRef, version string, uid types.UID) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{
		ResourceIdentifier: workv1.ResourceIdentifier{
			Group: object.Group, Resource: object.Resource, Namespace: object.Namespace, Name: object.Name,
		},
		Version: version, UID: string(uid),
	}
}
