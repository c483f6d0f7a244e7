// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// AdminClient is what an administrator does for a test. What fails ends the test.
type AdminClient struct {
	testing.TB
	client.Client
}

// MustCreate makes objects.
func (a AdminClient) MustCreate(objects ...client.Object) {
	a.Helper()
	CreateObjects(a.TB, a.Client, objects...)
}

// MustGet reads an object as it is now.
func (a AdminClient) MustGet(object client.Object) {
	a.Helper()
	expect.NoError(a.TB, a.Get(a.Context(), client.ObjectKeyFromObject(object), object))
}

// MustDelete deletes an object.
func (a AdminClient) MustDelete(object client.Object) {
	a.Helper()
	expect.NoError(a.TB, a.Delete(a.Context(), object))
}

// MustPatch changes an object as it is now.
func (a AdminClient) MustPatch(object client.Object, change func()) {
	a.Helper()
	a.patchObject(object, change, func(ctx context.Context, patch client.Patch) error { return a.Patch(ctx, object, patch) })
}

// MustPatchStatus changes the status of an object as it is now.
func (a AdminClient) MustPatchStatus(object client.Object, change func()) {
	a.Helper()
	a.patchObject(object, change, func(ctx context.Context, patch client.Patch) error { return a.Status().Patch(ctx, object, patch) })
}

func (a AdminClient) patchObject(object client.Object, change func(), write func(context.Context, client.Patch) error) {
	a.Helper()
	a.MustGet(object)
	before := deepcopy.CopyObject(object)
	change()
	expect.NoError(a.TB, write(a.Context(), client.MergeFrom(before)))
}

// UntilRight waits until nothing is wrong, and ends the test with what is if that does not come.
func (a AdminClient) UntilRight(wrong func() string) {
	a.Helper()
	expect.NothingWrong(a.TB, expect.Patience, "nothing is wrong", wrong)
}
