// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// contrary serves a webhook that says that nothing is healthy, with a certificate of the
// authority for a host, and returns its port.
func contrary(t *testing.T, authority *certs.CertificatePair, host string) int32 {
	t.Helper()
	pair, err := certs.NewServing(authority, []string{host}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := configv1alpha1.ResourceInterpreterContext{}
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Errorf("the question cannot be read: %v", err)
		}
		answer := configv1alpha1.ResourceInterpreterContext{Response: &configv1alpha1.ResourceInterpreterResponse{
			UID: question.Request.UID, Successful: true, Healthy: new(false),
		}}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("the answer cannot be written: %v", err)
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(number)
}

// TestTheServiceOfTheHubIsAsked has a webhook as a Service of the hub at an address that
// only the Service knows.
func TestTheServiceOfTheHubIsAsked(t *testing.T) {
	authority, err := certs.NewAuthority("interpreters", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, configv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	port := contrary(t, authority, "interpreter.shop.svc")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "interpreter"}, Spec: corev1.ServiceSpec{ClusterIP: "127.0.0.1"}}
	configuration := &configv1alpha1.ResourceInterpreterWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
		Name: "all.example.com", InterpreterContextVersions: []string{"v1alpha1"},
		ClientConfig: configv1alpha1.WebhookClientConfig{
			Service: &configv1alpha1.ServiceReference{Namespace: "shop", Name: "interpreter", Port: &port}, CABundle: authority.CertPEM,
		},
		Rules: []configv1alpha1.RuleWithOperations{{
			Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationInterpretHealth},
			Rule:       configv1alpha1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Kinds: []string{"ConfigMap"}},
		}},
	}}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(service, configuration).Build()
	ask := func(guard dial.AddressGuard) (string, error) {
		known := NewKnownInterpreters(hub, hub, clock.RealClock{}, guard)
		if err := known.EnsureLoaded(t.Context()); err != nil {
			t.Fatal(err)
		}
		return known.Chain().InterpretHealth(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}})
	}
	verdict, err := ask(dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil || verdict != interpret.Unhealthy {
		t.Errorf("got %q, %v, want what the webhook says", verdict, err)
	}
	// Nobody makes the hub call itself, unless its administrator allows that.
	if verdict, err := ask(dial.AddressGuard{}); err == nil || !strings.Contains(err.Error(), "it is a loopback address") {
		t.Errorf("got %q, %v, want that loopback is not called", verdict, err)
	}
}
