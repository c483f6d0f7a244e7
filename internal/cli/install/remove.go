// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// Instances returns the names of the objects that the operator works for.
// Without their definition there are none.
func (o Operator) Instances(ctx context.Context, c client.Reader) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(o.kind.GroupVersion().WithKind(o.kind.Kind + "List"))
	if err := c.List(ctx, list); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list %ss: %w", o.kind.Kind, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// RemoveOperator removes what installs the operator, and waits until it is gone. The
// namespace stays while another operator is in it. It refuses as long as there
// is an object that the operator would have to clean up after: without it, that
// object would never go.
func (o Operator) RemoveOperator(ctx context.Context, c client.Client, w Waiter) error {
	instances, err := o.Instances(ctx, w.Client)
	if err != nil {
		return err
	}
	if len(instances) > 0 {
		return exit.Next(fmt.Errorf("the operator %q has to stay: there is still %s %s", o.name, o.kind.Kind, strings.Join(instances, ", ")),
			"Delete it first, and wait until its operator has cleaned up.")
	}
	objects, err := o.ownObjects(ctx, w.Client)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := DeleteObject(ctx, c, object); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if err := w.AwaitGone(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// ownObjects returns what installs this operator only, in the order in which to remove
// it: without the namespace while another operator is in it.
func (o Operator) ownObjects(ctx context.Context, c client.Reader) ([]*unstructured.Unstructured, error) {
	objects, err := o.RenderObjects(OperatorOptions{})
	if err != nil {
		return nil, err
	}
	for _, other := range o.otherOperators() {
		shared, err := other.Installed(ctx, c)
		if err != nil {
			return nil, err
		}
		if shared != nil {
			objects = slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Namespace" })
		}
	}
	slices.Reverse(objects)
	return objects, nil
}

// Leftovers reports whether anything is there that installs this operator, of what
// Capstan has installed.
func (o Operator) Leftovers(ctx context.Context, c client.Reader) (bool, error) {
	objects, err := o.ownObjects(ctx, c)
	if err != nil {
		return false, err
	}
	for _, object := range objects {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(object), live)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read %s: %w", describeObject(object), err)
		}
		if err == nil && InstallerOf(live) == ByCapstan {
			return true, nil
		}
	}
	return false, nil
}

// Installed returns the Deployment of the operator, or nil if there is none.
func (o Operator) Installed(ctx context.Context, c client.Reader) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, o.DeploymentKey(), deployment); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the Deployment %q: %w", o.DeploymentKey(), err)
	}
	return deployment, nil
}

// DeleteObject deletes an object, if it is there, and what belongs to it.
func DeleteObject(ctx context.Context, c client.Client, object client.Object) error {
	err := c.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", describeObject(object), err)
	}
	return nil
}
