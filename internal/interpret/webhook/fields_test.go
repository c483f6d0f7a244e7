// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

// interpreter is a webhook that writes down where it is asked, and for what. It
// says that nothing is healthy, and declines to say how many replicas there are.
type interpreter struct {
	*testing.T
	// slow is how long it takes to answer.
	slow time.Duration

	mu    sync.Mutex
	asked []string
}

func (i *interpreter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	question := configv1alpha1.ResourceInterpreterContext{}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		i.Errorf("the question cannot be read: %v", err)
	}
	of := question.Request
	i.mu.Lock()
	i.asked = append(i.asked, fmt.Sprintf("%s%s: %s of %s.%s/%s", r.Host, r.URL.Path, of.Operation, of.Kind.Kind, of.Kind.Version, of.Kind.Group))
	i.mu.Unlock()
	select {
	case <-time.After(i.slow):
	case <-r.Context().Done():
	}
	answer := &configv1alpha1.ResourceInterpreterResponse{UID: of.UID}
	if of.Operation == configv1alpha1.InterpreterOperationInterpretHealth {
		answer.Successful, answer.Healthy = true, new(bool)
	}
	_ = json.NewEncoder(w).Encode(configv1alpha1.ResourceInterpreterContext{Response: answer}) // who asks may be gone
}

// served is the interpreter as a server, with a certificate for its address and for
// Service interpreter of namespace shop.
type served struct {
	*interpreter
	address string
	// bundle verifies its certificate.
	bundle []byte
}

func serve(t *testing.T, slow time.Duration) *served {
	t.Helper()
	authority, err := certs.NewAuthority("interpreters", time.Now())
	expect.NoError(t, err)
	pair, err := certs.NewServing(authority, []string{"127.0.0.1", "interpreter.shop.svc"}, time.Now())
	expect.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	expect.NoError(t, err)
	s := &served{interpreter: &interpreter{T: t, slow: slow}, bundle: authority.CertPEM}
	server := httptest.NewUnstartedServer(s)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.address = server.Listener.Addr().String()
	return s
}

// said returns what a webhook says of the health and the replicas of a Workload, and
// where it was asked for what, of this kind and of others. A question may come to a slow
// one after nobody waits for the answer any more, so these do not count.
func (s *served) said(configured configv1alpha1.ResourceInterpreterWebhook) []string {
	s.Helper()
	caller := callout.NewCaller(callout.CallerOptions{Clock: clock.RealClock{}, Resolve: func(context.Context, callout.ServiceRef) (string, error) {
		return s.address, nil
	}})
	ctx, end := context.WithCancel(s.Context())
	s.Cleanup(end)
	go func() { _ = caller.Start(ctx) }()
	chain := interpret.Chain{NewWebhooks([]configv1alpha1.ResourceInterpreterWebhookConfiguration{configurationOf("all", configured)}, caller)}

	s.mu.Lock()
	s.asked = nil
	s.mu.Unlock()
	var said []string
	if verdict, err := chain.InterpretHealth(object(1)); err != nil {
		said = append(said, err.Error())
	} else if verdict != "" {
		said = append(said, verdict)
	}
	if _, _, _, err := chain.GetReplicas(object(1)); err != nil {
		said = append(said, err.Error())
	}
	for _, other := range []struct{ apiVersion, kind string }{{"example.com/v2", "Workload"}, {"example.org/v1", "Workload"}, {"example.com/v1", "Task"}} {
		about := &unstructured.Unstructured{Object: map[string]any{"apiVersion": other.apiVersion, "kind": other.kind}}
		_, _ = chain.InterpretHealth(about) // it matters only whether the webhook is asked
	}
	if s.slow > 0 {
		return said
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(said, s.asked)
}

type fieldCase struct {
	field string
	// webhook has URL and CA in the places of those of the server.
	webhook string
	// slow is how long the server takes.
	slow time.Duration
	// want is what is said; ADDRESS stands for that of the server.
	want []string
}

// Each field of a webhook does something: without it, the webhook is not asked, asked
// elsewhere or for something else, or its answer is another.
func TestFields(t *testing.T) {
	const (
		rule    = `rules: [{operations: [InterpretHealth], apiGroups: [example.com], apiVersions: [v1], kinds: [Workload]}]`
		byURL   = `{clientConfig: {url: URL/workloads, caBundle: CA}, ` + rule + `}`
		service = `{clientConfig: {caBundle: CA, service: {namespace: shop, name: interpreter, port: 8443, path: /workloads}}, ` + rule + `}`

		health   = "InterpretHealth of Workload.v1/example.com"
		problem  = `webhook "workloads.example.com" of ResourceInterpreterWebhookConfiguration "all", `
		declines = `InterpretReplica of Workload "shop/web": it says that it was not successful, and not why`
		late     = `InterpretHealth of Workload "shop/web": it has not answered within 1s`
	)
	unhealthy := func(where string) []string { return []string{"Unhealthy", where + ": " + health} }
	cases := map[string]fieldCase{
		"url":    {field: "clientConfig.url", webhook: byURL, want: unhealthy("ADDRESS/workloads")},
		"bundle": {field: "clientConfig.caBundle", webhook: byURL, want: unhealthy("ADDRESS/workloads")},

		"namespace": {field: "clientConfig.service.namespace", webhook: service, want: unhealthy("interpreter.shop.svc:8443/workloads")},
		"service":   {field: "clientConfig.service.name", webhook: service, want: unhealthy("interpreter.shop.svc:8443/workloads")},
		"port":      {field: "clientConfig.service.port", webhook: service, want: unhealthy("interpreter.shop.svc:8443/workloads")},
		"path":      {field: "clientConfig.service.path", webhook: service, want: unhealthy("interpreter.shop.svc:8443/workloads")},

		"operations": {field: "rules[0].operations", webhook: byURL, want: unhealthy("ADDRESS/workloads")},
		"groups":     {field: "rules[0].apiGroups", webhook: byURL, want: unhealthy("ADDRESS/workloads")},
		"versions":   {field: "rules[0].apiVersions", webhook: byURL, want: unhealthy("ADDRESS/workloads")},
		"kinds":      {field: "rules[0].kinds", webhook: byURL, want: unhealthy("ADDRESS/workloads")},
		"everything": {
			field: "rules[0]", webhook: `{name: workloads.example.com, clientConfig: {url: URL, caBundle: CA}, rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], kinds: ["*"]}]}`,
			want: []string{
				"Unhealthy", problem + declines, "ADDRESS/: " + health, "ADDRESS/: InterpretReplica of Workload.v1/example.com",
				"ADDRESS/: InterpretHealth of Workload.v2/example.com", "ADDRESS/: InterpretHealth of Workload.v1/example.org", "ADDRESS/: InterpretHealth of Task.v1/example.com",
			},
		},
		"name": {
			field: "name", webhook: `{name: workloads.example.com, clientConfig: {url: URL, caBundle: CA}, rules: [{operations: [InterpretReplica], apiGroups: [example.com], apiVersions: [v1], kinds: [Workload]}]}`,
			want: []string{"Healthy", problem + declines, "ADDRESS/: InterpretReplica of Workload.v1/example.com"},
		},
		"time": {
			field: "timeoutSeconds", slow: 2 * time.Second, webhook: `{name: workloads.example.com, timeoutSeconds: 1, clientConfig: {url: URL, caBundle: CA}, ` + rule + `}`,
			want: []string{problem + late},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := serve(t, tc.slow)
			text := strings.NewReplacer("URL", "https://"+server.address, "CA", base64.StdEncoding.EncodeToString(server.bundle)).Replace(tc.webhook)
			want := slices.Clone(tc.want)
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "ADDRESS", server.address)
			}
			if diff := cmp.Diff(want, server.said(specs.ParseSpec[configv1alpha1.ResourceInterpreterWebhook](t, text))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if cmp.Equal(want, server.said(specs.ParseWithout[configv1alpha1.ResourceInterpreterWebhook](t, text, tc.field))) {
				t.Errorf("without %s all is the same: %v", tc.field, want)
			}
		})
	}
}
