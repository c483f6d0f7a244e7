// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
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
	// patience is how long the suite waits for what takes a moment.
	patience = 2 * time.Minute
	// lookAgain is the time between two looks.
	lookAgain = 100 * time.Millisecond
	// fieldOwner owns what the administrators of the suite apply.
	fieldOwner = "administrator"
)

// controllers are those of Kubernetes that the suite needs: what they do is a
// part of what users see.
const controllers = "certificatesigningrequest-signing-controller,clusterrole-aggregation-controller," +
	"garbage-collector-controller,namespace-controller,serviceaccount-controller"

// cluster is a cluster without nodes, seen by its administrator.
type cluster struct {
	name, dir string
	config    *rest.Config
	client    client.Client
	// door is the only way for everybody but the administrator.
	door *door
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

// startCluster starts a cluster with the definitions, with controllers of Kubernetes in
// addition to those of the suite; it ends with the test.
func startCluster(t testing.TB, dir, name string, definitions []*apiextensionsv1.CustomResourceDefinition, more ...string) *cluster {
	t.Helper()
	return startClusterWith(t, dir, name, definitions, more)
}

// startClusterWith starts one that is changed by the options. Options have files of the
// test, so its API server is not for others.
func startClusterWith(
	t testing.TB, dir, name string, definitions []*apiextensionsv1.CustomResourceDefinition, more []string, options ...func(*envtest.Environment),
) *cluster {
	t.Helper()
	start := servers.Start
	if len(options) > 0 {
		start = env.Start
	}
	environment, config := start(t, append([]func(*envtest.Environment){func(e *envtest.Environment) {
		e.CRDs = definitions
		e.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", serviceRange)
	}}, options...)...)
	c := &cluster{name: name, dir: filepath.Join(dir, name), config: config}
	if err := os.MkdirAll(filepath.Join(c.dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.client, err = client.New(config, client.Options{Scheme: newScheme(t)}); err != nil {
		t.Fatal(err)
	}
	c.door = openDoor(t, config.Host)
	c.startControllers(t, environment, append([]string{controllersOf(t, name)}, more...))
	return c
}

// startControllers starts the controllers of Kubernetes, with a signer that
// the API server trusts.
func (c *cluster) startControllers(t testing.TB, environment *envtest.Environment, controllers []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "signer of " + c.name}, key)
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
		err, os.WriteFile(trusted, append(before, encoded...), 0o600), os.WriteFile(c.path("signer.crt"), encoded, 0o600),
		os.WriteFile(c.path("signer.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encodedKey}), 0o600),
		os.WriteFile(c.path("kubeconfig"), environment.KubeConfig, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	process, err := fleet.Start(t.Context(), c.path("logs"), fleet.Program{
		Name: "kube-controller-manager", Executable: filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + c.path("kubeconfig"), "--controllers=" + strings.Join(controllers, ","), "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=500", "--kube-api-burst=1000",
			"--cluster-signing-cert-file=" + c.path("signer.crt"), "--cluster-signing-key-file=" + c.path("signer.key"),
		},
	})
	if err != nil {
		t.Fatalf("starting the controllers of %s (make envtest-assets lays them out): %v", c.name, err)
	}
	t.Cleanup(process.Stop)
}

func (c *cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// kubeconfig returns one by which a token is used at the door.
func (c *cluster) kubeconfig(token string) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		CurrentContext: c.name,
		Contexts:       map[string]*clientcmdapi.Context{c.name: {Cluster: c.name, AuthInfo: c.name}},
		Clusters:       map[string]*clientcmdapi.Cluster{c.name: {Server: c.door.url(), CertificateAuthorityData: c.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{c.name: {Token: token}},
	})
}

// apply applies the documents of a YAML text.
func (c *cluster) apply(t testing.TB, text string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)+1)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if err != nil && err.Error() == "EOF" {
			return
		}
		if err != nil {
			t.Fatalf("reading what to apply to %s: %v", c.name, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		c.applyObject(t, object)
	}
}

// applyObject applies an object, as soon as its kind is served.
func (c *cluster) applyObject(t testing.TB, object *unstructured.Unstructured) {
	t.Helper()
	eventually(t, fmt.Sprintf("applying %s %s to %s", object.GetKind(), object.GetName(), c.name), func() error {
		return c.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
			client.FieldOwner(fieldOwner), client.ForceOwnership)
	})
}

// eventually waits until the check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %s: %s: %v", patience, what, err)
		case <-t.Context().Done():
			t.Fatalf("cut off: %s: %v", what, err)
		}
	}
}
