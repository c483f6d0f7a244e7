// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
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
	"github.com/capstan-io/capstan/internal/testing/ports"
)

const (
	// Patience only decides how long a failure takes.
	Patience = time.Minute
	pause    = 50 * time.Millisecond

	serverNamespace = "open-cluster-management-hub"
	serverName      = "cluster-manager-apiserver"
	// ServerUser is the account of the aggregated API server.
	ServerUser = "capstan-apiserver"
)

// Hub is an API server that serves Clusters by way of the aggregated one.
type Hub struct {
	environment *envtest.Environment
	AdminConfig *rest.Config
	// Port is where the aggregated API server listens, and folder has its certificate.
	Port   int
	Folder string
	CA     *authority
	// Crashes is between the aggregated API server and this one.
	Crashes *Crashes
	// Stop ends the aggregated API server, and resume starts another one.
	Stop, Resume func()
	client.Client
}

// StartHub starts both API servers as the operator installs them: with the
// rights of component apiserver, behind an APIService.
func StartHub(t testing.TB, definitions string) *Hub {
	t.Helper()
	h := &Hub{Folder: t.TempDir(), CA: newAuthority(t), Port: ports.FreePort(t), Crashes: &Crashes{}}
	proxy := h.CA.Issue(t, "front-proxy-client", nil)
	h.WriteFile(t, "ca.crt", h.CA.Pem)
	h.WriteFile(t, "proxy.crt", proxy.Cert)
	h.WriteFile(t, "proxy.key", proxy.Key)
	h.environment, h.AdminConfig = env.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{definitions}
		e.ControlPlane.GetAPIServer().Configure().
			Append("requestheader-client-ca-file", filepath.Join(h.Folder, "ca.crt")).
			Append("requestheader-allowed-names", "front-proxy-client").
			Append("requestheader-username-headers", "X-Remote-User").
			Append("requestheader-group-headers", "X-Remote-Group").
			Append("requestheader-extra-headers-prefix", "X-Remote-Extra-").
			Append("proxy-client-cert-file", filepath.Join(h.Folder, "proxy.crt")).
			Append("proxy-client-key-file", filepath.Join(h.Folder, "proxy.key"))
	})
	var err error
	if h.Client, err = client.New(h.AdminConfig, client.Options{Scheme: NewScheme(t)}); err != nil {
		t.Fatal(err)
	}
	h.allowServer(t)
	h.Resume = func() { h.RunServer(t) }
	h.Resume()
	h.RegisterServer(t)
	return h
}

// NewScheme returns the kinds that tests read and write.
func NewScheme(t testing.TB) *runtime.Scheme {
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

// WriteFile writes a file into the folder of the server.
func (h *Hub) WriteFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.Folder, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// allowServer grants the account of the server what is generated from its
// markers, and no more.
func (h *Hub) allowServer(t testing.TB) {
	t.Helper()
	rules, namespaced, err := config.Rules(config.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	if len(namespaced) > 0 {
		t.Fatalf("rules in a namespace that no role here has: %v", namespaced)
	}
	h.GrantUser(t, ServerUser, "", rules...)
	for _, rule := range rules {
		env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(ServerUser), "", rule, true)
	}
}

// UserSubjects are the subjects of a binding for one user.
func UserSubjects(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
}

// GrantUser lets a user do what the rules say: in the namespace, or everywhere.
func (h *Hub) GrantUser(t testing.TB, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := user + "-" + strconv.Itoa(int(time.Now().UnixNano()))
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		h.CreateObject(t, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		h.CreateObject(t, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: UserSubjects(user)})
		return
	}
	h.CreateObject(t, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	h.CreateObject(t, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: UserSubjects(user)})
}

// CreateObject creates an object as the administrator.
func (h *Hub) CreateObject(t testing.TB, o client.Object) {
	t.Helper()
	if err := h.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, client.ObjectKeyFromObject(o), err)
	}
}

// AddUser returns the configuration of a user of the hub.
func (h *Hub) AddUser(t testing.TB, name string, groups ...string) (*rest.Config, []byte) {
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

// RunServer runs the server in this process, until the test ends.
func (h *Hub) RunServer(t testing.TB) {
	t.Helper()
	h.WriteCertificate(t)
	_, kubeconfig := h.AddUser(t, ServerUser)
	h.WriteFile(t, "kubeconfig", kubeconfig)
	o := apiserver.NewServerOptions()
	o.Hub.Kubeconfig = filepath.Join(h.Folder, "kubeconfig")
	o.Serving.BindAddress, o.Serving.BindPort = net.IPv4(127, 0, 0, 1), h.Port
	o.Serving.ServerCert.CertKey.CertFile = filepath.Join(h.Folder, "tls.crt")
	o.Serving.ServerCert.CertKey.KeyFile = filepath.Join(h.Folder, "tls.key")
	o.ShutdownDelay = 0
	var c *apiserver.ServerConfig
	Eventually(t, "the configuration", func(context.Context) (err error) {
		c, err = o.ServerConfig() // the role in kube-system may not be known yet
		return err
	})
	c.Hub.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &link{Crashes: h.Crashes, next: next}
	})
	server, err := c.Complete().NewServer()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.RunAPIServer(ctx) }()
	h.Stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	t.Cleanup(h.Stop)
}

// WriteCertificate writes a new certificate for the server, and returns it.
func (h *Hub) WriteCertificate(t testing.TB) pair {
	t.Helper()
	p := h.CA.Issue(t, serverName, []string{serverName + "." + serverNamespace + ".svc", "localhost"})
	h.WriteFile(t, "tls.key", p.Key)
	h.WriteFile(t, "tls.crt", p.Cert)
	return p
}

// RegisterServer makes the hub's API server ask the aggregated one.
func (h *Hub) RegisterServer(t testing.TB) {
	t.Helper()
	h.CreateObject(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: serverNamespace}})
	h.CreateObject(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: serverNamespace, Name: serverName}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: int32(h.Port)}}, //nolint:gosec // it is a port
	}})
	services := dynamic.NewForConfigOrDie(h.AdminConfig).Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	for _, version := range []schema.GroupVersion{v1alpha1.GroupVersion, workv1alpha1.GroupVersion} {
		_, err := services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": version.Version + "." + version.Group},
			"spec": map[string]any{
				"group": version.Group, "version": version.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
				"caBundle": h.CA.Pem,
				"service":  map[string]any{"namespace": serverNamespace, "name": serverName, "port": int64(h.Port)},
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	Eventually(t, "the hub serves Clusters", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
	Eventually(t, "the hub serves Works", func(ctx context.Context) error { return h.List(ctx, &workv1alpha1.WorkList{}) })
}

// Eventually waits until there is no error.
func Eventually(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), pause, Patience, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}

// MirrorCluster does for a cluster what the registration controller does.
func (h *Hub) MirrorCluster(t testing.TB, name string) {
	t.Helper()
	mc, connection := &clusterv1.ManagedCluster{}, &fleetv1alpha1.ClusterConnection{}
	h.ReadObject(t, name, mc)
	h.ReadObject(t, name, connection)
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

// ReadObject reads an object that has no namespace.
func (h *Hub) ReadObject(t testing.TB, name string, o client.Object) {
	t.Helper()
	if err := h.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
		t.Fatalf("reading %T %s: %v", o, name, err)
	}
}

// CreateJoined makes a cluster that the hub has accepted, as it is without the Cluster
// API.
func (h *Hub) CreateJoined(t testing.TB, name string, change ...func(*clusterv1.ManagedCluster, *fleetv1alpha1.ClusterConnection)) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, c := range change {
		c(mc, connection)
	}
	conditions := slices.Clone(mc.Status.Conditions)
	status := connection.Status.DeepCopy()
	h.CreateObject(t, mc)
	if len(conditions) > 0 {
		mc.Status.Conditions = conditions
		if err := h.Status().Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
	}
	h.CreateObject(t, connection)
	connection.Status = *status
	if len(status.Conditions) > 0 {
		if err := h.Status().Update(t.Context(), connection); err != nil {
			t.Fatal(err)
		}
	}
	h.MirrorCluster(t, name)
}
