// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/ports"
)

const patience = time.Minute

// slowServer passes requests on to an API server. Those for ConfigMaps wait until
// release is closed.
func slowServer(t *testing.T, config *rest.Config) (server *httptest.Server, release func()) {
	t.Helper()
	target, err := url.Parse(config.Host)
	expect.NoError(t, err)
	transport, err := rest.TransportFor(config)
	expect.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
	}
	released := make(chan struct{})
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/configmaps") {
			select {
			case <-released:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(func() {
		release()
		server.CloseClientConnections()
		server.Close()
	})
	return server, release
}

// startWatching starts a manager with one controller, of ConfigMaps, behind the
// server, and returns where it is probed.
func startWatching(t *testing.T, config *rest.Config) string {
	t.Helper()
	port := ports.FreePort(t)
	mgr, err := NewManager(ManagerOptions{
		Component: "test", Config: config, Scheme: scheme.Scheme, Watched: []client.Object{&corev1.ConfigMap{}},
		Server: options.ServerOptions{HealthProbePort: port},
	})
	expect.NoError(t, err)
	err = ctrl.NewControllerManagedBy(mgr).Named(t.Name()).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
	expect.NoError(t, err)
	cluster.RunManager(t, mgr)
	select {
	case <-mgr.Elected():
	case <-time.After(patience):
		t.Fatal("the manager does not start")
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// TestReadinessHasLocalCausesOnly: a pod is ready once its cache has synced, and
// stays so when the API server is away.
func TestReadinessHasLocalCausesOnly(t *testing.T) {
	_, config := servers.Start(t)
	server, release := slowServer(t, config)
	process := startWatching(t, &rest.Config{Host: server.URL, QPS: -1})

	if status, body := probe(t.Context(), t, process+"/readyz"); status != http.StatusInternalServerError {
		t.Errorf("before the cache has synced: got status %d (%s), want 500", status, body)
	}
	if status, body := probe(t.Context(), t, process+"/healthz"); status != http.StatusOK {
		t.Errorf("a cache that has not synced is no reason to restart: got status %d (%s), want 200", status, body)
	}
	release()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		status, _ := probe(ctx, t, process+"/readyz")
		return status == http.StatusOK, nil
	})
	if err != nil {
		t.Fatal("the cache has synced, but the process does not become ready")
	}
	server.CloseClientConnections()
	server.Listener.Close() //nolint:errcheck // nobody is connected
	if status, body := probe(t.Context(), t, process+"/readyz"); status != http.StatusOK {
		t.Errorf("without the API server: got status %d (%s), want 200", status, body)
	}
}

// A replica that waits for its turn watches nothing: were it not ready, the
// rollout that is to replace the leader would wait for ever.
func TestAReplicaThatDoesNotLeadIsReady(t *testing.T) {
	_, config := servers.Start(t)
	server, _ := slowServer(t, config)
	config = &rest.Config{Host: server.URL, QPS: -1}
	ports := []int{ports.FreePort(t), ports.FreePort(t)}
	for i, port := range ports {
		mgr, err := NewManager(ManagerOptions{
			Component: "test", Config: config, Scheme: scheme.Scheme, Watched: []client.Object{&corev1.ConfigMap{}},
			Server: options.ServerOptions{HealthProbePort: port}, Election: options.DefaultLeaderElection(), Namespace: "default", Lease: "lock",
		})
		expect.NoError(t, err)
		cluster.RunManager(t, mgr)
		if i == 0 {
			waitElected(t, mgr)
		}
	}
	for port, want := range map[int]int{ports[0]: http.StatusInternalServerError, ports[1]: http.StatusOK} {
		if status, body := probe(t.Context(), t, fmt.Sprintf("http://127.0.0.1:%d/readyz", port)); status != want {
			t.Errorf("replica %d: got status %d (%s), want %d", port, status, body, want)
		}
	}
}

// probe returns the answer, as soon as somebody listens.
func probe(ctx context.Context, t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // nobody listens yet
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		status, body = response.StatusCode, string(content)
		return true, err
	})
	if err != nil {
		t.Fatalf("%s: nobody answered: %v", url, err)
	}
	return status, body
}
