// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// pushed is a Cluster with Secrets in a namespace.
func pushed(namespace string) *v1alpha1.Cluster {
	c := aggregated.NewCluster("pushed", v1alpha1.Push)
	c.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: namespace, Name: "pushed"}
	c.Spec.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: namespace, Name: "pushed-impersonator"}
	return c
}

func TestSecretsOfAClusterAreCopied(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	const namespace = "not-granted"
	createPushedSecrets(t, h, namespace)
	err := h.Create(t.Context(), pushed(namespace))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `grant it get by a Role in namespace "not-granted"`) {
		t.Errorf("a Secret that the server may not read: %v, want who has to grant what", err)
	}
	if err := h.Get(t.Context(), client.ObjectKey{Name: "pushed"}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("a create that failed leaves a ManagedCluster (%v)", err)
	}
	grantSecrets(t, h, namespace)
	c := pushed(namespace)
	h.CreateObject(t, c)
	same(t, "secretRef as it was written", c.Spec.SecretRef, pushed(namespace).Spec.SecretRef)
	same(t, "impersonatorSecretRef as it was written", c.Spec.ImpersonatorSecretRef, pushed(namespace).Spec.ImpersonatorSecretRef)
	for name, want := range map[string]string{fleetv1alpha1.DefaultSecretName: "t1 ca 2", "cluster-impersonator": "t2  1"} {
		copied := &corev1.Secret{}
		if err := h.Get(t.Context(), client.ObjectKey{Namespace: "pushed", Name: name}, copied); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s %d", copied.Data["token"], copied.Data["caBundle"], len(copied.Data)); got != want {
			t.Errorf("copy %s is %q, want %q", name, got, want)
		}
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	h.ReadObject(t, "pushed", connection)
	same(t, "the Secret of the connection, by default the copy", connection.Spec.SecretRef, (*fleetv1alpha1.SecretReference)(nil))
	same(t, "the impersonator of the connection", connection.Spec.ImpersonatorSecretRef, &fleetv1alpha1.SecretReference{Name: "cluster-impersonator"})
}

// TestSecretsThatCannotBeCopiedAreRefused are references that cannot be copied.
func TestSecretsThatCannotBeCopiedAreRefused(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	h.CreateObject(t, aggregated.NewSecret(v1alpha1.SecretsNamespace, "empty", nil))
	empty := aggregated.NewCluster("pushed2", v1alpha1.Push)
	empty.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "empty"}
	if err := h.Create(t.Context(), empty); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "has no key token") {
		t.Errorf("a Secret without a token: %v, want that it has none", err)
	}
	h.CreateObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}})
	c := aggregated.NewCluster("foreign", v1alpha1.Push)
	c.Spec.SecretRef = pushed(v1alpha1.SecretsNamespace).Spec.SecretRef
	if err := h.Create(t.Context(), c); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not belong to this cluster") {
		t.Errorf("a copy into a namespace that is not the cluster's: %v, want that it is refused", err)
	}
}

// TestWhoMayWriteClustersMayDoNothingElse are writes of a user who may write Clusters and nothing else.
func TestWhoMayWriteClustersMayDoNothingElse(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	const user = "mallory"
	write := rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusters", "clusters/status"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}
	h.GrantUser(t, user, "", write)
	env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(user), "", write, true)
	config, _ := h.AddUser(t, user)
	mallory, err := client.New(config, client.Options{Scheme: aggregated.NewScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	h.CreateObject(t, aggregated.NewSecret("default", "of-somebody", map[string]string{"token": "t"}))
	h.CreateJoined(t, "target", func(_ *clusterv1.ManagedCluster, c *fleetv1alpha1.ClusterConnection) {
		c.Spec.SyncMode, c.Spec.APIEndpoint = fleetv1alpha1.SyncModePush, "https://member.example.com:6443"
	})
	h.CreateJoined(t, "pull")
	const sent = `get secrets. "cluster-connection" in namespace "target"`
	for name, test := range map[string]struct {
		cluster string
		change  func(*v1alpha1.Cluster)
		want    string
	}{
		"RedirectEndpoint": {"target", func(c *v1alpha1.Cluster) { c.Spec.APIEndpoint = "https://evil.example.com" }, sent},
		"Proxy":            {"target", func(c *v1alpha1.Cluster) { c.Spec.ProxyURL = "http://evil.example.com" }, sent},
		"SkipTLS":          {"target", func(c *v1alpha1.Cluster) { c.Spec.InsecureSkipTLSVerification = true }, sent},
		"NameASecret": {"target", func(c *v1alpha1.Cluster) {
			c.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: "default", Name: "of-somebody"}
		}, `get secrets. "of-somebody" in namespace "default"`},
		"NameAnImpersonator": {"pull", func(c *v1alpha1.Cluster) {
			c.Spec.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: "default", Name: "of-somebody"}
		}, `get secrets. "of-somebody" in namespace "default"`},
		"JoinASet": {"pull", func(c *v1alpha1.Cluster) { c.Labels = map[string]string{clusterv1.LabelClusterSet: "prod"} }, `create managedclustersets/join`},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &v1alpha1.Cluster{}
			h.ReadObject(t, test.cluster, cluster)
			test.change(cluster)
			err := mallory.Update(t.Context(), cluster)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want that it is forbidden without %s", err, test.want)
			}
		})
	}
	for _, c := range []*v1alpha1.Cluster{aggregated.NewCluster("mine", v1alpha1.Pull), aggregated.NewCluster("mine", v1alpha1.Push)} {
		if err := mallory.Create(t.Context(), c); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "update managedclusters/accept") {
			t.Errorf("creating a Cluster without the right to accept it: %v, want that it is forbidden", err)
		}
	}
	accept := rbacv1.PolicyRule{APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}}
	h.GrantUser(t, user, "", accept)
	env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(user), "", accept, true)
	if err := mallory.Create(t.Context(), aggregated.NewCluster("mine", v1alpha1.Push)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "get secrets") {
		t.Errorf("a Push cluster that would be sent a credential which is there: %v, want that it is forbidden", err)
	}
	cluster := &v1alpha1.Cluster{}
	h.ReadObject(t, "target", cluster)
	cluster.Spec.Provider, cluster.Labels = "acme", map[string]string{"a": "b"}
	if err := mallory.Update(t.Context(), cluster); err != nil {
		t.Errorf("ordinary fields: %v, want that the right to write Clusters suffices", err)
	}
}

// TestOnlyTheFrontProxySaysWhoAsks asks the server without the hub in between, with headers that
// only the hub may send.
func TestOnlyTheFrontProxySaysWhoAsks(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(h.CA.Pem)
	path := fmt.Sprintf("https://localhost:%d/apis/%s/clusters", h.Port, v1alpha1.GroupVersion)
	ask := func(certificates ...tls.Certificate) int {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12}}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "admin")
		request.Header.Set("X-Remote-Group", "system:masters")
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode
	}
	config, _ := h.AddUser(t, "nobody")
	own, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	other := h.CA.Issue(t, "somebody-else", nil) // of the same CA, with a name that is not allowed
	wrong, err := tls.X509KeyPair(other.Cert, other.Key)
	if err != nil {
		t.Fatal(err)
	}
	hubs := h.CA.Issue(t, "front-proxy-client", nil)
	right, err := tls.X509KeyPair(hubs.Cert, hubs.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		want         []int
	}{
		"NoCertificate":  {nil, []int{http.StatusUnauthorized}},
		"OfAUser":        {[]tls.Certificate{own}, []int{http.StatusForbidden}},
		"OfAnotherProxy": {[]tls.Certificate{wrong}, []int{http.StatusForbidden, http.StatusUnauthorized}},
		"OfTheHub":       {[]tls.Certificate{right}, []int{http.StatusOK}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(test.certificates...); got != test.want[0] && got != test.want[len(test.want)-1] {
				t.Errorf("headers of the front proxy: %d, want %v", got, test.want)
			}
		})
	}
}

// TestANewCertificateIsServed replaces the certificate of the server while it serves.
func TestANewCertificateIsServed(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	before := served(t.Context(), t, h)
	want := h.WriteCertificate(t)
	aggregated.Eventually(t, "the new certificate is served", func(ctx context.Context) error {
		if now := served(ctx, t, h); now.Cmp(before) == 0 {
			return fmt.Errorf("the serial number is still %s", now)
		}
		return nil
	})
	if _, err := tls.X509KeyPair(want.Cert, want.Key); err != nil {
		t.Fatal(err)
	}
	if err := h.List(t.Context(), &v1alpha1.ClusterList{}); err != nil {
		t.Errorf("after the certificate has changed: %v", err)
	}
	config := rest.AnonymousClientConfig(h.AdminConfig)
	config.Host, config.TLSClientConfig = fmt.Sprintf("https://localhost:%d", h.Port), rest.TLSClientConfig{CAData: h.CA.Pem}
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := plain.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, want 200 for everybody", path, response.Status)
		}
	}
}

// served returns the serial number of the certificate that is served.
func served(ctx context.Context, t testing.TB, h *aggregated.Hub) *big.Int {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(h.CA.Pem)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", h.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber //nolint:forcetypeassert // of TLS
}

// TestACreatedClusterJoinsNoSetOfOthers has somebody create the Cluster of a ManagedCluster that waits. Whoever
// may ask to join could name any set there.
func TestACreatedClusterJoinsNoSetOfOthers(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	const name, user = "of-a-joiner", "acceptor"
	create := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"create"}}
	accept := rbacv1.PolicyRule{APIGroups: []string{clusterv1.RegisterGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}}
	h.GrantUser(t, user, "", create, accept)
	for _, rule := range []rbacv1.PolicyRule{create, accept} {
		env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(user), "", rule, true)
	}
	config, _ := h.AddUser(t, user)
	heard := &[]string{}
	config.WarningHandlerWithContext = aggregated.Warnings{Heard: heard}
	as, err := client.New(config, client.Options{Scheme: aggregated.NewScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	waits := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterSet: "prod", "tier": "gold"}}}
	waits.Spec.Taints = []clusterv1.Taint{{Key: "keep-out", Effect: clusterv1.TaintEffectNoSelect}}
	h.CreateObject(t, waits)
	said := aggregated.NewCluster(name, v1alpha1.Pull)
	said.Labels = map[string]string{clusterv1.LabelClusterSet: "prod"}
	for what, c := range map[string]*v1alpha1.Cluster{"that says nothing of its set": aggregated.NewCluster(name, v1alpha1.Pull), "that says the same": said} {
		if err := as.Create(t.Context(), c); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `create managedclustersets/join.cluster.open-cluster-management.io "prod"`) {
			t.Errorf("a Cluster %s, for a ManagedCluster that asks for set prod: %v, want that it is forbidden without the right to join the set", what, err)
		}
	}
	join := rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, ResourceNames: []string{"prod"}, Verbs: []string{"create"}}
	h.GrantUser(t, user, "", join)
	env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(user), "", join, true)
	if err := as.Create(t.Context(), aggregated.NewCluster(name, v1alpha1.Pull)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tier=gold", clusterv1.LabelClusterSet + "=prod", "keep-out"} {
		if !strings.Contains(strings.Join(*heard, "\n"), want) {
			t.Errorf("the user hears %q, want a word of %s", *heard, want)
		}
	}
}
