// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package joining plays the hub that agents join: it is an API server without controllers, and
// the test does what administrators, the signer and the controllers of the hub do.
package joining

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// Hub is an API server that is hub and member in one, without any controller:
// the test does what administrators, the signer and the hub's controllers do.
type Hub struct {
	T      testing.TB
	Client client.WithWatch // of an administrator
	Config *rest.Config
	server *envtest.Environment
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	users  *sync.Mutex // of the server's CA, which counts its certificates without a lock
}

// AgentHome is the namespace and the permissions of one agent.
type AgentHome struct {
	Namespace string
	Config    *rest.Config
}

// StartHub starts a hub, which nobody has joined, with the definitions in a folder.
func StartHub(t testing.TB, servers *env.Servers, definitions string) *Hub {
	t.Helper()
	server, cfg := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{definitions}
	})
	admin := cluster.NewClient(t, cfg, clusterv1.AddToScheme, clusterv1alpha1.AddToScheme, aboutv1alpha1.AddToScheme, workv1.AddToScheme,
		fleetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme)
	h := &Hub{T: t, Client: admin, Config: cfg, server: server, users: &sync.Mutex{}}
	h.makeSigner()
	expect.NoError(t, h.Client.Create(t.Context(), bootstrapRole("bootstrap", "create", "get", "list", "watch")))
	expect.NoError(t, h.Client.Create(t.Context(), bootstrapRole("bootstrap-strict", "create", "get")))
	return h
}

// WithTest returns the hub as a test uses it.
func (h *Hub) WithTest(t testing.TB) *Hub {
	mine := *h
	mine.T = t
	return &mine
}

// makeSigner makes a CA and lets the API server trust it for clients.
func (h *Hub) makeSigner() {
	h.T.Helper()
	var err error
	h.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(h.T, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "signer of the test"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, h.caKey.Public(), h.caKey)
	expect.NoError(h.T, err)
	h.ca, err = x509.ParseCertificate(der)
	expect.NoError(h.T, err)
	file := filepath.Join(h.server.ControlPlane.APIServer.CertDir, "client-cert-auth-ca.crt")
	known, err := os.ReadFile(file) //nolint:gosec // it is of the API server of the test
	expect.NoError(h.T, err)
	expect.NoError(h.T, os.WriteFile(file, append(known, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...), 0o600)) //nolint:gosec // it is of the API server of the test
	// A credential of the new CA works once the API server has read the file.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(h.T, err)
	certPEM := h.IssueCertificate(pkix.Name{CommonName: "nobody"}, key.Public(), -time.Hour, time.Hour)
	keyDER, err := x509.MarshalECPrivateKey(key)
	expect.NoError(h.T, err)
	cfg := rest.AnonymousClientConfig(h.Config)
	cfg.CertData, cfg.KeyData = certPEM, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	c, err := client.New(cfg, client.Options{Scheme: h.Client.Scheme(), Mapper: h.Client.RESTMapper()})
	expect.NoError(h.T, err)
	h.AwaitState("the API server to trust the signer", func() (string, bool) {
		err := c.Get(h.T.Context(), client.ObjectKey{Name: "x"}, &clusterv1.ManagedCluster{})
		return fmt.Sprint(err), apierrors.IsForbidden(err)
	})
}

// IssueCertificate signs a certificate that is valid from and until these times from now.
func (h *Hub) IssueCertificate(subject pkix.Name, public any, from, until time.Duration) []byte {
	h.T.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	expect.NoError(h.T, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, h.ca, public, h.caKey)
	expect.NoError(h.T, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func bootstrapRole(name string, verbs ...string) *rbacv1.ClusterRole {
	return build.ClusterRole(name,
		build.AccessRule(certificatesv1.GroupName, "certificatesigningrequests", verbs...),
		build.AccessRule(clusterv1.GroupName, "managedclusters", verbs...))
}

// AddUser returns a user of the hub with a certificate. Parallel tests may call it.
func (h *Hub) AddUser(name string) *envtest.AuthenticatedUser {
	h.T.Helper()
	h.users.Lock()
	defer h.users.Unlock()
	who, err := h.server.AddUser(envtest.User{Name: name}, rest.AnonymousClientConfig(h.Config))
	expect.NoError(h.T, err)
	return who
}

// AwaitState waits for a condition and tells at a timeout what it last said.
func (h *Hub) AwaitState(what string, condition func() (state string, ok bool)) {
	h.T.Helper()
	expect.EventuallySeen(h.T, what, condition)
}
