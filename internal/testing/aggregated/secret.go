// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// NewSecret returns a Secret with data.
func NewSecret(namespace, name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
}

// WaitingCluster is a Cluster whose Secret has its name.
func WaitingCluster(name string) *v1alpha1.Cluster {
	c := NewCluster(name, v1alpha1.Push)
	c.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: v1alpha1.SecretsNamespace, Name: name}
	return c
}

// JoinWaiting creates a Cluster that waits, and accepts it.
func (h *Hub) JoinWaiting(t testing.TB, name string) {
	t.Helper()
	h.CreateObject(t, WaitingCluster(name))
	h.MirrorCluster(t, name)
}

// SupplySecret creates the Secret of a Cluster that waits.
func (h *Hub) SupplySecret(t testing.TB, name string) {
	t.Helper()
	h.CreateObject(t, NewSecret(v1alpha1.SecretsNamespace, name, map[string]string{"token": "of-" + name, "caBundle": "ca", "more": "never copied"}))
}

// CopiedToken returns that in the copy of the Secret of a cluster.
func (h *Hub) CopiedToken(ctx context.Context, cluster, copied string) (string, error) {
	found := &corev1.Secret{}
	err := h.Get(ctx, client.ObjectKey{Namespace: cluster, Name: copied}, found)
	return string(found.Data["token"]), err
}

// IsCopied waits until the Secret of a cluster has been copied into its namespace.
func (h *Hub) IsCopied(t testing.TB, cluster, copied, want string) {
	t.Helper()
	Eventually(t, "the Secret of "+cluster+" is copied", func(ctx context.Context) error {
		got, err := h.CopiedToken(ctx, cluster, copied)
		if err == nil && got != want {
			return fmt.Errorf("the token is %q, want %q", got, want)
		}
		return err
	})
}

// IsNotCopied fails the test if a Secret of a cluster has been copied.
func (h *Hub) IsNotCopied(t testing.TB, cluster string) {
	t.Helper()
	if got, err := h.CopiedToken(t.Context(), cluster, fleetv1alpha1.DefaultSecretName); !apierrors.IsNotFound(err) {
		t.Errorf("there is a copy for %s with token %q (%v), want none", cluster, got, err)
	}
}

// ListAwaited returns the Secrets that a cluster waits for, as the hub has noted.
func (h *Hub) ListAwaited(ctx context.Context, cluster string) ([]fleetv1alpha1.AwaitedSecret, error) {
	connection := &fleetv1alpha1.ClusterConnection{}
	err := h.Get(ctx, client.ObjectKey{Name: cluster}, connection)
	if err == nil && connection.Cluster == nil {
		err = errors.New("it is no Cluster")
	}
	if err != nil {
		return nil, err
	}
	return connection.Cluster.AwaitedSecrets, nil
}

// ReasonIs waits until the hub says something of the Secret that a cluster waits for.
func (h *Hub) ReasonIs(t testing.TB, cluster, want string) {
	t.Helper()
	Eventually(t, cluster+" says "+want, func(ctx context.Context) error {
		awaited, err := h.ListAwaited(ctx, cluster)
		if err != nil {
			return err
		}
		if len(awaited) != 1 || !strings.Contains(awaited[0].Message, want) {
			return fmt.Errorf("it waits for %+v", awaited)
		}
		return nil
	})
	found := &v1alpha1.Cluster{}
	h.ReadObject(t, cluster, found)
	ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ClusterConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ClusterReasonNotReachable || !strings.Contains(ready.Message, want) {
		t.Errorf("Ready of %s is %+v, want that it says %q", cluster, ready, want)
	}
}

// WaitsNoMore waits until the hub has noted that a cluster does not wait.
func (h *Hub) WaitsNoMore(t testing.TB, cluster string) {
	t.Helper()
	Eventually(t, cluster+" waits no more", func(ctx context.Context) error {
		awaited, err := h.ListAwaited(ctx, cluster)
		if err == nil && len(awaited) > 0 {
			err = fmt.Errorf("it waits for %+v", awaited)
		}
		return err
	})
}

// ChangeProjection changes what only the hub may write, as often as it takes.
func (h *Hub) ChangeProjection(t testing.TB, name string, change func(*fleetv1alpha1.ClusterProjection)) {
	t.Helper()
	Eventually(t, "the ClusterConnection of "+name+" is changed", func(ctx context.Context) error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := h.Get(ctx, client.ObjectKey{Name: name}, connection); err != nil {
			return err
		}
		change(connection.Cluster)
		return h.Update(ctx, connection)
	})
}
