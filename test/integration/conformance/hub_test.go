// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// hubName is the name of the hub among the clusters.
const hubName = "hub"

// localhost is where everything in this suite is.
const localhost = "127.0.0.1"

// root is the directory of the repository.
const root = "../../.."

// hub is a hub with all of its programs.
type hub struct {
	*cluster
	pods *pods
	// bootstrap is the kubeconfig that clusters ask to join with.
	bootstrap []byte
	// interpreter configures the webhook that agents ask about CronJobs.
	interpreter string
}

// buildPrograms compiles the executables and gives them the names that they have
// in the image.
func buildPrograms(t testing.TB, dir string) string {
	t.Helper()
	programs := filepath.Join(dir, "programs")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", programs, "./cmd/capstan-manager", "./cmd/"+aggregatedProgram)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, link := range []string{"registration", "work", "placement", "propagation", "registration-operator"} {
		if err := os.Symlink("capstan-manager", filepath.Join(programs, link)); err != nil {
			t.Fatal(err)
		}
	}
	return programs
}

// startHub starts a hub with what the ClusterManager operator installs, with the
// Cluster API. Three things are different: the addresses of the webhooks and of the
// aggregated API server, as there are no Services; that the push agent may
// dial this machine; and that agents may read customizations, as with Propagation,
// which the hub has only if it is among the gates.
func startHub(t testing.TB, dir, programs string, gates ...features.Gate) *hub {
	t.Helper()
	definitions, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	propagation, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	definitions = append(definitions, propagation...)
	options := []func(*envtest.Environment){env.WithAggregation(t)}
	if *dedicated {
		options = append(options, asDedicated(t))
	}
	h := &hub{cluster: startClusterWith(t, dir, hubName, definitions, nil, options...), interpreter: startInterpreter(t)}
	certificate, key, err := cert.GenerateSelfSignedCertKey(localhost, []net.IP{net.ParseIP(localhost)}, []string{aggregatedHost})
	if err != nil {
		t.Fatal(err)
	}
	m := manifests.Hub{
		Name: "cluster-manager", OperatorNamespace: operatorv1.DefaultOperatorNamespace, OwnImage: "capstan:conformance",
		CABundle: certificate, Replicas: 1, PushClusters: true,
	}
	m.Registration, _ = features.ResolveGates(features.HubRegistration, map[string]bool{string(features.AggregatedAPI): true})
	m.Work, _ = features.ResolveGates(features.HubWork, map[string]bool{
		string(features.CleanUpCompletedManifestWork): true, string(features.ManifestWorkReplicaSet): true,
	})
	placement := map[string]bool{}
	for _, gate := range gates {
		placement[string(gate)] = true
	}
	m.Placement, _ = features.ResolveGates(features.HubPlacement, placement)
	ports := map[string]int{}
	for _, c := range manifests.HubComponents(m) {
		if server := serverOf(c); server != nil {
			port := freePort(t)
			ports[server.Service], ports[c.Workload.Name] = port, port
		}
	}
	h.install(t, m, ports, map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key})
	h.pods = startPods(t, h.cluster, programs, func(deployment string) []string {
		switch port := ports[deployment]; {
		case deployment == aggregatedService:
			return []string{fmt.Sprintf("--secure-port=%d", port), "--bind-address=" + localhost, "--shutdown-delay-duration=0s"}
		case port != 0:
			return []string{fmt.Sprintf("--port=%d", port), "--cert-dir=/tmp/k8s-webhook-server/serving-certs"}
		case deployment == m.Name+"-registration-controller":
			return []string{"--customizations"}
		case deployment == m.Name+"-push-agent":
			return []string{"--allowed-networks=" + localhost + "/32"}
		}
		return nil
	})
	h.bootstrap = h.kubeconfigOf(t, operatorv1.DefaultOperatorNamespace, operatorv1.BootstrapServiceAccount)
	h.aggregate(t, m, ports[aggregatedService])
	h.works(t)
	return h
}

// install applies what the operator does.
func (h *hub) install(t testing.TB, m manifests.Hub, ports map[string]int, certificate map[string][]byte) {
	t.Helper()
	objects := append(manifests.HubNamespaces(m),
		render.Namespace(render.ResourceMeta{Name: m.OperatorNamespace}), render.Namespace(render.ResourceMeta{Name: metav1.NamespacePublic}))
	access, err := manifests.ComponentAccess(m, config.Rules)
	if err != nil {
		t.Fatal(err)
	}
	objects = append(append(objects, access...), manifests.BootstrapAccess(m)...)
	for _, c := range manifests.HubComponents(m) {
		if server := serverOf(c); server != nil {
			objects = append(objects, render.SecretOfType(render.ResourceMeta{Namespace: m.Namespace(), Name: server.Secret}, corev1.SecretTypeTLS, certificate))
		}
	}
	objects = append(objects, fleet.WithoutServices(manifests.WebhookConfigurations(m), func(service string) string {
		return fmt.Sprintf("%s:%d", localhost, ports[service])
	})...)
	objects = append(objects, manifests.ComponentDeployments(m)...)
	if _, err := render.NewApplier(h.client, h.client, fieldOwner).Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
}

// works waits until the webhooks and the controllers do.
func (h *hub) works(t testing.TB) {
	t.Helper()
	first := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	eventually(t, "the hub accepts a cluster", func() error {
		return client.IgnoreAlreadyExists(h.client.Create(t.Context(), first.DeepCopy()))
	})
	empty := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: first.Name, Name: "empty"}}
	eventually(t, "the hub refuses a work that is empty", func() error {
		if err := h.client.Create(t.Context(), empty.DeepCopy()); err == nil || !strings.Contains(err.Error(), "manifests") {
			return fmt.Errorf("creating it: %w", err)
		}
		return nil
	})
	if err := h.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is deleted", func() error {
		err := h.client.Get(t.Context(), client.ObjectKeyFromObject(first), first)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// kubeconfigOf returns a kubeconfig of a ServiceAccount.
func (c *cluster) kubeconfigOf(t testing.TB, namespace, name string) []byte {
	t.Helper()
	kubeconfig, err := c.kubeconfig(c.token(t, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// token returns a token of a ServiceAccount.
func (c *cluster) token(t testing.TB, namespace, name string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// The ports of the webhooks are below those that connections get by themselves,
// one of which could take a port before its program listens.
const portMin, portMax = 20000, 32000

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := portMin + rand.IntN(portMax-portMin)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("%s:%d", localhost, port))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("there is no free port")
	return 0
}
