// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// Patience is how long the suite waits for what takes a moment.
	Patience = 2 * time.Minute
	// LookAgain is the time between two looks.
	LookAgain = 100 * time.Millisecond
	// FieldOwner owns what the administrators of the suite apply.
	FieldOwner = "administrator"
)

// controllers are those of Kubernetes that the suite needs: what they do is a
// part of what users see.
const controllers = "certificatesigningrequest-signing-controller,clusterrole-aggregation-controller," +
	"garbage-collector-controller,namespace-controller,serviceaccount-controller"

// Cluster is a cluster without nodes, seen by its administrator.
type Cluster struct {
	Name, dir string
	Config    *rest.Config
	Client    client.Client
	// Door is the only way for everybody but the administrator.
	Door *door
}

// newScheme has the kinds that the suite handles.
func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, clusterv1alpha1.AddToScheme,
		clusterv1beta1.AddToScheme, clusterv1beta2.AddToScheme, fleetv1alpha1.AddToScheme, karmadav1alpha1.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme, workv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Setting is where a suite starts its clusters.
type Setting struct {
	Servers *env.Servers
	// Dir is where each cluster has a folder, and Programs where the executables are, under
	// all their names.
	Dir, Programs string
	// Dedicated says that the hub is a dedicated one.
	Dedicated bool
}

// StartCluster starts a cluster with the definitions, with controllers of Kubernetes in
// addition to those of the suite; it ends with the test.
func StartCluster(t testing.TB, at Setting, name string, definitions []*apiextensionsv1.CustomResourceDefinition, more ...string) *Cluster {
	t.Helper()
	return startClusterWith(t, at, name, definitions, more)
}

// startClusterWith starts one that is changed by the options. Options have files of the
// test, so its API server is not for others.
func startClusterWith(
	t testing.TB, at Setting, name string, definitions []*apiextensionsv1.CustomResourceDefinition, more []string, options ...func(*envtest.Environment),
) *Cluster {
	t.Helper()
	start := at.Servers.Start
	if len(options) > 0 {
		start = env.Start
	}
	environment, config := start(t, append([]func(*envtest.Environment){func(e *envtest.Environment) {
		e.CRDs = definitions
		e.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", serviceRange)
	}}, options...)...)
	c := &Cluster{Name: name, dir: filepath.Join(at.Dir, name), Config: config}
	if err := os.MkdirAll(filepath.Join(c.dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Client, err = client.New(config, client.Options{Scheme: newScheme(t)}); err != nil {
		t.Fatal(err)
	}
	c.Door = openDoor(t, config.Host)
	c.startControllers(t, environment, append([]string{at.controllersOf(t, name)}, more...))
	return c
}

// startControllers starts the controllers of Kubernetes, with a signer that
// the API server trusts.
func (c *Cluster) startControllers(t testing.TB, environment *envtest.Environment, controllers []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "signer of " + c.Name}, key)
	if err != nil {
		t.Fatal(err)
	}
	encodedKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: authority.Raw})
	trusted := filepath.Join(environment.ControlPlane.APIServer.CertDir, "client-cert-auth-ca.crt")
	before, err := os.ReadFile(trusted)
	if err = errors.Join(
		err, os.WriteFile(trusted, append(before, encoded...), 0o600), os.WriteFile(c.Path("signer.crt"), encoded, 0o600),
		os.WriteFile(c.Path("signer.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encodedKey}), 0o600),
		os.WriteFile(c.Path("kubeconfig"), environment.KubeConfig, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	process, err := fleet.Start(t.Context(), c.Path("logs"), fleet.Program{
		Name: "kube-controller-manager", Executable: filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + c.Path("kubeconfig"), "--controllers=" + strings.Join(controllers, ","), "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=500", "--kube-api-burst=1000",
			"--cluster-signing-cert-file=" + c.Path("signer.crt"), "--cluster-signing-key-file=" + c.Path("signer.key"),
		},
	})
	if err != nil {
		t.Fatalf("starting the controllers of %s (make envtest-assets lays them out): %v", c.Name, err)
	}
	t.Cleanup(process.Stop)
}

// Path returns a path in the folder of the cluster.
func (c *Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// RenderKubeconfig returns one by which a token is used at the door.
func (c *Cluster) RenderKubeconfig(token string) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		CurrentContext: c.Name,
		Contexts:       map[string]*clientcmdapi.Context{c.Name: {Cluster: c.Name, AuthInfo: c.Name}},
		Clusters:       map[string]*clientcmdapi.Cluster{c.Name: {Server: c.Door.url(), CertificateAuthorityData: c.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{c.Name: {Token: token}},
	})
}

// ApplyText applies the documents of a YAML text.
func (c *Cluster) ApplyText(t testing.TB, text string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)+1)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if err != nil && err.Error() == "EOF" {
			return
		}
		if err != nil {
			t.Fatalf("reading what to apply to %s: %v", c.Name, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		c.applyObject(t, object)
	}
}

// applyObject applies an object, as soon as its kind is served.
func (c *Cluster) applyObject(t testing.TB, object *unstructured.Unstructured) {
	t.Helper()
	Eventually(t, fmt.Sprintf("applying %s %s to %s", object.GetKind(), object.GetName(), c.Name), func() error {
		return c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
			client.FieldOwner(FieldOwner), client.ForceOwnership)
	})
}

// Eventually waits until the check returns nil.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	tick := time.NewTicker(LookAgain)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %s: %s: %v", Patience, what, err)
		case <-t.Context().Done():
			t.Fatalf("cut off: %s: %v", what, err)
		}
	}
}

// serviceRange is where the Services of a cluster have their addresses: those of
// this machine, so that the test can stand for the proxies of the nodes.
const serviceRange = "127.77.0.0/24"

// Probe asks as a kubelet does by the chart of OCM.
func Probe(t testing.TB, port int) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s:%d/healthz", localhost, port), http.NoBody)
	if err != nil {
		return err
	}
	kubelet := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := kubelet.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// ApplyFile applies a file of the repository.
func (c *Cluster) ApplyFile(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root, path))
	if err != nil {
		t.Fatal(err)
	}
	c.ApplyText(t, string(text))
}

// Encode returns a value as JSON, for what a test tells.
func Encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
