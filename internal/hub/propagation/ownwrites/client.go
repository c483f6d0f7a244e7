// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
)

// ReadOwnWritesClient is a client that reads from a cache, and of a single binding what it has
// written itself if the cache does not show it yet. Lists are those of the cache.
type ReadOwnWritesClient struct {
	client.Client

	Written *WrittenBindings
	// Meter counts the bindings that are written.
	Meter *store.WriteMeter
}

// Get implements client.Reader.
func (c ReadOwnWritesClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := c.Client.Get(ctx, key, object, options...)
	if _, is := object.(lookup.Binding); !is || err != nil && !apierrors.IsNotFound(err) {
		return err //nolint:wrapcheck // it is the client's own
	}
	shown := object
	if err != nil {
		shown = nil
	}
	switch since := c.Written.Since(key, shown).(type) {
	case *workv1alpha2.ResourceBinding:
		if into, is := object.(*workv1alpha2.ResourceBinding); is {
			*into = *since
			return nil
		}
	case *workv1alpha2.ClusterResourceBinding:
		if into, is := object.(*workv1alpha2.ClusterResourceBinding); is {
			*into = *since
			return nil
		}
	}
	return err //nolint:wrapcheck // it is the client's own
}

// Create implements client.Writer.
func (c ReadOwnWritesClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	err := c.Client.Create(ctx, object, options...)
	c.recordAnswer(ctx, object, err, c.Written.RecordWrite)
	return err //nolint:wrapcheck // it is the client's own
}

// Patch implements client.Writer.
func (c ReadOwnWritesClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	err := c.Client.Patch(ctx, object, patch, options...)
	c.recordAnswer(ctx, object, err, c.Written.RecordWrite)
	return err //nolint:wrapcheck // it is the client's own
}

// Delete implements client.Writer.
func (c ReadOwnWritesClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := c.Client.Delete(ctx, object, options...); err != nil {
		return err //nolint:wrapcheck // it is the client's own
	}
	if b, is := object.(lookup.Binding); is {
		c.Written.RecordDeletion(client.ObjectKeyFromObject(b))
	}
	return nil
}

// Status implements client.StatusClient.
func (c ReadOwnWritesClient) Status() client.SubResourceWriter {
	return statusWriter{SubResourceWriter: c.Client.Status(), client: c}
}

// recordAnswer notes what the hub has returned.
func (c ReadOwnWritesClient) recordAnswer(ctx context.Context, object client.Object, err error, record func(lookup.Binding)) {
	if b, is := object.(lookup.Binding); is && err == nil {
		record(b)
		c.Meter.CountWrite(ctx, b)
	}
}

// statusWriter writes the status of objects.
type statusWriter struct {
	client.SubResourceWriter

	client ReadOwnWritesClient
}

// Patch implements client.SubResourceWriter.
func (s statusWriter) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	err := s.SubResourceWriter.Patch(ctx, object, patch, options...)
	s.client.recordAnswer(ctx, object, err, s.client.Written.RecordStatusWrite)
	return err //nolint:wrapcheck // it is the client's own
}
