// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// AggregatedProgram is the executable of the aggregated API server, and
	// aggregatedService the name of its Deployment and of its Service.
	AggregatedProgram = "capstan-apiserver"
	aggregatedService = "cluster-manager-apiserver"
	// aggregatedHost is the name that the hub's API server knows it by.
	aggregatedHost = aggregatedService + "." + operatorv1.DefaultHubNamespace + ".svc"
)

// serverOf returns where requests reach a component; nil for none.
func serverOf(c manifests.HubComponent) *manifests.ComponentServer {
	if c.Webhook != nil {
		return c.Webhook
	}
	return c.APIServer
}

// aggregate leads from the hub's API server to the aggregated one at the port, by a
// Service that is another name, as on a hub whose pods run elsewhere.
func (h *Hub) aggregate(t testing.TB, m manifests.Hub, port int) {
	t.Helper()
	Eventually(t, "the aggregated API server is well", func() error { return Probe(t, port) })
	objects := []render.Object{corev1ac.Service(aggregatedService, m.Namespace()).
		WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceTypeExternalName).WithExternalName("localhost"))}
	for _, service := range manifests.APIServices(m) {
		u, err := render.ToUnstructured(service)
		if err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(u.Object, int64(port), "spec", "service", "port"); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, client.ApplyConfigurationFromUnstructured(u))
	}
	if _, err := render.NewApplier(h.Client, h.Client, FieldOwner).Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the hub serves the Cluster API", func() error {
		return h.Client.List(t.Context(), &karmadav1alpha1.ClusterList{})
	})
}

// hubName is the name of the hub among the clusters.
const hubName = "hub"

// localhost is where everything in this suite is.
const localhost = "127.0.0.1"

// Root is the directory of the repository.
const Root = "../../.."

// Hub is a hub with all of its programs.
type Hub struct {
	*Cluster
	Pods *pods
	// Bootstrap is the kubeconfig that clusters ask to join with.
	Bootstrap []byte
	// Interpreter configures the webhook that agents ask about CronJobs.
	Interpreter string
}

// StartHub starts a hub with what the ClusterManager operator installs, with the
// Cluster API. Three things are different: the addresses of the webhooks and of the
// aggregated API server, as there are no Services; that the push agent may
// dial this machine; and that agents may read customizations, as with Propagation,
// which the hub has only if it is among the gates.
func StartHub(t testing.TB, at Setting, gates ...features.Gate) *Hub {
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
	if at.Dedicated {
		options = append(options, asDedicated(t))
	}
	h := &Hub{Cluster: startClusterWith(t, at, hubName, definitions, nil, options...), Interpreter: startInterpreter(t)}
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
			port := FreePort(t)
			ports[server.Service], ports[c.Workload.Name] = port, port
		}
	}
	h.install(t, m, ports, map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key})
	h.Pods = StartPods(t, h.Cluster, at.Programs, func(deployment string) []string {
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
	h.Bootstrap = h.KubeconfigOf(t, operatorv1.DefaultOperatorNamespace, operatorv1.BootstrapServiceAccount)
	h.aggregate(t, m, ports[aggregatedService])
	h.Works(t)
	return h
}

// install applies what the operator does.
func (h *Hub) install(t testing.TB, m manifests.Hub, ports map[string]int, certificate map[string][]byte) {
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
	if _, err := render.NewApplier(h.Client, h.Client, FieldOwner).Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
}

// Works waits until the webhooks and the controllers do.
func (h *Hub) Works(t testing.TB) {
	t.Helper()
	first := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	Eventually(t, "the hub accepts a cluster", func() error {
		return client.IgnoreAlreadyExists(h.Client.Create(t.Context(), first.DeepCopy()))
	})
	empty := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: first.Name, Name: "empty"}}
	Eventually(t, "the hub refuses a work that is empty", func() error {
		if err := h.Client.Create(t.Context(), empty.DeepCopy()); err == nil || !strings.Contains(err.Error(), "manifests") {
			return fmt.Errorf("creating it: %w", err)
		}
		return nil
	})
	if err := h.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the cluster is deleted", func() error {
		err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(first), first)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// KubeconfigOf returns a kubeconfig of a ServiceAccount.
func (c *Cluster) KubeconfigOf(t testing.TB, namespace, name string) []byte {
	t.Helper()
	kubeconfig, err := c.RenderKubeconfig(c.RequestToken(t, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// RequestToken returns a token of a ServiceAccount.
func (c *Cluster) RequestToken(t testing.TB, namespace, name string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// The ports of the webhooks are below those that connections get by themselves,
// one of which could take a port before its program listens.
const portMin, portMax = 20000, 32000

// FreePort returns a port that nobody listens on.
func FreePort(t testing.TB) int {
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
