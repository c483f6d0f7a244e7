// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/apiserver"
	"github.com/capstan-io/capstan/internal/cluster/projection"
	"github.com/capstan-io/capstan/internal/testing/env"
)

const (
	// patience only decides how long a failure takes.
	patience = time.Minute
	pause    = 50 * time.Millisecond

	serverNamespace = "open-cluster-management-hub"
	serverName      = "cluster-manager-apiserver"
	serverUser      = "capstan-apiserver"
)

// hub is an API server that serves Clusters by way of the aggregated one.
type hub struct {
	environment *envtest.Environment
	admin       *rest.Config
	// port is where the aggregated API server listens, and folder has its certificate.
	port   int
	folder string
	ca     *authority
	// crashes is between the aggregated API server and this one.
	crashes *crashes
	// stop ends the aggregated API server, and resume starts another one.
	stop, resume func()
	client.Client
}

// startHub starts both API servers as the operator installs them: with the
// rights of component apiserver, behind an APIService.
func startHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{folder: t.TempDir(), ca: newAuthority(t), port: freePort(t), crashes: &crashes{}}
	proxy := h.ca.issue(t, "front-proxy-client", nil)
	h.write(t, "ca.crt", h.ca.pem)
	h.write(t, "proxy.crt", proxy.cert)
	h.write(t, "proxy.key", proxy.key)
	h.environment, h.admin = env.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{"../../config/crd"}
		e.ControlPlane.GetAPIServer().Configure().
			Append("requestheader-client-ca-file", filepath.Join(h.folder, "ca.crt")).
			Append("requestheader-allowed-names", "front-proxy-client").
			Append("requestheader-username-headers", "X-Remote-User").
			Append("requestheader-group-headers", "X-Remote-Group").
			Append("requestheader-extra-headers-prefix", "X-Remote-Extra-").
			Append("proxy-client-cert-file", filepath.Join(h.folder, "proxy.crt")).
			Append("proxy-client-key-file", filepath.Join(h.folder, "proxy.key"))
	})
	var err error
	if h.Client, err = client.New(h.admin, client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	h.allowServer(t)
	h.resume = func() { h.serve(t) }
	h.resume()
	h.register(t)
	return h
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, fleetv1alpha1.AddToScheme, v1alpha1.AddToScheme,
		workv1.AddToScheme, workv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (h *hub) write(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.folder, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// allowServer grants the account of the server what is generated from its
// markers, and no more.
func (h *hub) allowServer(t testing.TB) {
	t.Helper()
	rules, namespaced, err := config.Rules(config.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	if len(namespaced) > 0 {
		t.Fatalf("rules in a namespace that no role here has: %v", namespaced)
	}
	h.grant(t, serverUser, "", rules...)
	for _, rule := range rules {
		env.WaitAllowed(t.Context(), t, h.admin, env.UserReview(serverUser), "", rule, true)
	}
}

func subjects(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
}

// grant lets a user do what the rules say: in the namespace, or everywhere.
func (h *hub) grant(t testing.TB, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := user + "-" + strconv.Itoa(int(time.Now().UnixNano()))
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		h.create(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		h.create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subjects(user)})
		return
	}
	h.create(t, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	h.create(t, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects(user)})
}

func (h *hub) create(t testing.TB, o client.Object) {
	t.Helper()
	if err := h.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, client.ObjectKeyFromObject(o), err)
	}
}

// user returns the configuration of a user of the hub.
func (h *hub) user(t testing.TB, name string, groups ...string) (*rest.Config, []byte) {
	t.Helper()
	user, err := h.environment.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	c := user.Config()
	c.QPS = -1
	return c, kubeconfig
}

// serve runs the server in this process, until the test ends.
func (h *hub) serve(t testing.TB) {
	t.Helper()
	h.certify(t)
	_, kubeconfig := h.user(t, serverUser)
	h.write(t, "kubeconfig", kubeconfig)
	o := apiserver.NewServerOptions()
	o.Hub.Kubeconfig = filepath.Join(h.folder, "kubeconfig")
	o.Serving.BindAddress, o.Serving.BindPort = net.IPv4(127, 0, 0, 1), h.port
	o.Serving.ServerCert.CertKey.CertFile = filepath.Join(h.folder, "tls.crt")
	o.Serving.ServerCert.CertKey.KeyFile = filepath.Join(h.folder, "tls.key")
	o.ShutdownDelay = 0
	var c *apiserver.ServerConfig
	until(t, "the configuration", func(context.Context) (err error) {
		c, err = o.ServerConfig() // the role in kube-system may not be known yet
		return err
	})
	c.Hub.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &link{crashes: h.crashes, next: next}
	})
	server, err := c.Complete().NewServer()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.RunAPIServer(ctx) }()
	h.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	t.Cleanup(h.stop)
}

// certify writes a new certificate for the server, and returns it.
func (h *hub) certify(t testing.TB) pair {
	t.Helper()
	p := h.ca.issue(t, serverName, []string{serverName + "." + serverNamespace + ".svc", "localhost"})
	h.write(t, "tls.key", p.key)
	h.write(t, "tls.crt", p.cert)
	return p
}

// register makes the hub's API server ask the aggregated one.
func (h *hub) register(t testing.TB) {
	t.Helper()
	h.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: serverNamespace}})
	h.create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: serverNamespace, Name: serverName}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(h.port)}},
	}})
	services := dynamic.NewForConfigOrDie(h.admin).Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	for _, version := range []schema.GroupVersion{v1alpha1.GroupVersion, workv1alpha1.GroupVersion} {
		_, err := services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version.Version + "." + version.Group},
			"spec": map[string]any{
				"group": version.Group, "version": version.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
				"caBundle": h.ca.pem,
				"service":  map[string]any{"namespace": serverNamespace, "name": serverName, "port": int64(h.port)},
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the hub serves Clusters", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
	until(t, "the hub serves Works", func(ctx context.Context) error { return h.List(ctx, &workv1alpha1.WorkList{}) })
}

func until(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), pause, patience, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}

// mirror does for a cluster what the registration controller does.
func (h *hub) mirror(t testing.TB, name string) {
	t.Helper()
	mc, connection := &clusterv1.ManagedCluster{}, &fleetv1alpha1.ClusterConnection{}
	h.get(t, name, mc)
	h.get(t, name, connection)
	if connection.Cluster != nil && connection.Cluster.Intent != nil {
		intent := connection.Cluster.Intent
		before := mc.DeepCopy()
		projection.CompleteIntent(mc, intent)
		if err := h.Patch(t.Context(), mc, client.MergeFrom(before)); err != nil {
			t.Fatalf("completing the intent of %s: %v", name, err)
		}
		if intent.Delete {
			if err := h.Delete(t.Context(), mc); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if err := h.Get(t.Context(), client.ObjectKey{Name: name}, mc); apierrors.IsNotFound(err) {
				if err := h.Delete(t.Context(), connection); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		connection.Cluster.Intent = nil
	}
	projection.RefreshMirror(connection, mc)
	if err := h.Update(t.Context(), connection); err != nil {
		t.Fatalf("mirroring %s: %v", name, err)
	}
}

func (h *hub) get(t testing.TB, name string, o client.Object) {
	t.Helper()
	if err := h.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
		t.Fatalf("reading %T %s: %v", o, name, err)
	}
}

// joined makes a cluster that the hub has accepted, as it is without the Cluster
// API.
func (h *hub) joined(t testing.TB, name string, change ...func(*clusterv1.ManagedCluster, *fleetv1alpha1.ClusterConnection)) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, c := range change {
		c(mc, connection)
	}
	conditions := slices.Clone(mc.Status.Conditions)
	status := connection.Status.DeepCopy()
	h.create(t, mc)
	if len(conditions) > 0 {
		mc.Status.Conditions = conditions
		if err := h.Status().Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
	}
	h.create(t, connection)
	connection.Status = *status
	if len(status.Conditions) > 0 {
		if err := h.Status().Update(t.Context(), connection); err != nil {
			t.Fatal(err)
		}
	}
	h.mirror(t, name)
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of TCP
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key.
type pair struct{ cert, key []byte }

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificate("front-proxy-ca")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func (a *authority) issue(t testing.TB, name string, hosts []string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificate(name)
	template.DNSNames, template.KeyUsage = hosts, x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
	}
}
