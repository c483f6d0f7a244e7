// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// startPatience only decides how long a failure takes.
const startPatience, startPause = 2 * time.Minute, 100 * time.Millisecond

// processes are etcd and the API server of a ControlPlane as its pods run them:
// with their commands, and the files of their Secrets and ConfigMaps. Only
// addresses are different, as there are no Services.
type processes struct {
	t     *testing.T
	dir   string
	plane manifests.Plane
	// data is that of Secrets and ConfigMaps by name.
	data        map[string]map[string][]byte
	authorities map[string]*certs.CertificatePair
	// ports by those that the pods have.
	ports map[int]int
}

func startProcesses(t *testing.T) *processes {
	t.Helper()
	env.Need(t)
	p := &processes{
		t: t, dir: t.TempDir(), plane: manifests.Plane{Name: name, Namespace: home},
		data: map[string]map[string][]byte{}, authorities: map[string]*certs.CertificatePair{}, ports: map[int]int{},
	}
	p.plane.Spec.Replicas = 1
	p.plane.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 1, Storage: fleetv1alpha1.ControlPlaneStorage{Size: "1Gi"}}
	p.plane.Issuer = p.plane.DefaultIssuer()
	for _, port := range []int{2379, 2380, 2381, fleetv1alpha1.ControlPlanePort} {
		p.ports[port] = freePort(t)
	}
	p.fill()
	p.run(manifests.EtcdStatefulSet(p.plane), fmt.Sprintf("--quota-backend-bytes=%d", etcdQuota))
	p.run(manifests.APIServerDeployment(p.plane), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1")
	p.until("the API server is ready", func() error {
		if got := p.ask(request{port: fleetv1alpha1.ControlPlanePort, path: "/readyz"}); got.status != http.StatusOK {
			return fmt.Errorf("it says %+v", got)
		}
		return nil
	})
	return p
}

// fill makes what the operator makes for the pods to read.
func (p *processes) fill() {
	p.t.Helper()
	now := time.Now()
	for authority, leaves := range p.plane.Authorities() {
		signer, err := certs.NewAuthority(authority, now)
		if err != nil {
			p.t.Fatal(err)
		}
		p.authorities[authority] = signer
		p.data[p.plane.ResourceName(authority)] = map[string][]byte{certs.BundleKey: signer.CertPEM}
		for _, leaf := range leaves {
			pair := p.sign(authority, leaf)
			p.data[leaf.Secret] = map[string][]byte{corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM}
		}
	}
	private, public, err := certs.NewSigningKey()
	if err != nil {
		p.t.Fatal(err)
	}
	p.data[p.plane.ServiceAccountSecret()] = map[string][]byte{manifests.ServiceAccountKey: private, manifests.ServiceAccountPublicKeys: public}
	p.data[p.plane.EncryptionSecret()] = manifests.EncryptionConfiguration(p.plane, []manifests.EncryptionKey{
		{Name: "key1", Secret: bytes.Repeat([]byte{1}, encryptionKeyBytes)},
	})
	config, err := render.ToUnstructured(manifests.APIServerConfig(p.plane))
	if err != nil {
		p.t.Fatal(err)
	}
	files := map[string][]byte{}
	for key, text := range config.Object["data"].(map[string]any) { //nolint:forcetypeassert // of a ConfigMap
		files[key] = []byte(text.(string)) //nolint:forcetypeassert // of a ConfigMap
	}
	p.data[config.GetName()] = files
}

// sign makes a certificate of an authority.
func (p *processes) sign(authority string, leaf certs.Leaf) *certs.CertificatePair {
	p.t.Helper()
	pair, err := certs.NewLeaf(p.authorities[authority], leaf, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	return pair
}

// run starts the container of a workload as a process, until the test ends.
func (p *processes) run(workload render.Object, more ...string) {
	p.t.Helper()
	u, err := render.ToUnstructured(workload)
	if err != nil {
		p.t.Fatal(err)
	}
	template := struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &template); err != nil {
		p.t.Fatal(err)
	}
	pod := template.Spec.Template.Spec
	container := pod.Containers[0]
	p.mount(pod, container)
	replace := []string{
		"/etc/capstan", p.dir + "/etc/capstan", "/var/lib/etcd", p.dir, "0.0.0.0", "127.0.0.1",
		"$(POD_NAME).hub-etcd.hub-control-plane.svc", "localhost", "hub-etcd-0.hub-etcd.hub-control-plane.svc", "localhost", "$(POD_NAME)", "hub-etcd-0",
	}
	for of, port := range p.ports {
		replace = append(replace, fmt.Sprintf(":%d", of), fmt.Sprintf(":%d", port), fmt.Sprintf("port=%d", of), fmt.Sprintf("port=%d", port))
	}
	replacer := strings.NewReplacer(replace...)
	var args []string
	for _, arg := range container.Command[1:] {
		args = append(args, replacer.Replace(arg))
	}
	command := exec.CommandContext(p.t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), container.Command[0]), append(args, more...)...)
	log := filepath.Join(p.dir, container.Name+".log")
	output, err := os.Create(log)
	if err != nil {
		p.t.Fatal(err)
	}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = command.Wait() // it is killed with the context
		_ = output.Close()
		if text, err := os.ReadFile(log); p.t.Failed() {
			p.t.Logf("the end of what %s says (%v):\n%s", container.Name, err, text[max(0, len(text)-3000):])
		}
	})
}

// mount writes the files of the volumes.
func (p *processes) mount(pod corev1.PodSpec, container corev1.Container) {
	p.t.Helper()
	sources := map[string]string{}
	for _, volume := range pod.Volumes {
		switch {
		case volume.Secret != nil:
			sources[volume.Name] = volume.Secret.SecretName
		case volume.ConfigMap != nil:
			sources[volume.Name] = volume.ConfigMap.Name
		}
	}
	for _, mount := range container.VolumeMounts {
		folder := filepath.Join(p.dir, mount.MountPath)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			p.t.Fatal(err)
		}
		for file, content := range p.data[sources[mount.Name]] {
			if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// until tries again until there is no error.
func (p *processes) until(what string, try func() error) {
	p.t.Helper()
	deadline := time.Now().Add(startPatience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(startPause)
	}
}

// request is one to etcd or the API server.
type request struct {
	// port is the one that the pods have.
	port int
	// with is the credential, if there is one.
	with         *certs.CertificatePair
	method, path string
	header       map[string]string
	body         string
}

// answer is what came of a request.
type answer struct {
	status int
	body   string
	err    error
}

func (p *processes) ask(r request) answer {
	p.t.Helper()
	authority := manifests.EtcdAuthority
	if r.port == fleetv1alpha1.ControlPlanePort {
		authority = manifests.ServingAuthority
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(p.authorities[authority].Certificate)
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	if r.with != nil {
		pair, err := tls.X509KeyPair(r.with.CertPEM, r.with.KeyPEM)
		if err != nil {
			p.t.Fatal(err)
		}
		// Whatever authorities the server names: an attacker does not care.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(p.t.Context(), hubTimeout)
	defer cancel()
	made, err := http.NewRequestWithContext(ctx, r.method, fmt.Sprintf("https://localhost:%d%s", p.ports[r.port], r.path), strings.NewReader(r.body))
	if err != nil {
		p.t.Fatal(err)
	}
	made.Header.Set("Content-Type", "application/json")
	for key, value := range r.header {
		made.Header.Set(key, value)
	}
	response, err := (&http.Client{Transport: transport}).Do(made)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, body: string(body), err: err}
}

// admin returns the client of an administrator of the hub, as its kubeconfig has
// it, and lets it be one as the operator does.
func (p *processes) admin() client.Client {
	p.t.Helper()
	as := func(leaf certs.Leaf) client.Client {
		pair := p.sign(manifests.ClientAuthority, leaf)
		c, err := client.New(&rest.Config{
			Host: fmt.Sprintf("https://localhost:%d", p.ports[fleetv1alpha1.ControlPlanePort]),
			TLSClientConfig: rest.TLSClientConfig{
				CAData: p.authorities[manifests.ServingAuthority].CertPEM, CertData: pair.CertPEM, KeyData: pair.KeyPEM,
			},
		}, client.Options{})
		if err != nil {
			p.t.Fatal(err)
		}
		return c
	}
	operator := as(certs.Leaf{User: operatorUser, Groups: []string{"system:masters"}})
	p.plane.Endpoint = manifests.APIServerEndpoint{Host: "localhost", Port: fleetv1alpha1.ControlPlanePort}
	objects, err := manifests.HubObjects(p.plane, p.authorities[manifests.ServingAuthority].CertPEM)
	if err != nil {
		p.t.Fatal(err)
	}
	p.until("the first objects are there", func() error { // kube-public is made by the API server
		_, err := render.NewApplier(operator, operator, FieldOwner).Apply(p.t.Context(), objects...)
		return err
	})
	admin := as(p.adminLeaf())
	p.until("the API server knows of the bindings", func() error {
		got := p.ask(request{port: fleetv1alpha1.ControlPlanePort, path: clusterInfo})
		if got.status != http.StatusOK {
			return fmt.Errorf("it says %+v", got)
		}
		return admin.Get(p.t.Context(), client.ObjectKey{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
	})
	return admin
}

// adminLeaf is the certificate of the kubeconfig.
func (p *processes) adminLeaf() certs.Leaf {
	p.t.Helper()
	leaves := p.plane.Authorities()[manifests.ClientAuthority]
	n := slices.IndexFunc(leaves, func(leaf certs.Leaf) bool { return leaf.Secret == p.plane.AdminSecret() })
	if n < 0 {
		p.t.Fatal("there is no certificate of an administrator")
	}
	return leaves[n]
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of TCP
}

// serverConfig is that of a server of an attacker at the address, which asks for
// certificates and takes any.
func (p *processes) serverConfig(t *testing.T, address string) *tls.Config {
	t.Helper()
	serving := p.sign(manifests.ServingAuthority, certs.Leaf{Hosts: []string{address}})
	pair, err := tls.X509KeyPair(serving.CertPEM, serving.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
}
