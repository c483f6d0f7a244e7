// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/lease"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestAStolenAccountMovesNoLeaseButThoseOfClusters tries, with the account of
// the controllers, what would make nodes look dead and other controllers lead
// twice.
func TestAStolenAccountMovesNoLeaseButThoseOfClusters(t *testing.T) {
	h := startHub(t, registration.SetupOptions{Gates: hub.ResolveGates(t, nil)})
	thief := h.ClientOf(t, "registration-controller-sa")
	h.CreateObjects(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "east"}})
	for namespace, name := range map[string]string{
		"kube-node-lease": "node-1",
		"kube-system":     "kube-controller-manager",
		"default":         "work-controller-lock",
	} {
		victim := func() *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		}
		h.CreateObjects(t, victim())
		stranger := victim()
		stranger.Name += "-2"
		for what, attack := range map[string]func(context.Context) error{
			"read":   func(ctx context.Context) error { return thief.Get(ctx, client.ObjectKeyFromObject(victim()), victim()) },
			"update": func(ctx context.Context) error { return thief.Update(ctx, victim()) },
			"patch": func(ctx context.Context) error {
				return thief.Patch(ctx, victim(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holderIdentity":"thief"}}`)))
			},
			"delete": func(ctx context.Context) error { return thief.Delete(ctx, victim()) },
			"delete all": func(ctx context.Context) error {
				return thief.DeleteAllOf(ctx, victim(), client.InNamespace(namespace))
			},
			"list": func(ctx context.Context) error {
				return thief.List(ctx, &coordinationv1.LeaseList{}, client.InNamespace(namespace))
			},
			"create":          func(ctx context.Context) error { return thief.Create(ctx, stranger) },
			"create by apply": func(ctx context.Context) error { return lease.CreateLease(ctx, thief, stranger) },
		} {
			if err := attack(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("%s of Lease %s/%s: %v, want it to be forbidden", what, namespace, name, err)
			}
		}
	}
	if err := thief.List(t.Context(), &coordinationv1.LeaseList{}); !apierrors.IsForbidden(err) {
		t.Errorf("list of all Leases: %v, want it to be forbidden", err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all-leases"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update"},
	}}}
	if err := thief.Create(t.Context(), role); !apierrors.IsForbidden(err) {
		t.Errorf("giving the right to all Leases to somebody: %v, want it to be forbidden", err)
	}
	// What it is for works all the same.
	made := grants.InitialLease("east", 60, time.Now())
	if err := lease.CreateLease(t.Context(), thief, made); err != nil {
		t.Fatal(err)
	}
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
		t.Fatal(err)
	}
	made.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(time.Minute)}
	if err := h.Client.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if err := lease.CreateLease(t.Context(), thief, grants.InitialLease("east", 60, time.Now())); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating a lease that an agent has renewed: %v, want AlreadyExists", err)
	}
}
