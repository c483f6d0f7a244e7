// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/server/certs"
)

const (
	// agentNameLength is that of the random part of an agent's user name.
	agentNameLength = 5
	// csrSuffixLength is the number of hexadecimal digits in the name of a
	// certificate signing request that come from its key.
	csrSuffixLength = 10
	// renewEarliest and renewLatest are the shares of a certificate's lifetime
	// between which it is renewed; each certificate has its own point between.
	renewEarliest = 0.75
	renewLatest   = 0.80
)

// identity is who the agent is on the hub.
type identity struct {
	Cluster string
	Agent   string
}

// certificateSubject is what a certificate of the identity says.
func (i identity) certificateSubject() pkix.Name {
	return pkix.Name{
		CommonName:   clusterv1.AgentUser(i.Cluster, i.Agent),
		Organization: []string{clusterv1.AgentGroup(i.Cluster), clusterv1.GroupManagedClusters},
	}
}

// identityOf returns the identity that a certificate is for.
func identityOf(certificate *x509.Certificate) (identity, error) {
	name, ok := strings.CutPrefix(certificate.Subject.CommonName, clusterv1.UserPrefix)
	cluster, agent, both := strings.Cut(name, ":")
	if !ok || !both || cluster == "" || agent == "" {
		return identity{}, fmt.Errorf("its certificate is for %q, want %s<cluster>:<agent>",
			certificate.Subject.CommonName, clusterv1.UserPrefix)
	}
	return identity{Cluster: cluster, Agent: agent}, nil
}

// validateClusterName refuses a name that cannot be that of a namespace.
func validateClusterName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("the cluster name %q is not a valid namespace name on the hub: %s. Change spec.clusterName of the Klusterlet",
			name, strings.Join(problems, "; "))
	}
	return nil
}

// hubCredential is a client certificate for the hub with what it is good for.
type hubCredential struct {
	identity
	Endpoint    connect.HubEndpoint
	Certificate tls.Certificate
	CertPEM     []byte
	KeyPEM      []byte
	NotBefore   time.Time
	NotAfter    time.Time
	// Bootstrap is the hash of the bootstrap kubeconfig that it was got with.
	Bootstrap string
	// ClusterUID is the UID of the ManagedCluster that it was issued for. Empty if
	// that is not known.
	ClusterUID types.UID
	// GivenCA is the hash of the CA of the bootstrap kubeconfig, if the endpoint has
	// one that the hub published since.
	GivenCA string
}

// leadsTo reports whether the credential is for the hub of the bootstrap kubeconfig,
// verified by what that says, or by what the hub has published in its place.
func (c *hubCredential) leadsTo(bootstrap connect.HubEndpoint) bool {
	if c.GivenCA == "" || !c.Endpoint.SameConnection(bootstrap) {
		return c.Endpoint.Equal(bootstrap)
	}
	return contentHash(bootstrap.CA) == c.GivenCA || connect.BundleIncludes(c.Endpoint.CA, bootstrap.CA)
}

// shouldFollow reports whether the hub is to be verified by what it publishes from now on.
// Of the authorities that the user gave, none is dropped because the hub publishes
// the others only: the user may prepare for what the hub does not know yet.
func (c *hubCredential) shouldFollow(published connect.HubEndpoint) bool {
	narrower := connect.BundleIncludes(c.Endpoint.CA, published.CA)
	return c.Endpoint.SameConnection(published) && !c.Endpoint.Equal(published) && (c.GivenCA != "" || !narrower)
}

// renewAt returns when to renew: a point that depends on the certificate only,
// so that it outlasts restarts, and that differs between agents.
func (c *hubCredential) renewAt() time.Time {
	sum := sha256.Sum256(c.CertPEM)
	fraction := float64(binary.BigEndian.Uint32(sum[:4])) / (1 << 32)
	share := renewEarliest + (renewLatest-renewEarliest)*fraction
	return c.NotBefore.Add(time.Duration(float64(c.NotAfter.Sub(c.NotBefore)) * share))
}

const (
	// issuedFree is how many certificates may be issued in a row before the agent
	// waits with the next application, from issuePauseMin to issuePauseMax.
	issuedFree    = 3
	issuePauseMin = 5 * time.Second
	issuePauseMax = 10 * time.Minute
	// issueQuiet is the time without a new certificate that ends the row.
	issueQuiet = time.Hour
	// issuePauseShare is the part of a certificate's lifetime that the wait never
	// exceeds, so that certificates of minutes are renewed in time.
	issuePauseShare = 4
)

// issuePause returns how long to wait after the nth certificate in a row.
func issuePause(n int, lifetime time.Duration) time.Duration {
	if n <= issuedFree {
		return 0
	}
	return min(backoff.DelayAfter(n-issuedFree, backoff.ExponentialBetween(issuePauseMin, issuePauseMax)), lifetime/issuePauseShare)
}

// newCredential checks that certificate and key belong together and to an
// agent.
func newCredential(endpoint connect.HubEndpoint, certPEM, keyPEM []byte) (*hubCredential, error) {
	pair, err := certs.KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("its certificate and key cannot be used: %w", err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("its certificate cannot be read: %w", err)
		}
	}
	id, err := identityOf(pair.Leaf)
	if err != nil {
		return nil, err
	}
	return &hubCredential{
		identity: id, Endpoint: endpoint, Certificate: pair, CertPEM: certPEM, KeyPEM: keyPEM,
		NotBefore: pair.Leaf.NotBefore, NotAfter: pair.Leaf.NotAfter,
	}, nil
}

// application is a certificate signing request that is to be made or waits for
// its answer, with the key that only the agent has.
type application struct {
	identity
	// Server is the hub that it is for.
	Server string
	KeyPEM []byte
	key    crypto.Signer
	// publicKey is the PKIX structure of the key's public half in DER.
	publicKey []byte
}

// newApplication makes a new key.
func newApplication(id identity, server string) (*application, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for the hub: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key for the hub: %w", err)
	}
	return applicationWith(id, server, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), key)
}

// parseApplication is the way back from storage.
func parseApplication(id identity, server string, keyPEM []byte) (*application, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("its key is not PEM")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its key cannot be read: %w", err)
	}
	return applicationWith(id, server, keyPEM, key)
}

func applicationWith(id identity, server string, keyPEM []byte, key crypto.Signer) (*application, error) {
	publicKey, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding the public key for the hub: %w", err)
	}
	return &application{identity: id, Server: server, KeyPEM: keyPEM, key: key, publicKey: publicKey}, nil
}

// Name of the certificate signing request. It follows from the key, so that an
// agent finds its request again without a list of requests.
func (a *application) requestName() string {
	sum := sha256.Sum256(a.publicKey)
	return a.Cluster + "-" + hex.EncodeToString(sum[:])[:csrSuffixLength]
}

// keyFingerprint is by what the administrator of the hub recognizes our request: others
// can make one in the same name, but not with the same key.
func (a *application) keyFingerprint() string { return policy.KeyFingerprint(a.publicKey) }

// buildCSR returns the object to create on the hub. Zero expirationSeconds
// leaves the lifetime to the signer.
func (a *application) buildCSR(expirationSeconds int32) (*certificatesv1.CertificateSigningRequest, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: a.certificateSubject(), SignatureAlgorithm: x509.ECDSAWithSHA256,
	}, a.key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request for %q: %w", a.Cluster, err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: a.requestName(), Labels: map[string]string{clusterv1.LabelClusterName: a.Cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if expirationSeconds > 0 {
		csr.Spec.ExpirationSeconds = &expirationSeconds
	}
	return csr, nil
}

// isOurs reports whether a request on the hub is for our key.
func (a *application) isOurs(csr *certificatesv1.CertificateSigningRequest) bool {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	theirs, err := x509.MarshalPKIXPublicKey(parsed.PublicKey)
	return err == nil && bytes.Equal(a.publicKey, theirs)
}

// CertificateExpiry is when a certificate expires. It is safe for concurrent use.
type CertificateExpiry struct{ seconds atomic.Int64 } // since 1970; 0 without one

// ExpiryTime returns when the certificate expires; zero if there is none.
func (e *CertificateExpiry) ExpiryTime() time.Time {
	if seconds := e.seconds.Load(); seconds != 0 {
		return time.Unix(seconds, 0)
	}
	return time.Time{}
}

func (e *CertificateExpiry) setExpiry(hub *hubCredential) {
	if hub == nil {
		e.seconds.Store(0)
		return
	}
	e.seconds.Store(hub.NotAfter.Unix())
}
