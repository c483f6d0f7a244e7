// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a hub whose webhooks are served by certificates that a rotator renews, and
// clients that write all the time.
package harness

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/ports"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/serving"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const (
	certNamespace = "certificates"
	// host is where the API server calls the webhooks.
	host = "localhost"
	// generationsMax is how often the configurations can be installed.
	generationsMax = 8
)

// hub is an API server, the certificates of a hub, and its server of webhooks.
type hub struct {
	config  *rest.Config
	client  client.Client
	clock   *clocktesting.FakeClock
	rotator *certs.Rotator
	wanted  []certs.Leaf
	bundle  []byte

	dir    string
	mounts int
	port   int

	// Generation counts the installations of the webhook configurations: each
	// has another path, which tells when the API server works by it.
	Generation         int64
	mutated, validated atomic.Int64
}

// NewHub starts a hub at a time, without webhooks.
func NewHub(t testing.TB, servers *env.Servers, begin time.Time) *hub {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: certNamespace}}); err != nil {
		t.Fatal(err)
	}
	h := &hub{config: config, client: c, clock: clocktesting.NewFakeClock(begin), dir: t.TempDir(), port: ports.FreePort(t)}
	h.rotator = &certs.Rotator{
		Client: c, Reader: c, Clock: h.clock, Owner: "test", Namespace: certNamespace,
		SignerSecret: operatorv1.SignerSecret, BundleConfigMap: operatorv1.CABundleConfigMap,
	}
	return h
}

// AdvanceClock lets time pass for the rotator.
func (h *hub) AdvanceClock(d time.Duration) { h.clock.Step(d) }

// WantCertificate makes the hub want the certificate of its server.
func (h *hub) WantCertificate() {
	h.wanted = []certs.Leaf{{Secret: operatorv1.RegistrationWebhookServingCertSecret, Hosts: []string{host}}}
}

// RotateNow does what the operator does in each pass.
func (h *hub) RotateNow(t testing.TB) {
	t.Helper()
	var err error
	if h.bundle, _, err = h.rotator.RotateCertificates(t.Context(), h.wanted, h.TrustedAuthorities(t)); err != nil {
		t.Fatal(err)
	}
}

// TrustedAuthorities returns the bundles that the API server has been given.
func (h *hub) TrustedAuthorities(t testing.TB) [][]byte {
	t.Helper()
	var bundles [][]byte
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := h.client.List(t.Context(), validating); err != nil {
		t.Fatal(err)
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			bundles = append(bundles, validating.Items[i].Webhooks[j].ClientConfig.CABundle)
		}
	}
	return bundles
}

// ReadSecret returns a Secret of the hub.
func (h *hub) ReadSecret(t testing.TB, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Namespace: certNamespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// SignerCertificate returns the certificate of the signer.
func (h *hub) SignerCertificate(t testing.TB) []byte {
	t.Helper()
	return h.ReadSecret(t, operatorv1.SignerSecret).Data[corev1.TLSCertKey]
}

// ServingCertificate returns the certificate that the server is to have.
func (h *hub) ServingCertificate(t testing.TB) []byte {
	t.Helper()
	return h.ReadSecret(t, operatorv1.RegistrationWebhookServingCertSecret).Data[corev1.TLSCertKey]
}

// MountCertificate puts the secret into the files of the server.
func (h *hub) MountCertificate(t testing.TB) {
	t.Helper()
	h.WriteFiles(t, h.ReadSecret(t, operatorv1.RegistrationWebhookServingCertSecret).Data)
}

// WriteFiles changes all files at once, as kubelets do.
func (h *hub) WriteFiles(t testing.TB, files map[string][]byte) {
	t.Helper()
	h.mounts++
	version := fmt.Sprintf("..%d", h.mounts)
	if err := os.Mkdir(filepath.Join(h.dir, version), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(h.dir, version, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(h.dir, "..next")
	if err := os.Symlink(version, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(h.dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if h.mounts > 1 {
		return
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// ServeWebhooks runs the server of webhooks until the test ends.
func (h *hub) ServeWebhooks(t testing.TB) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(h.config)
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := metadata.NewForConfig(h.config)
	if err != nil {
		t.Fatal(err)
	}
	made, err := cluster.WebhookHandlers(t.Context(), cluster.WebhookOptions{Clients: clients, Metadata: clusters, Clock: clock.RealClock{}, DefaultSet: true})
	if err != nil {
		t.Fatal(err)
	}
	handlers := map[string]http.Handler{}
	for generation := range int64(generationsMax) {
		for path, seen := range map[string]*atomic.Int64{cluster.MutateClusterPath: &h.mutated, cluster.ValidateClusterPath: &h.validated} {
			handlers[prefix(generation)+path] = once(made[path], func() { seen.Store(max(seen.Load(), generation)) })
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	stopping := clocktesting.NewFakeClock(time.Now())
	server := options.ServerOptions{HealthProbePort: ports.FreePort(t), TLSMinVersion: "VersionTLS12"}
	go func() {
		ended <- serving.RunWebhookServer(ctx, serving.ServerOptions{
			Component: "test", Handlers: handlers, Config: h.config, Port: h.port, CertDir: h.dir, Server: server, Clock: stopping,
		})
	}()
	t.Cleanup(func() {
		stop()
		for {
			stopping.Step(serving.ShutdownDelay)
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("serving webhooks: %v", err)
				}
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	certificate := h.ServingCertificate(t)
	if !poll(t, func() bool { return h.Presents(t, certificate) }) {
		t.Fatal("the server does not serve")
	}
}

// once makes every request come by a new connection, whose certificate the API
// server verifies.
func once(handler http.Handler, seen func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen()
		w.Header().Set("Connection", "close")
		handler.ServeHTTP(w, r)
	})
}

func prefix(generation int64) string { return fmt.Sprintf("/%d", generation) }

// CountReached returns the generation of configurations that the API server works by.
func (h *hub) CountReached() int64 { return min(h.mutated.Load(), h.validated.Load()) }

// Presents reports whether the server has the certificate.
func (h *hub) Presents(t testing.TB, certPEM []byte) bool {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(h.port)))
	if err != nil {
		return false
	}
	defer func() { _ = connection.Close() }()
	peers := connection.(*tls.Conn).ConnectionState().PeerCertificates
	return len(peers) > 0 && peers[0].Equal(certs.ParseBundle(certPEM)[0])
}

// InstallWebhooks installs the operator's configurations for clusters, with
// an address that this API server can reach, and the bundle of the last rotate.
func (h *hub) InstallWebhooks(t testing.TB) {
	t.Helper()
	h.Generation++
	for _, object := range manifests.WebhookConfigurations(manifests.Hub{Name: "cluster-manager", CABundle: h.bundle}) {
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
		var wanted client.Object = mutating
		target := any(mutating)
		if *object.(interface{ GetKind() *string }).GetKind() == "ValidatingWebhookConfiguration" {
			wanted, target = validating, validating
		}
		if err := json.Unmarshal(encoded, target); err != nil {
			t.Fatal(err)
		}
		var to *admissionv1.WebhookClientConfig
		if len(mutating.Webhooks) > 0 {
			to = &mutating.Webhooks[0].ClientConfig
		} else {
			to = &validating.Webhooks[0].ClientConfig
		}
		path := *to.Service.Path
		if path != cluster.MutateClusterPath && path != cluster.ValidateClusterPath {
			continue
		}
		to.Service, to.URL = nil, ptr.To(fmt.Sprintf("https://%s:%d%s%s", host, h.port, prefix(h.Generation), path))
		h.PutObject(t, wanted)
	}
}

// PutObject creates or replaces the object.
func (h *hub) PutObject(t testing.TB, object client.Object) {
	t.Helper()
	stored := deepcopy.CopyObject(object)
	err := h.client.Get(t.Context(), client.ObjectKeyFromObject(object), stored)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		err = h.client.Create(t.Context(), object)
	} else {
		object.SetResourceVersion(stored.GetResourceVersion())
		err = h.client.Update(t.Context(), object)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// PresentStranger gives the server a certificate of a signer that nobody trusts.
func (h *hub) PresentStranger(t testing.TB) {
	t.Helper()
	signer, err := certs.NewAuthority("stranger", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := certs.NewServing(signer, []string{host}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.WriteFiles(t, map[string][]byte{corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM})
}

// SignedBy reports whether the certificate is the signer's.
func SignedBy(t testing.TB, certPEM, signerPEM []byte) bool {
	t.Helper()
	return certs.ParseBundle(certPEM)[0].CheckSignatureFrom(certs.ParseBundle(signerPEM)[0]) == nil
}

func poll(t testing.TB, condition func() bool) bool {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return condition(), nil })
	return err == nil
}
