// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/server/guard"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/ports"
)

func TestMetricsServerAsksARealAPIServer(t *testing.T) {
	_, config := servers.Start(t)
	httpClient, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	clients, err := kubernetes.NewForConfigAndClient(config, httpClient)
	expect.NoError(t, err)
	allowReader(t, config, clients)
	port := ports.FreePort(t)
	server, err := NewMetricsServer(port, nil, config)
	expect.NoError(t, err)
	go func() {
		if err := server.Start(t.Context()); err != nil {
			t.Errorf("serving metrics: %v", err)
		}
	}()

	cases := map[string]struct {
		token string
		want  int
	}{
		"a ServiceAccount that may get /metrics reads them": {tokenOf(t, clients, "reader"), http.StatusOK},
		"another ServiceAccount may not":                    {tokenOf(t, clients, "stranger"), http.StatusForbidden},
		"a forged token is refused":                         {"eyJhbGciOiJub25lIn0.e30.", http.StatusUnauthorized},
		"no token is refused":                               {"", http.StatusUnauthorized},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := get(t, port, tc.token); got != tc.want {
				t.Errorf("got status %d, want %d", got, tc.want)
			}
		})
	}
}

func allowReader(t *testing.T, config *rest.Config, clients kubernetes.Interface) {
	t.Helper()
	role := build.ClusterRole("metrics", rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	_, err := clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = clients.RbacV1().ClusterRoleBindings().Create(t.Context(),
		build.ClusterRoleBinding("metrics", "metrics", build.AccountSubject("default", "reader")), metav1.CreateOptions{})
	expect.NoError(t, err)
	env.WaitAllowed(t.Context(), t, config, env.ServiceAccountReview("default", "reader"), "", role.Rules[0], true)
}

// tokenOf makes a ServiceAccount in the namespace default and a token for it.
func tokenOf(t *testing.T, clients kubernetes.Interface, name string) string {
	t.Helper()
	accounts := clients.CoreV1().ServiceAccounts("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	expect.NoError(t, err)
	return token.Status.Token
}

// get reads /metrics, as soon as something listens, and returns the status.
func get(t *testing.T, port int, token string) int {
	t.Helper()
	reader := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	status := 0
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+strconv.Itoa(port)+"/metrics", nil)
		if err != nil {
			return false, err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := reader.Do(request)
		if err != nil {
			return false, nil // it does not listen yet
		}
		status = response.StatusCode
		return true, response.Body.Close()
	})
	if err != nil {
		t.Fatalf("reading the metrics: %v", err)
	}
	return status
}

func TestNobodyReadsWhileTheAPIServerCannotBeAsked(t *testing.T) {
	reviews, err := guard.NewAccessGuard(&rest.Config{Host: "http://127.0.0.1:1"}, http.DefaultClient)
	expect.NoError(t, err)
	handler := protectHandler(reviews, logr.Discard(), http.NotFoundHandler())
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Authorization", "Bearer good")
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	if response.Code != http.StatusServiceUnavailable || !strings.Contains(response.Body.String(), "try again") {
		t.Errorf("got %d %q, want %d", response.Code, response.Body, http.StatusServiceUnavailable)
	}
}
