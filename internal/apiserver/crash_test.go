// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
)

// TestARequestIsFinishedAfterACrash kills the server before and after each of the writes of a request.
// Repeating the request finishes it; the registration controller, which runs
// between the two or does not, finds nothing half made.
func TestARequestIsFinishedAfterACrash(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	for name, request := range map[string]struct {
		prepare func(t *testing.T, h *aggregated.Hub, name string)
		run     func(ctx context.Context, h *aggregated.Hub, name string) error
		check   func(t *testing.T, h *aggregated.Hub, name string)
		writes  int
	}{
		"create": {func(*testing.T, *aggregated.Hub, string) {}, createPushed, checkPushed, 6},
		"update": {func(t *testing.T, h *aggregated.Hub, name string) { t.Helper(); h.CreateJoined(t, name) }, changeAll, checkChanged, 3},
		"delete": {func(t *testing.T, h *aggregated.Hub, name string) { t.Helper(); h.CreateJoined(t, name) }, deleteOne, checkDeleted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range request.writes * 4 {
				n, after, mirrored := i/4+1, i%2 == 1, i%4 > 1
				cluster := fmt.Sprintf("%s-%d", name, i)
				request.prepare(t, h, cluster)
				h.Crashes.CrashAt(n, after)
				err := request.run(t.Context(), h, cluster)
				if !h.Crashes.Restart() || err == nil {
					t.Fatalf("write %d of %s (%v): want that there is one, and that it fails", n, cluster, err)
				}
				if mirrored {
					h.MirrorIfThere(t, cluster)
				}
				if err := request.run(t.Context(), h, cluster); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatalf("%s again after a crash at write %d (after it: %t): %v", cluster, n, after, err)
				}
				request.check(t, h, cluster)
			}
			last := name + "-last"
			request.prepare(t, h, last)
			h.Crashes.CrashAt(request.writes+1, false)
			if err := request.run(t.Context(), h, last); h.Crashes.Restart() || err != nil {
				t.Errorf("%s has more than %d writes (%v): crash at each of them", name, request.writes, err)
			}
		})
	}
}

func createPushed(ctx context.Context, h *aggregated.Hub, name string) error {
	c := pushed(v1alpha1.SecretsNamespace)
	c.Name, c.Labels = name, map[string]string{"of": "crashes"}
	c.Spec.APIEndpoint = "https://" + name + ".example.com:6443"
	c.Spec.Taints = []corev1.Taint{{Key: "example.com/new", Effect: corev1.TaintEffectNoSchedule}}
	return h.Create(ctx, c)
}

func checkPushed(t *testing.T, h *aggregated.Hub, name string) {
	t.Helper()
	h.MirrorCluster(t, name)
	cluster, mc := &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
	h.ReadObject(t, name, cluster)
	h.ReadObject(t, name, mc)
	same(t, name+": acceptance", mc.Spec.HubAcceptsClient, true)
	same(t, name+": labels", cluster.Labels, map[string]string{"of": "crashes"})
	same(t, name+": taints of the ManagedCluster", len(mc.Spec.Taints), 1)
	same(t, name+": mode", cluster.Spec.SyncMode, v1alpha1.Push)
	same(t, name+": generation", cluster.Generation, int64(1))
	same(t, name+": secretRef", cluster.Spec.SecretRef, pushed(v1alpha1.SecretsNamespace).Spec.SecretRef)
	for _, copied := range []string{fleetv1alpha1.DefaultSecretName, "cluster-impersonator"} {
		if err := h.Get(t.Context(), client.ObjectKey{Namespace: name, Name: copied}, &corev1.Secret{}); err != nil {
			t.Errorf("the copy of a Secret: %v", err)
		}
	}
}

func changeAll(ctx context.Context, h *aggregated.Hub, name string) error {
	patch := `{"metadata":{"labels":{"of":"crashes"}},"spec":{"provider":"acme","impersonatorSecretRef":{"namespace":"karmada-cluster","name":"pushed-impersonator"}}}`
	return h.Patch(ctx, aggregated.NewCluster(name, v1alpha1.Pull), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func checkChanged(t *testing.T, h *aggregated.Hub, name string) {
	t.Helper()
	h.MirrorCluster(t, name)
	cluster, mc := &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
	h.ReadObject(t, name, cluster)
	h.ReadObject(t, name, mc)
	same(t, name+": labels of the ManagedCluster", mc.Labels, map[string]string{"of": "crashes"})
	same(t, name+": provider", cluster.Spec.Provider, "acme")
	same(t, name+": impersonatorSecretRef", cluster.Spec.ImpersonatorSecretRef, pushed(v1alpha1.SecretsNamespace).Spec.ImpersonatorSecretRef)
	same(t, name+": generation", cluster.Generation, int64(2))
}

func deleteOne(ctx context.Context, h *aggregated.Hub, name string) error {
	return client.IgnoreNotFound(h.Delete(ctx, aggregated.NewCluster(name, v1alpha1.Pull)))
}

func checkDeleted(t *testing.T, h *aggregated.Hub, name string) {
	t.Helper()
	h.MirrorIfThere(t, name)
	if err := h.Get(t.Context(), client.ObjectKey{Name: name}, &v1alpha1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading %s, which was deleted: %v, want that it is not found", name, err)
	}
}
