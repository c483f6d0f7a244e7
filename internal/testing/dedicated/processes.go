// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dedicated runs the programs of a dedicated hub without pods: etcd and the API server of a
// ControlPlane, with the commands and files of its pods.
package dedicated

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
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
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/ports"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	// startPatience only decides how long a failure takes.
	startPatience = 2 * time.Minute
	// requestTimeout ends a request that nobody answers.
	requestTimeout     = 10 * time.Second
	encryptionKeyBytes = 32
	// operator is who makes the first objects of the hub.
	operator = "capstan:control-plane-operator"

	// ClusterInfo is the path of what anybody may read.
	ClusterInfo = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
)

// Processes are etcd and the API server of a ControlPlane as its pods run them:
// with their commands, and the files of their Secrets and ConfigMaps. Only
// addresses are different, as there are no Services.
type Processes struct {
	T     testing.TB
	Plane manifests.Plane
	dir   string
	// data is that of Secrets and ConfigMaps by name.
	data        map[string]map[string][]byte
	Authorities map[string]*certs.CertificatePair
	// ports by those that the pods have.
	Ports map[int]int
}

// StartProcesses starts etcd, which stores so many bytes, and the API server. They end with the test.
func StartProcesses(t testing.TB, quota int) *Processes {
	t.Helper()
	env.Need(t)
	p := &Processes{
		T: t, dir: t.TempDir(), Plane: manifests.Plane{Name: "hub", Namespace: "hub-control-plane"},
		data: map[string]map[string][]byte{}, Authorities: map[string]*certs.CertificatePair{}, Ports: map[int]int{},
	}
	p.Plane.Spec.Replicas = 1
	p.Plane.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 1, Storage: fleetv1alpha1.ControlPlaneStorage{Size: "1Gi"}}
	p.Plane.Issuer = p.Plane.DefaultIssuer()
	for _, port := range []int{2379, 2380, 2381, fleetv1alpha1.ControlPlanePort} {
		p.Ports[port] = ports.FreePort(t)
	}
	p.fillFiles()
	p.runContainer(manifests.EtcdStatefulSet(p.Plane), fmt.Sprintf("--quota-backend-bytes=%d", quota))
	p.runContainer(manifests.APIServerDeployment(p.Plane), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1")
	expect.EventuallyWithin(p.T, startPatience, "the API server is ready", func() error {
		if got := p.SendRequest(Request{Port: fleetv1alpha1.ControlPlanePort, Path: "/readyz"}); got.Status != http.StatusOK {
			return fmt.Errorf("it says %+v", got)
		}
		return nil
	})
	return p
}

// fillFiles makes what the operator makes for the pods to read.
func (p *Processes) fillFiles() {
	p.T.Helper()
	now := time.Now()
	for authority, leaves := range p.Plane.Authorities() {
		signer, err := certs.NewAuthority(authority, now)
		expect.NoError(p.T, err)
		p.Authorities[authority] = signer
		p.data[p.Plane.ResourceName(authority)] = map[string][]byte{certs.BundleKey: signer.CertPEM}
		for _, leaf := range leaves {
			pair := p.SignLeaf(authority, leaf)
			p.data[leaf.Secret] = map[string][]byte{corev1.TLSCertKey: pair.CertPEM, corev1.TLSPrivateKeyKey: pair.KeyPEM}
		}
	}
	private, public, err := certs.NewSigningKey()
	expect.NoError(p.T, err)
	p.data[p.Plane.ServiceAccountSecret()] = map[string][]byte{manifests.ServiceAccountKey: private, manifests.ServiceAccountPublicKeys: public}
	p.data[p.Plane.EncryptionSecret()] = manifests.EncryptionConfiguration(p.Plane, []manifests.EncryptionKey{
		{Name: "key1", Secret: bytes.Repeat([]byte{1}, encryptionKeyBytes)},
	})
	config, err := render.ToUnstructured(manifests.APIServerConfig(p.Plane))
	expect.NoError(p.T, err)
	files := map[string][]byte{}
	for key, text := range config.Object["data"].(map[string]any) { //nolint:forcetypeassert // of a ConfigMap
		files[key] = []byte(text.(string)) //nolint:forcetypeassert // of a ConfigMap
	}
	p.data[config.GetName()] = files
}

// SignLeaf makes a certificate of an authority.
func (p *Processes) SignLeaf(authority string, leaf certs.Leaf) *certs.CertificatePair {
	p.T.Helper()
	pair, err := certs.NewLeaf(p.Authorities[authority], leaf, time.Now())
	expect.NoError(p.T, err)
	return pair
}

// runContainer starts the container of a workload as a process, until the test ends.
func (p *Processes) runContainer(workload render.Object, more ...string) {
	p.T.Helper()
	u, err := render.ToUnstructured(workload)
	expect.NoError(p.T, err)
	template := struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &template); err != nil {
		p.T.Fatal(err)
	}
	pod := template.Spec.Template.Spec
	container := pod.Containers[0]
	p.mountVolumes(pod, container)
	replace := []string{
		"/etc/capstan", p.dir + "/etc/capstan", "/var/lib/etcd", p.dir, "0.0.0.0", "127.0.0.1",
		"$(POD_NAME).hub-etcd.hub-control-plane.svc", "localhost", "hub-etcd-0.hub-etcd.hub-control-plane.svc", "localhost", "$(POD_NAME)", "hub-etcd-0",
	}
	for of, port := range p.Ports {
		replace = append(replace, fmt.Sprintf(":%d", of), fmt.Sprintf(":%d", port), fmt.Sprintf("port=%d", of), fmt.Sprintf("port=%d", port))
	}
	replacer := strings.NewReplacer(replace...)
	var args []string
	for _, arg := range container.Command[1:] {
		args = append(args, replacer.Replace(arg))
	}
	command := exec.CommandContext(p.T.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), container.Command[0]), append(args, more...)...) //nolint:gosec // who runs tests says where
	log := filepath.Join(p.dir, container.Name+".log")
	output, err := os.Create(log) //nolint:gosec // it is in a folder of the test
	expect.NoError(p.T, err)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() {
		_ = command.Wait() // it is killed with the context
		_ = output.Close()
		if text, err := os.ReadFile(log); p.T.Failed() { //nolint:gosec // as above
			p.T.Logf("the end of what %s says (%v):\n%s", container.Name, err, text[max(0, len(text)-3000):])
		}
	})
}

// mountVolumes writes the files of the volumes.
func (p *Processes) mountVolumes(pod corev1.PodSpec, container corev1.Container) {
	p.T.Helper()
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
			p.T.Fatal(err)
		}
		for file, content := range p.data[sources[mount.Name]] {
			if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
				p.T.Fatal(err)
			}
		}
	}
}

// Request is one to etcd or the API server.
type Request struct {
	// Port is the one that the pods have.
	Port int
	// With is the credential, if there is one.
	With         *certs.CertificatePair
	Method, Path string
	Header       map[string]string
	Body         string
}

// Answer is what came of a request.
type Answer struct {
	Status int
	Body   string
	Err    error
}

// SendRequest sends a request, and returns what comes of it.
func (p *Processes) SendRequest(r Request) Answer {
	p.T.Helper()
	authority := manifests.EtcdAuthority
	if r.Port == fleetv1alpha1.ControlPlanePort {
		authority = manifests.ServingAuthority
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(p.Authorities[authority].Certificate)
	config := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	if r.With != nil {
		pair, err := tls.X509KeyPair(r.With.CertPEM, r.With.KeyPEM)
		expect.NoError(p.T, err)
		// Whatever authorities the server names: an attacker does not care.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(p.T.Context(), requestTimeout)
	defer cancel()
	made, err := http.NewRequestWithContext(ctx, r.Method, fmt.Sprintf("https://localhost:%d%s", p.Ports[r.Port], r.Path), strings.NewReader(r.Body))
	expect.NoError(p.T, err)
	made.Header.Set("Content-Type", "application/json")
	for key, value := range r.Header {
		made.Header.Set(key, value)
	}
	response, err := (&http.Client{Transport: transport}).Do(made)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Body: string(body), Err: err}
}

// AdminClient returns the client of an administrator of the hub, as its kubeconfig has
// it, and lets it be one as the operator does.
func (p *Processes) AdminClient() client.Client {
	p.T.Helper()
	as := func(leaf certs.Leaf) client.Client {
		pair := p.SignLeaf(manifests.ClientAuthority, leaf)
		c, err := client.New(&rest.Config{
			Host: fmt.Sprintf("https://localhost:%d", p.Ports[fleetv1alpha1.ControlPlanePort]),
			TLSClientConfig: rest.TLSClientConfig{
				CAData: p.Authorities[manifests.ServingAuthority].CertPEM, CertData: pair.CertPEM, KeyData: pair.KeyPEM,
			},
		}, client.Options{})
		expect.NoError(p.T, err)
		return c
	}
	owner := as(certs.Leaf{User: operator, Groups: []string{"system:masters"}})
	p.Plane.Endpoint = manifests.APIServerEndpoint{Host: "localhost", Port: fleetv1alpha1.ControlPlanePort}
	objects, err := manifests.HubObjects(p.Plane, p.Authorities[manifests.ServingAuthority].CertPEM)
	expect.NoError(p.T, err)
	expect.EventuallyWithin(p.T, startPatience, "the first objects are there", func() error { // kube-public is made by the API server
		_, err := render.NewApplier(owner, owner, "control-plane").Apply(p.T.Context(), objects...)
		return err
	})
	admin := as(p.AdminLeaf())
	expect.EventuallyWithin(p.T, startPatience, "the API server knows of the bindings", func() error {
		got := p.SendRequest(Request{Port: fleetv1alpha1.ControlPlanePort, Path: ClusterInfo})
		if got.Status != http.StatusOK {
			return fmt.Errorf("it says %+v", got)
		}
		return admin.Get(p.T.Context(), client.ObjectKey{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
	})
	return admin
}

// AdminLeaf is the certificate of the kubeconfig.
func (p *Processes) AdminLeaf() certs.Leaf {
	p.T.Helper()
	leaves := p.Plane.Authorities()[manifests.ClientAuthority]
	n := slices.IndexFunc(leaves, func(leaf certs.Leaf) bool { return leaf.Secret == p.Plane.AdminSecret() })
	if n < 0 {
		p.T.Fatal("there is no certificate of an administrator")
	}
	return leaves[n]
}

// ServerConfig is that of a server of an attacker at the address, which asks for
// certificates and takes any.
func (p *Processes) ServerConfig(address string) *tls.Config {
	p.T.Helper()
	serving := p.SignLeaf(manifests.ServingAuthority, certs.Leaf{Hosts: []string{address}})
	pair, err := tls.X509KeyPair(serving.CertPEM, serving.KeyPEM)
	expect.NoError(p.T, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
}
