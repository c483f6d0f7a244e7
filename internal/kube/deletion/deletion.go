// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletion deletes objects whose status somebody else writes, who may fill it.
//
// As long as an object has finalizers, its deletion is an update that notes when it was
// deleted. One that is as large as etcd takes has no room for that. The package does not
// wait until an object is gone.
package deletion

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// IsTooLarge reports whether an API server refuses a write as the object would be larger than
// what it, or etcd, takes.
func IsTooLarge(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large"))
}

// DeleteObject deletes an object, and none that was made anew under its name. One without room
// for its deletion loses its finalizers but those that are kept, and is deleted then:
// whoever is waited for by the others has filled it. An object that is gone is a NotFound
// error, another one of its name a Conflict.
func DeleteObject(ctx context.Context, c client.Client, object client.Object, kept []string) error {
	uid := object.GetUID()
	// The client writes what it is answered into copies.
	err := c.Delete(ctx, deepcopy.CopyObject(object), client.Preconditions{UID: &uid})
	if !IsTooLarge(err) {
		return err //nolint:wrapcheck // documented
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "finalizers": kept}})
	if err != nil {
		return fmt.Errorf("encoding finalizers: %w", err)
	}
	if err := c.Patch(ctx, deepcopy.CopyObject(object), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("taking the finalizers off, as there is no room to note the deletion: %w", err)
	}
	return c.Delete(ctx, deepcopy.CopyObject(object), client.Preconditions{UID: &uid}) //nolint:wrapcheck // documented
}
