// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/server/certs"
)

// frontProxy is the name in the certificate by which aggregated API servers know
// the API server.
const frontProxy = "front-proxy-client"

// WithAggregation lets the API server send requests to aggregated API servers.
func WithAggregation(t testing.TB) func(*envtest.Environment) {
	t.Helper()
	signer, err := certs.NewAuthority("front-proxy-ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := certs.NewLeaf(signer, certs.Leaf{User: frontProxy}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca.crt", signer.CertPEM)
	cert := write("tls.crt", proxy.CertPEM)
	key := write("tls.key", proxy.KeyPEM)
	return func(e *envtest.Environment) {
		e.ControlPlane.GetAPIServer().Configure().
			Append("requestheader-client-ca-file", ca).
			Append("requestheader-allowed-names", frontProxy).
			Append("requestheader-username-headers", "X-Remote-User").
			Append("requestheader-group-headers", "X-Remote-Group").
			Append("requestheader-extra-headers-prefix", "X-Remote-Extra-").
			Append("proxy-client-cert-file", cert).
			Append("proxy-client-key-file", key)
	}
}

// WithAggregatorRouting lets the API server reach Services by their EndpointSlices, as there is no
// network for those.
func WithAggregatorRouting(e *envtest.Environment) {
	e.ControlPlane.GetAPIServer().Configure().Append("enable-aggregator-routing", "true")
}
