// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// CallTimeout is how long one request to a cluster may take.
const CallTimeout = 30 * time.Second

// Member writes objects of a cluster. It bounds how many requests are under
// way and how long each takes; it does not limit their rate, which is up to
// the server. It reads and returns metadata only, but for Read. It is safe for
// concurrent use.
type Member struct {
	client  metadata.Interface
	bodies  dynamic.Interface
	slots   chan struct{}
	memory  *decoding.Memory
	cluster string
}

// MemberOptions are what a Member needs.
type MemberOptions struct {
	// Config and Client are how the cluster is reached.
	Config *rest.Config
	Client *http.Client
	// Parallel is how many requests are under way at most.
	Parallel int
	// Memory has room for what large answers take while they are decoded, until it is known
	// that they are no more than is taken. Members of other clusters may share it, each with
	// its own share by the name of the cluster. It is not the Memory of the reservations in which
	// callers decode manifests. May be nil.
	Memory  *decoding.Memory
	Cluster string
}

// NewMember returns a Member. It connects to nothing yet.
func NewMember(o MemberOptions) (*Member, error) {
	client := *o.Client
	client.Transport = decoding.NewTransport(client.Transport)
	m := &Member{slots: make(chan struct{}, o.Parallel), memory: o.Memory, cluster: o.Cluster}
	var err error
	if m.client, err = metadata.NewForConfigAndClient(o.Config, &client); err != nil {
		return nil, fmt.Errorf("making a metadata client for objects: %w", err)
	}
	if m.bodies, err = dynamic.NewForConfigAndClient(o.Config, &client); err != nil {
		return nil, fmt.Errorf("making a client for whole objects: %w", err)
	}
	return m, nil
}

// FieldWriter says in whose name fields are written.
type FieldWriter struct {
	Manager string
	// Force takes fields over from other managers.
	Force bool
}

// Apply writes an object by server-side apply, which makes it if it is not there.
func (m *Member) Apply(
	ctx context.Context, version string, object ObjectRef, body []byte, as FieldWriter,
) (*metav1.PartialObjectMetadata, error) {
	return m.patchObject(ctx, version, object, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: as.Manager, Force: &as.Force})
}

// MergePatch changes an object that is there by a JSON merge patch.
func (m *Member) MergePatch(
	ctx context.Context, version string, object ObjectRef, body []byte, as FieldWriter,
) (*metav1.PartialObjectMetadata, error) {
	return m.patchObject(ctx, version, object, types.MergePatchType, body, metav1.PatchOptions{FieldManager: as.Manager})
}

// Replace changes an object that is there by a JSON patch.
func (m *Member) Replace(
	ctx context.Context, version string, object ObjectRef, body []byte, as FieldWriter,
) (*metav1.PartialObjectMetadata, error) {
	return m.patchObject(ctx, version, object, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: as.Manager})
}

// TryReplace is Replace without storing anything: a dry run.
func (m *Member) TryReplace(ctx context.Context, version string, object ObjectRef, body []byte, as FieldWriter) error {
	_, err := m.patchObject(ctx, version, object, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: as.Manager, DryRun: []string{metav1.DryRunAll}})
	return err
}

func (m *Member) patchObject(
	ctx context.Context, version string, object ObjectRef, patchType types.PatchType, body []byte, options metav1.PatchOptions,
) (*metav1.PartialObjectMetadata, error) {
	ctx, done, err := m.acquireSlot(ctx)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", object, err)
	}
	defer done()
	written, err := m.metadataResource(version, object).Patch(ctx, object.Name, patchType, body, options)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", object, err)
	}
	if err := checkMetadata(written); err != nil {
		return nil, fmt.Errorf("%s, as it was written: %w", object, err)
	}
	return written, nil
}

// Create makes an object that is not there; the error is AlreadyExists if it is.
func (m *Member) Create(
	ctx context.Context, version string, object ObjectRef, body []byte, manager string,
) (*metav1.PartialObjectMetadata, error) {
	return m.createObject(ctx, version, object, body, metav1.CreateOptions{FieldManager: manager})
}

// TryCreate is Create without storing anything: a dry run. If the object is there, the error is
// AlreadyExists for one that the server would make if it were not: that is looked at last.
func (m *Member) TryCreate(ctx context.Context, version string, object ObjectRef, body []byte, manager string) error {
	_, err := m.createObject(ctx, version, object, body, metav1.CreateOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}})
	return err
}

func (m *Member) createObject(
	ctx context.Context, version string, object ObjectRef, body []byte, options metav1.CreateOptions,
) (*metav1.PartialObjectMetadata, error) {
	desired, err := creationBody(body)
	if err != nil {
		return nil, err
	}
	ctx, done, err := m.acquireSlot(ctx)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", object, err)
	}
	defer done()
	created, err := m.dynamicResource(version, object).Create(ctx, desired, options)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", object, err)
	}
	if err := checkMetadata(created); err != nil {
		return nil, fmt.Errorf("%s, as it was created: %w", object, err)
	}
	return meta.AsPartialObjectMetadata(created), nil
}

// creationBody returns what to send for a body to make an object that is not there: no version of one. Whatever else
// it has stays text.
func creationBody(body []byte) (*unstructured.Unstructured, error) {
	var content, metadata map[string]json.RawMessage
	if err := json.Unmarshal(body, &content); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotObject, err)
	}
	desired := &unstructured.Unstructured{Object: make(map[string]any, len(content))}
	var version, kind string // which the client reads
	for field, value := range map[string]any{"apiVersion": &version, "kind": &kind, "metadata": &metadata} {
		if err := json.Unmarshal(content[field], value); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrNotObject, field, err)
		}
	}
	for field, text := range content {
		desired.Object[field] = text
	}
	delete(metadata, "resourceVersion")
	desired.Object["metadata"] = metadata
	desired.SetAPIVersion(version)
	desired.SetKind(kind)
	return desired, nil
}

// Get reads the metadata of an object from the server.
func (m *Member) Get(ctx context.Context, version string, object ObjectRef) (*metav1.PartialObjectMetadata, error) {
	ctx, done, err := m.acquireSlot(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	defer done()
	found, err := m.metadataResource(version, object).Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	if err := checkMetadata(found); err != nil {
		return nil, fmt.Errorf("%s, as it was read: %w", object, err)
	}
	return found, nil
}

// ReadObject reads a whole object from the server.
func (m *Member) ReadObject(ctx context.Context, version string, object ObjectRef) (found *unstructured.Unstructured, err error) {
	err = m.ViewObject(ctx, version, object, func(seen *unstructured.Unstructured) { found = seen })
	return found, err
}

// ViewObject is ReadObject for an object that is used by view only: there is room for it until that returns.
func (m *Member) ViewObject(ctx context.Context, version string, object ObjectRef, view func(*unstructured.Unstructured)) error {
	m.memory.EndReservation(ctx)
	ctx, viewed := m.memory.BeginReservation(ctx, m.cluster)
	defer viewed()
	found, err := m.readWhole(ctx, version, object)
	if err != nil {
		return err
	}
	view(found)
	return nil
}

// readWhole reads a whole object. What is decoded counts for the reservation of ctx.
func (m *Member) readWhole(ctx context.Context, version string, object ObjectRef) (*unstructured.Unstructured, error) {
	ctx, done, err := m.awaitSlot(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	defer done()
	found, err := m.dynamicResource(version, object).Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	if err = checkValues(found.Object); err == nil {
		err = checkMetadata(found)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, as it was read: %w", object, err)
	}
	return found, nil
}

// Delete deletes an object, provided that it is the one with the UID and,
// unless that is empty, has the resourceVersion.
func (m *Member) Delete(ctx context.Context, version string, object ObjectRef, uid types.UID, resourceVersion string) error {
	ctx, done, err := m.acquireSlot(ctx)
	if err != nil {
		return fmt.Errorf("deleting %s: %w", object, err)
	}
	defer done()
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid},
	}
	if resourceVersion != "" {
		options.Preconditions.ResourceVersion = &resourceVersion
	}
	if err := m.metadataResource(version, object).Delete(ctx, object.Name, options); err != nil {
		return fmt.Errorf("deleting %s: %w", object, err)
	}
	return nil
}

// acquireSlot waits for its turn. What was decoded of a manifest before counts no more, unless it is kept, so that a slow
// server keeps no room from others. What is decoded of the answer counts until the function is called that it returns.
// That has another Memory: who keeps room in the first waits for some in the second, and nobody the other way round.
func (m *Member) acquireSlot(ctx context.Context) (context.Context, func(), error) {
	m.memory.EndReservation(ctx)
	ctx, done, err := m.awaitSlot(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, decoded := m.memory.BeginReservation(ctx, m.cluster)
	return ctx, func() { decoded(); done() }, nil
}

// awaitSlot waits for its turn, which ends when the function is called that it returns.
func (m *Member) awaitSlot(ctx context.Context) (context.Context, func(), error) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	return ctx, func() { cancel(); <-m.slots }, nil
}

func (m *Member) metadataResource(version string, object ObjectRef) metadata.ResourceInterface {
	resource := m.client.Resource(resourceIn(version, object))
	if object.Namespace == "" {
		return resource
	}
	return resource.Namespace(object.Namespace)
}

func (m *Member) dynamicResource(version string, object ObjectRef) dynamic.ResourceInterface {
	resource := m.bodies.Resource(resourceIn(version, object))
	if object.Namespace == "" {
		return resource
	}
	return resource.Namespace(object.Namespace)
}

func resourceIn(version string, object ObjectRef) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: object.Group, Version: version, Resource: object.Resource}
}
