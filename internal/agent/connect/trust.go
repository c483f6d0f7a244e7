// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/version"
)

const (
	// publishedPath is where a hub says, to anybody, which authorities verify it.
	publishedPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	// publishedKey has the kubeconfig in it.
	publishedKey = "kubeconfig"
	// publishedTimeout is how long the answer may take, and publishedBytes and
	// publishedMax bound how large it, and how many the authorities, may be.
	publishedTimeout = 10 * time.Second
	publishedBytes   = 256 << 10
	publishedMax     = 16
)

// ErrNotPublished says that a hub does not tell which authorities verify it.
var ErrNotPublished = errors.New("the hub publishes no authorities")

// PublishedCA asks the hub which authorities verify it, and returns those in place
// of the endpoint's CA; nil if they are the same ones. It takes only
//
//   - what came over a connection that the present CA verified: so nobody in
//     between can say it;
//   - what verifies that connection's server as well: so a hub whose API server is
//     behind something with a certificate of its own does not lock its agents out.
//
// The agent's credential is not sent, as anybody may ask.
func PublishedCA(ctx context.Context, endpoint HubEndpoint, now time.Time) ([]byte, error) {
	if len(endpoint.CA) == 0 || endpoint.Insecure {
		return nil, ErrNotPublished // whom to trust is not the hub's to say
	}
	server, err := url.Parse(endpoint.Server)
	if err != nil {
		return nil, fmt.Errorf("reading the address %q of the hub: %w", endpoint.Server, err)
	}
	name := endpoint.TLSServerName
	if name == "" {
		name = server.Hostname()
	}
	bundle, presented, err := readPublished(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	list, err := parseAuthorities(bundle)
	if err != nil {
		return nil, fmt.Errorf("the hub at %s publishes authorities that cannot be used: %w", endpoint.Server, err)
	}
	if err := verifyServer(presented, list, name, now); err != nil {
		return nil, fmt.Errorf("the hub at %s publishes authorities that do not verify its own certificate: %w", endpoint.Server, err)
	}
	if fresh := certs.EncodeBundle(list); !BundleIncludes(endpoint.CA, fresh) || !BundleIncludes(fresh, endpoint.CA) {
		return fresh, nil
	}
	return nil, nil
}

// BundleIncludes reports whether a bundle has all certificates of another one, which has
// some.
func BundleIncludes(bundle, other []byte) bool {
	have := certs.ParseBundle(bundle)
	all := certs.ParseBundle(other)
	return len(all) > 0 && !slices.ContainsFunc(all, func(c *x509.Certificate) bool { return !slices.ContainsFunc(have, c.Equal) })
}

// readPublished returns the bundle that the hub publishes, and the certificates that
// it has shown.
func readPublished(ctx context.Context, endpoint HubEndpoint) (bundle []byte, presented []*x509.Certificate, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishedTimeout)
	defer cancel()
	transport, err := newTransport(endpoint)
	if err != nil {
		return nil, nil, err
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint.Server+publishedPath, http.NoBody)
	if err != nil {
		return nil, nil, fmt.Errorf("asking the hub at %s for its authorities: %w", endpoint.Server, err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "capstan-agent/"+version.SemanticVersion())
	response, err := transport.RoundTrip(request) // which follows no redirect
	if err != nil {
		return nil, nil, fmt.Errorf("asking the hub at %s for its authorities: %w", endpoint.Server, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK || response.TLS == nil {
		return nil, nil, ErrNotPublished
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, publishedBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the authorities of the hub at %s: %w", endpoint.Server, err)
	}
	if len(body) > publishedBytes {
		return nil, nil, fmt.Errorf("the hub at %s publishes authorities that cannot be used: cluster-info has more than %d bytes", endpoint.Server, publishedBytes)
	}
	if bundle, err = bundleOf(body); err != nil {
		return nil, nil, fmt.Errorf("the hub at %s publishes authorities that cannot be used: %w", endpoint.Server, err)
	}
	return bundle, response.TLS.PeerCertificates, nil
}

// bundleOf returns the bundle in a ConfigMap cluster-info.
func bundleOf(body []byte) ([]byte, error) {
	info := &corev1.ConfigMap{}
	if err := json.Unmarshal(body, info); err != nil {
		return nil, fmt.Errorf("cluster-info is not a ConfigMap: %w", err)
	}
	if info.Data[publishedKey] == "" {
		return nil, ErrNotPublished
	}
	config, err := clientcmd.Load([]byte(info.Data[publishedKey]))
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in cluster-info cannot be read: %w", err)
	}
	if len(config.Clusters) != 1 {
		return nil, fmt.Errorf("the kubeconfig in cluster-info has %d clusters, and should have one", len(config.Clusters))
	}
	for _, cluster := range config.Clusters {
		if len(cluster.CertificateAuthorityData) > 0 {
			return cluster.CertificateAuthorityData, nil
		}
	}
	return nil, ErrNotPublished
}

// parseAuthorities reads a bundle, each certificate once. Unlike one of the user it has
// to be perfect: what is in use works.
func parseAuthorities(bundle []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		if err := certs.CheckPublicKey(cert.PublicKey); err != nil {
			return nil, fmt.Errorf("a certificate cannot be used: %w", err)
		}
		if !slices.ContainsFunc(list, cert.Equal) {
			list = append(list, cert)
		}
		bundle = rest
	}
	switch {
	case len(bytes.TrimSpace(bundle)) > 0:
		return nil, errors.New("they contain something other than certificates")
	case len(list) == 0:
		return nil, errors.New("there is no certificate among them")
	case len(list) > publishedMax:
		return nil, fmt.Errorf("they are %d, and may be %d", len(list), publishedMax)
	}
	return list, nil
}

// verifyServer verifies the certificates that a server of the name has shown.
func verifyServer(presented, authorities []*x509.Certificate, name string, now time.Time) error {
	if len(presented) == 0 {
		return errors.New("it has presented none")
	}
	options := x509.VerifyOptions{DNSName: name, CurrentTime: now, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	for _, cert := range authorities {
		options.Roots.AddCert(cert)
	}
	for _, cert := range presented[1:] {
		options.Intermediates.AddCert(cert)
	}
	_, err := presented[0].Verify(options)
	return err
}
