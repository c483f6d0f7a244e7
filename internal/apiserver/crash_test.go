// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

var errCrashed = errors.New("crashed")

// crashes says when nothing passes any more between the server and the hub, as if
// the server was killed.
type crashes struct {
	mu sync.Mutex
	// left are the writes until the crash; 0 is that there is none to come.
	left int
	// after reports whether the hub gets that last write; its answer is lost.
	after, crashed bool
	// seen are all requests.
	seen int
}

// at makes the server crash on the n-th write from now on.
func (c *crashes) at(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.after, c.crashed = n, after, false
}

// restart ends the crash, and reports whether there was one.
func (c *crashes) restart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	crashed := c.crashed
	c.left, c.crashed = 0, false
	return crashed
}

// requests returns how many there were.
func (c *crashes) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// pass reports whether a request reaches the hub, and whether its answer returns.
func (c *crashes) pass(write bool) (reaches, returns bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	switch {
	case c.crashed:
		return false, false
	case !write || c.left == 0:
		return true, true
	}
	c.left--
	c.crashed = c.left == 0
	return !c.crashed || c.after, !c.crashed
}

// link is between the server and the hub.
type link struct {
	*crashes
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	write := r.Method != http.MethodGet && !r.URL.Query().Has("dryRun") && !strings.HasSuffix(r.URL.Path, "reviews")
	reaches, returns := l.pass(write)
	if !reaches {
		return nil, errCrashed
	}
	response, err := l.next.RoundTrip(r)
	if err != nil || returns {
		return response, err
	}
	_ = response.Body.Close()
	return nil, errCrashed
}

// testCrashes kills the server before and after each of the writes of a request.
// Repeating the request finishes it; the registration controller, which runs
// between the two or does not, finds nothing half made.
func testCrashes(t *testing.T, h *hub) {
	for name, request := range map[string]struct {
		prepare func(t *testing.T, h *hub, name string)
		run     func(ctx context.Context, h *hub, name string) error
		check   func(t *testing.T, h *hub, name string)
		writes  int
	}{
		"create": {func(*testing.T, *hub, string) {}, createPushed, checkPushed, 6},
		"update": {func(t *testing.T, h *hub, name string) { t.Helper(); h.joined(t, name) }, changeAll, checkChanged, 3},
		"delete": {func(t *testing.T, h *hub, name string) { t.Helper(); h.joined(t, name) }, deleteOne, checkDeleted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range request.writes * 4 {
				n, after, mirrored := i/4+1, i%2 == 1, i%4 > 1
				cluster := fmt.Sprintf("%s-%d", name, i)
				request.prepare(t, h, cluster)
				h.crashes.at(n, after)
				err := request.run(t.Context(), h, cluster)
				if !h.crashes.restart() || err == nil {
					t.Fatalf("write %d of %s (%v): want that there is one, and that it fails", n, cluster, err)
				}
				if mirrored {
					h.mirrorIfThere(t, cluster)
				}
				if err := request.run(t.Context(), h, cluster); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatalf("%s again after a crash at write %d (after it: %t): %v", cluster, n, after, err)
				}
				request.check(t, h, cluster)
			}
			last := name + "-last"
			request.prepare(t, h, last)
			h.crashes.at(request.writes+1, false)
			if err := request.run(t.Context(), h, last); h.crashes.restart() || err != nil {
				t.Errorf("%s has more than %d writes (%v): crash at each of them", name, request.writes, err)
			}
		})
	}
}

// mirrorIfThere does what the registration controller does for a ManagedCluster,
// which makes its ClusterConnection, too.
func (h *hub) mirrorIfThere(t *testing.T, name string) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		return
	}
	err := h.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	h.mirror(t, name)
}

func createPushed(ctx context.Context, h *hub, name string) error {
	c := pushed()
	c.Name, c.Labels = name, map[string]string{"of": "crashes"}
	c.Spec.APIEndpoint = "https://" + name + ".example.com:6443"
	c.Spec.Taints = []corev1.Taint{{Key: "example.com/new", Effect: corev1.TaintEffectNoSchedule}}
	return h.Create(ctx, c)
}

func checkPushed(t *testing.T, h *hub, name string) {
	t.Helper()
	h.mirror(t, name)
	cluster, mc := &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
	h.get(t, name, cluster)
	h.get(t, name, mc)
	same(t, name+": acceptance", mc.Spec.HubAcceptsClient, true)
	same(t, name+": labels", cluster.Labels, map[string]string{"of": "crashes"})
	same(t, name+": taints of the ManagedCluster", len(mc.Spec.Taints), 1)
	same(t, name+": mode", cluster.Spec.SyncMode, v1alpha1.Push)
	same(t, name+": generation", cluster.Generation, int64(1))
	same(t, name+": secretRef", cluster.Spec.SecretRef, pushed().Spec.SecretRef)
	for _, copied := range []string{fleetv1alpha1.DefaultSecretName, "cluster-impersonator"} {
		if err := h.Get(t.Context(), client.ObjectKey{Namespace: name, Name: copied}, &corev1.Secret{}); err != nil {
			t.Errorf("the copy of a Secret: %v", err)
		}
	}
}

func changeAll(ctx context.Context, h *hub, name string) error {
	patch := `{"metadata":{"labels":{"of":"crashes"}},"spec":{"provider":"acme","impersonatorSecretRef":{"namespace":"karmada-cluster","name":"pushed-impersonator"}}}`
	return h.Patch(ctx, clusterOf(name, v1alpha1.Pull), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func checkChanged(t *testing.T, h *hub, name string) {
	t.Helper()
	h.mirror(t, name)
	cluster, mc := &v1alpha1.Cluster{}, &clusterv1.ManagedCluster{}
	h.get(t, name, cluster)
	h.get(t, name, mc)
	same(t, name+": labels of the ManagedCluster", mc.Labels, map[string]string{"of": "crashes"})
	same(t, name+": provider", cluster.Spec.Provider, "acme")
	same(t, name+": impersonatorSecretRef", cluster.Spec.ImpersonatorSecretRef, pushed().Spec.ImpersonatorSecretRef)
	same(t, name+": generation", cluster.Generation, int64(2))
}

func deleteOne(ctx context.Context, h *hub, name string) error {
	return client.IgnoreNotFound(h.Delete(ctx, clusterOf(name, v1alpha1.Pull)))
}

func checkDeleted(t *testing.T, h *hub, name string) {
	t.Helper()
	h.mirrorIfThere(t, name)
	if err := h.Get(t.Context(), client.ObjectKey{Name: name}, &v1alpha1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading %s, which was deleted: %v, want that it is not found", name, err)
	}
}
