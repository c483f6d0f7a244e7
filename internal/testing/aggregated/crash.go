// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

var errCrashed = errors.New("crashed")

// Crashes says when nothing passes any more between the server and the hub, as if
// the server was killed.
type Crashes struct {
	mu sync.Mutex
	// left are the writes until the crash; 0 is that there is none to come.
	left int
	// after reports whether the hub gets that last write; its answer is lost.
	after, crashed bool
	// seen are all requests.
	seen int
}

// CrashAt makes the server crash on the n-th write from now on.
func (c *Crashes) CrashAt(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.after, c.crashed = n, after, false
}

// Restart ends the crash, and reports whether there was one.
func (c *Crashes) Restart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	crashed := c.crashed
	c.left, c.crashed = 0, false
	return crashed
}

// CountRequests returns how many there were.
func (c *Crashes) CountRequests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// pass reports whether a request reaches the hub, and whether its answer returns.
func (c *Crashes) pass(write bool) (reaches, returns bool) {
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
	*Crashes
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

// MirrorIfThere does what the registration controller does for a ManagedCluster,
// which makes its ClusterConnection, too.
func (h *Hub) MirrorIfThere(t testing.TB, name string) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		return
	}
	err := h.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	h.MirrorCluster(t, name)
}
