// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/operator/render"
)

// Target is a cluster that something is installed on: the management cluster,
// which the operator runs on, or one that it only works on. Phases do the same
// on either; where there is one cluster only, both are the same Target.
type Target struct {
	Client client.Client
	// Live reads past the cache of Client, if it has one.
	Live client.Reader
	// Applier finds out from the cache what is there.
	Applier *render.Applier
	// Named applies what is read by its name, past the cache: objects of kinds that
	// the operator does not watch, because it may not see those of others.
	Named *render.Applier
	// Secrets applies secrets, which it sees with a reader that may read them.
	Secrets *render.Applier
}

// TargetReaders are the ways to read that a Client's cache does not offer.
type TargetReaders struct {
	// Live reads from the API server, Secrets the secrets that the operator has to
	// do with.
	Live, Secrets client.Reader
}

// NewTarget returns a Target on which everything is applied by the field owner.
func NewTarget(c client.Client, readers TargetReaders, owner string) *Target {
	return &Target{
		Client: c, Live: readers.Live,
		Applier: render.NewApplier(c, c, owner),
		Named:   render.NewApplier(c, readers.Live, owner),
		Secrets: render.NewApplier(c, readers.Secrets, owner),
	}
}

// GetNamespace reads a namespace past the cache; nil means that there is none.
func (t *Target) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := t.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // "there is none" is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	return namespace, nil
}

// DeleteNamespace deletes this very namespace, and none that was made since.
func (t *Target) DeleteNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	if !namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	err := t.Client.Delete(ctx, namespace,
		client.Preconditions{UID: &namespace.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting namespace %q: %w", namespace.Name, err)
	}
	return nil
}

// DeleteSecret deletes a secret.
func (t *Target) DeleteSecret(ctx context.Context, secret *corev1.Secret) error {
	stale := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}}
	if err := t.Client.Delete(ctx, stale); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting secret %q: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}
