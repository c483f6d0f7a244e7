// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stored

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errModified is what Kubernetes says about a lost race.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// ResourceKind is a kind with the resource of its objects.
type ResourceKind struct{ Group, Resource, Kind string }

// ProjectedView is a kind that is not stored, and the kinds that it is made of.
type ProjectedView struct {
	Shown  ResourceKind
	Stored []ResourceKind
}

// GroupResource returns what is shown.
func (v ProjectedView) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: v.Shown.Group, Resource: v.Shown.Resource}
}

// NotFoundError returns that there is no object of the name.
func (v ProjectedView) NotFoundError(name string) error {
	return apierrors.NewNotFound(v.GroupResource(), name)
}

// ConflictError returns that somebody else wrote in between.
func (v ProjectedView) ConflictError(name string) error {
	return apierrors.NewConflict(v.GroupResource(), name, errModified)
}

// TranslateError returns what the hub says about a stored object as what it means for the
// one that is shown. An error that is not the hub's is that the hub does not
// respond.
func (v ProjectedView) TranslateError(err error, name string) error {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return apierrors.NewServiceUnavailable("the hub's API server does not respond: " + err.Error())
	case apierrors.IsNotFound(err):
		return v.NotFoundError(name)
	case apierrors.IsConflict(err):
		return v.ConflictError(name)
	}
	is := status.Status()
	return &apierrors.StatusError{ErrStatus: *v.TranslateStatus(&is)}
}

// TranslateStatus names what is shown where the hub names what is stored.
func (v ProjectedView) TranslateStatus(status *metav1.Status) *metav1.Status {
	status = status.DeepCopy()
	for _, kind := range v.Stored {
		status.Message = strings.NewReplacer(
			kind.Kind+"."+kind.Group, v.Shown.Kind+"."+v.Shown.Group,
			kind.Resource+"."+kind.Group, v.Shown.Resource+"."+v.Shown.Group,
		).Replace(status.Message)
		d := status.Details
		if d == nil || d.Group != kind.Group {
			continue
		}
		switch d.Kind {
		case kind.Resource:
			d.Group = v.Shown.Group
			d.Kind = v.Shown.Resource
		case kind.Kind:
			d.Group = v.Shown.Group
			d.Kind = v.Shown.Kind
		}
	}
	return status
}
