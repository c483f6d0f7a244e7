// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs runs the programs of a hub in this process as the operator has declared
// them: with their arguments, their accounts and their certificates.
package programs

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/apiserver"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/testing/expect"
	clusterwebhook "github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/serving"
	workwebhook "github.com/capstan-io/capstan/internal/webhook/work"
	"github.com/capstan-io/capstan/test/integration/setup/harness"
)

// Programs are the pods of a hub that the Cluster API needs, in this process: as
// the accounts that the operator made, with the flags and certificates that it
// gave them, behind its Services.
type Programs struct {
	*harness.Cluster
	address net.IP
	ended   map[string]func()
}

// StartPrograms prepares to run the programs of a hub.
func StartPrograms(t testing.TB, c *harness.Cluster) *Programs {
	t.Helper()
	p := &Programs{Cluster: c, address: ownAddress(t), ended: map[string]func(){}}
	t.Cleanup(func() {
		for _, end := range p.ended {
			end()
		}
	})
	return p
}

// RunAll runs all programs.
func (p *Programs) RunAll(t testing.TB) {
	t.Helper()
	p.runController(t)
	p.runRegistrationWebhook(t)
	p.runAPIServer(t)
}

// StopProgram ends a program.
func (p *Programs) StopProgram(name string) {
	p.ended[name]()
	delete(p.ended, name)
}

// background runs a program until the test ends.
func (p *Programs) background(t testing.TB, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("%s ended: %v", name, err)
		}
	})
	p.ended[name] = func() {
		cancel()
		running.Wait()
	}
}

func (p *Programs) runController(t testing.TB) {
	t.Helper()
	gates := slices.DeleteFunc(p.ArgumentsOf(t, "cluster-manager-registration-controller"), func(arg string) bool { return !strings.HasPrefix(arg, "--feature-gates=") })
	for i := range gates {
		gates[i] = strings.TrimPrefix(gates[i], "--feature-gates=")
	}
	set, err := features.ParseFlags(features.HubRegistration, gates)
	expect.NoError(t, err)
	cached, err := registration.NewRegistrationCacheOptions()
	expect.NoError(t, err)
	scheme, err := registration.NewRegistrationScheme()
	expect.NoError(t, err)
	config, _ := p.ConfigAs(t, "registration-controller-sa")
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	expect.NoError(t, err)
	expect.NoError(t, registration.SetupRegistrationControllers(t.Context(), mgr, registration.SetupOptions{Gates: set, OwnNamespace: operatorv1.DefaultHubNamespace, Mirror: set.Enabled(features.AggregatedAPI)}))
	p.background(t, "the registration controller", mgr.Start)
}

func (p *Programs) runRegistrationWebhook(t testing.TB) {
	t.Helper()
	config, _ := p.ConfigAs(t, "registration-webhook-sa")
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	counting, err := metadata.NewForConfig(config)
	expect.NoError(t, err)
	handlers, err := clusterwebhook.WebhookHandlers(t.Context(), clusterwebhook.WebhookOptions{Clients: clients, Metadata: counting, Clock: clock.RealClock{}, DefaultSet: true})
	expect.NoError(t, err)
	p.runWebhook(t, "registration-webhook", handlers, config)
}

// RunWorkWebhook runs the webhook for works.
func (p *Programs) RunWorkWebhook(t testing.TB) {
	t.Helper()
	config, _ := p.ConfigAs(t, "work-webhook-sa")
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	handlers, err := workwebhook.WebhookHandlers(workwebhook.WebhookOptions{Clients: clients, ManifestsSizeMax: workv1.ManifestsSizeMax})
	expect.NoError(t, err)
	p.runWebhook(t, "work-webhook", handlers, config)
}

// runWebhook serves the webhooks of a component, whose names follow from that of it.
func (p *Programs) runWebhook(t testing.TB, component string, handlers map[string]http.Handler, config *rest.Config) {
	t.Helper()
	o := serving.ServerOptions{
		Component: component, Handlers: handlers, Config: config, Port: p.RouteService(t, "cluster-manager-"+component), Clock: clock.RealClock{},
		CertDir: p.MountSecret(t, component+"-serving-cert"),
		Server:  options.ServerOptions{HealthProbePort: p.FreePort(t), TLSMinVersion: "VersionTLS12"},
	}
	p.background(t, "the "+component, func(ctx context.Context) error { return serving.RunWebhookServer(ctx, o) })
}

// RunPushAgent runs the push agent until t ends, which may be a part of the hub's test. It
// may dial this machine.
func (p *Programs) RunPushAgent(t testing.TB) {
	t.Helper()
	p.Eventually(t, "the push agent is installed", func(ctx context.Context) error {
		return p.Client.Get(ctx, client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: "cluster-manager-push-agent"}, &appsv1.Deployment{})
	})
	config, _ := p.ConfigAs(t, fleetv1alpha1.PushAgentServiceAccount)
	works, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	expect.NoError(t, err)
	agent, err := push.NewAgent(push.AgentOptions{
		Hub: config, HubURL: p.AdminConfig.Host, Log: logr.Discard(), Parts: []fleet.Part{works},
		Guard:      dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20},
	})
	expect.NoError(t, err)
	p.background(t, "works", works.Start)
	p.background(t, "the push agent", agent.RunSessions)
	t.Cleanup(func() {
		p.StopProgram("the push agent")
		p.StopProgram("works")
	})
}

func (p *Programs) runAPIServer(t testing.TB) {
	t.Helper()
	const mounted = "/tmp/k8s-webhook-server/serving-certs"
	folder := p.MountSecret(t, operatorv1.APIServerServingCertSecret)
	args := p.ArgumentsOf(t, "cluster-manager-apiserver")
	if args[0] != "/capstan-apiserver" {
		t.Fatalf("the program is %q", args[0])
	}
	for i := range args {
		args[i] = strings.Replace(args[i], mounted, folder, 1)
	}
	o := apiserver.NewServerOptions()
	flags := pflag.NewFlagSet(args[0], pflag.ContinueOnError)
	o.AddFlags(flags)
	expect.NoError(t, flags.Parse(args[1:]))
	expect.NoError(t, o.Validate())
	_, o.Hub.Kubeconfig = p.ConfigAs(t, "apiserver-sa")
	o.Serving.BindPort, o.ShutdownDelay = p.RouteService(t, "cluster-manager-apiserver"), 0
	config, err := o.ServerConfig()
	expect.NoError(t, err)
	server, err := config.Complete().NewServer()
	expect.NoError(t, err)
	p.background(t, "apiserver", server.RunAPIServer)
}

// ArgumentsOf returns the arguments of a Deployment's program.
func (p *Programs) ArgumentsOf(t testing.TB, deployment string) []string {
	t.Helper()
	d := &appsv1.Deployment{}
	expect.NoError(t, p.Client.Get(t.Context(), client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: deployment}, d))
	return d.Spec.Template.Spec.Containers[0].Args
}

// ConfigAs returns how a ServiceAccount of the hub reaches it, also as a file.
func (p *Programs) ConfigAs(t testing.TB, account string) (*rest.Config, string) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorv1.DefaultHubNamespace, Name: account}}
	expect.NoError(t, p.Client.SubResource("token").Create(t.Context(), of, request))
	config := rest.AnonymousClientConfig(p.AdminConfig)
	config.BearerToken, config.QPS = request.Status.Token, -1
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["hub"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos["hub"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "hub"}
	kubeconfig.CurrentContext = "hub"
	file := filepath.Join(t.TempDir(), account)
	expect.NoError(t, clientcmd.WriteToFile(*kubeconfig, file))
	return config, file
}

// MountSecret returns a folder with the keys of a Secret of the hub.
func (p *Programs) MountSecret(t testing.TB, name string) string {
	t.Helper()
	secret, folder := &corev1.Secret{}, t.TempDir()
	expect.NoError(t, p.Client.Get(t.Context(), client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: name}, secret))
	for key, value := range secret.Data {
		expect.NoError(t, os.WriteFile(filepath.Join(folder, key), value, 0o600))
	}
	return folder
}

// RouteService returns a port of this machine that a Service of the hub leads to.
func (p *Programs) RouteService(t testing.TB, service string) int {
	t.Helper()
	s := &corev1.Service{}
	expect.NoError(t, p.Client.Get(t.Context(), client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: service}, s))
	port := p.FreePort(t)
	expect.NoError(t, p.Client.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{p.address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(s.Spec.Ports[0].Name), Port: ptr.To(int32(port)), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}))
	return port
}

// FreePort returns a port that nobody listens on.
func (p *Programs) FreePort(t testing.TB) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	expect.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// ownAddress returns an address of this machine that an EndpointSlice may have.
func ownAddress(t testing.TB) net.IP {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	expect.NoError(t, err)
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.To4()
		}
	}
	t.Fatal("this machine has no network")
	return nil
}
