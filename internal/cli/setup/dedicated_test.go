// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	sigsyaml "sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	clustermanager "github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

func wished(change func(*dedicatedHub)) *dedicatedHub {
	d := &dedicatedHub{name: "hub", serviceType: "NodePort"}
	if change != nil {
		change(d)
	}
	return d
}

// certificate returns one that signs itself, in PEM.
func certificate(t *testing.T, expires time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: expires.Add(-24 * time.Hour), NotAfter: expires}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestWhatMakesNoSenseForADedicatedHubIsRefused(t *testing.T) {
	named := func(name string) func(*dedicatedHub) { return func(d *dedicatedHub) { d.name = name } }
	cases := map[string]struct {
		change func(*dedicatedHub)
		want   string // empty if it makes sense
	}{
		"the defaults":             {nil, ""},
		"the longest name":         {named(strings.Repeat("a", nameMax)), ""},
		"a name that is too long":  {named(strings.Repeat("a", 43)), "has 43 characters, and can have 42 at most"},
		"a name of Kubernetes":     {named("kube-hub"), "has another purpose"},
		"the hub's namespace":      {named("open-cluster-management-hub"), "has another purpose"},
		"capital letters":          {named("Hub"), "lower case letters"},
		"a digit first":            {named("1hub"), "begins with a letter"},
		"etcd without its secret":  {func(d *dedicatedHub) { d.endpoints = []string{"https://e:2379"} }, "belong together"},
		"a secret without an etcd": {func(d *dedicatedHub) { d.etcdSecret = "etcd" }, "belong together"},
		"an etcd and a class": {func(d *dedicatedHub) {
			d.endpoints, d.etcdSecret, d.storageClass = []string{"https://e:2379"}, "etcd", "fast"
		}, "not for --external-etcd"},
		"a type that is none": {func(d *dedicatedHub) { d.serviceType = "ExternalName" }, `unknown type "ExternalName"`},
		"a port of no node":   {func(d *dedicatedHub) { d.serviceType, d.nodePort = "ClusterIP", 30000 }, "needs --service-type NodePort"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := wished(c.change).checkFlags()
			expect(t, err, c.want)
			if err != nil && exit.Code(err) != exit.Usage {
				t.Errorf("exit code %d, want that of usage", exit.Code(err))
			}
		})
	}
}

func TestLabelsOfPodsHaveRoomForTheLongestName(t *testing.T) {
	const labelMax = 63
	d := wished(func(d *dedicatedHub) { d.name = strings.Repeat("a", nameMax) })
	spec, err := d.hostedHubSpec(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, component := range clustermanager.HubComponents(clustermanager.Hub{Name: d.name, Spec: spec}) {
		longest = max(longest, len(component.Workload.App))
	}
	if longest != labelMax {
		t.Errorf("the longest label has %d characters, and can have %d", longest, labelMax)
	}
	if place := d.controlPlaneKey().Namespace; len(place) > labelMax {
		t.Errorf("the name of namespace %q has %d characters", place, len(place))
	}
}

func TestAControlPlaneKeepsWhatIsNotGivenAgain(t *testing.T) {
	given := func(flags ...string) func(string) bool {
		return func(name string) bool { return strings.Contains(strings.Join(flags, " "), name) }
	}
	first := wished(func(d *dedicatedHub) { d.replicas, d.storageClass, d.nodePort = 3, "fast", 30000 }).controlPlane(nil, given())
	want := fleetv1alpha1.ControlPlaneSpec{
		Replicas: 3,
		Service:  fleetv1alpha1.ControlPlaneService{Type: "NodePort", NodePort: 30000},
		Etcd:     fleetv1alpha1.ControlPlaneEtcd{Managed: &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 3}},
	}
	class := "fast"
	want.Etcd.Managed.Storage.ClassName = &class
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("a new one (-want +got):\n%s", diff)
	}
	live := &fleetv1alpha1.ControlPlane{Spec: first}
	if diff := cmp.Diff(want, wished(nil).controlPlane(live, given())); diff != "" {
		t.Errorf("nothing is given again (-want +got):\n%s", diff)
	}
	want.Replicas, want.Service.Type, want.Version = 5, "LoadBalancer", "v1.37.0"
	again := wished(func(d *dedicatedHub) { d.replicas, d.serviceType, d.version = 5, "LoadBalancer", "v1.37.0" })
	if diff := cmp.Diff(want, again.controlPlane(live, given("service-type"))); diff != "" {
		t.Errorf("something is given (-want +got):\n%s", diff)
	}
	elsewhere := wished(func(d *dedicatedHub) { d.endpoints, d.etcdSecret = []string{"https://e:2379"}, "etcd" }).controlPlane(nil, given())
	if e := elsewhere.Etcd; e.Managed != nil || e.External == nil || e.External.SecretRef.Name != "etcd" {
		t.Errorf("an etcd elsewhere is %+v", e)
	}
}

func TestTheHubOfAControlPlaneIsHosted(t *testing.T) {
	d := wished(nil)
	spec, err := d.hostedHubSpec([]string{"StrictBootstrap=true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	hosted := spec.DeployOption.Hosted
	if spec.DeployOption.Mode != operatorv1.InstallModeHosted || hosted.WorkWebhookConfiguration.Address != "work-webhook.hub.svc" {
		t.Errorf("the hub is made by %+v", spec.DeployOption)
	}
	want := []operatorv1.FeatureGate{{Feature: "AggregatedAPI", Mode: "Enable"}, {Feature: "StrictBootstrap", Mode: "Enable"}}
	if diff := cmp.Diff(want, spec.RegistrationConfiguration.FeatureGates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	for _, gate := range []string{"Propagation", "NamespaceSyncAll", "KarmadaEvents"} {
		if on := (operatorv1.FeatureGate{Feature: gate, Mode: "Enable"}); spec.PlacementConfiguration == nil || !slices.Contains(spec.PlacementConfiguration.FeatureGates, on) {
			t.Errorf("placement is %+v, want the gate %s on", spec.PlacementConfiguration, gate)
		}
	}
	if spec, err = d.hostedHubSpec([]string{"AggregatedAPI=false"}, nil); err != nil || spec.RegistrationConfiguration.FeatureGates[0].Mode != operatorv1.FeatureGateModeDisable {
		t.Errorf("a gate that was turned off is on (%v)", err)
	}
}

func TestHostsThatCannotHaveTheHubSaySo(t *testing.T) {
	labelled := func(name, key, value string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}}
	}
	class := func(name, isDefault string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultClass: isDefault}}}
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{NodePort: 30000}}},
	}
	standard := class("standard", "true")
	port := func(d *dedicatedHub) { d.nodePort = 30000 }
	version := func(v string) func(*dedicatedHub) { return func(d *dedicatedHub) { d.version = v } }
	cases := map[string]struct {
		change func(*dedicatedHub)
		there  []client.Object
		hubs   []operatorv1.ClusterManager
		// present is the version of the control plane that is there.
		present string
		want    string // empty if the hub can be made
	}{
		"a host with storage":        {there: []client.Object{standard}},
		"an earlier try was stopped": {there: []client.Object{standard, labelled("hub", operatorv1.LabelOperatedBy, "cluster-manager")}},
		"another hosted hub":         {there: []client.Object{standard}, hubs: []operatorv1.ClusterManager{hubNamed("other", "Hosted")}},
		"no storage":                 {want: "there is no default StorageClass, and no other one"},
		"no default":                 {there: []client.Object{class("slow", "false")}, want: "there is no default StorageClass; there is: slow"},
		"a class that is not there":  {change: func(d *dedicatedHub) { d.storageClass = "fast" }, there: []client.Object{standard}, want: `no StorageClass "fast"; there is: standard`},
		"a namespace of its name":    {there: []client.Object{standard, labelled("hub", "a", "b")}, want: `namespace "hub" already exists`},
		"that of its control plane":  {there: []client.Object{standard, labelled("hub-control-plane", "a", "b")}, want: `namespace "hub-control-plane" already exists`},
		"it is a hub of this name":   {there: []client.Object{standard}, hubs: []operatorv1.ClusterManager{hubNamed("hub", "Default")}, want: "makes the host itself a hub"},
		"too new a Kubernetes":       {change: version("v1.37.2"), present: "v1.35.4", want: "--kubernetes-version: v1.37.2 is more than one minor version after v1.35.4: upgrade to v1.36 first"},
		"an older Kubernetes":        {change: version("v1.35.4"), present: "v1.36.3", want: "v1.35.4 is an older minor version than v1.36.3"},
		"the next Kubernetes":        {change: version("v1.36.3"), present: "v1.35.4"},
		"a port that is taken":       {change: port, there: []client.Object{standard, service}, want: `port 30000 is taken by Service "shop/web"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := hostState{
				hub:          operatorSituation{operator: install.ClusterManagerOperator(), hubs: c.hubs},
				controlPlane: operatorSituation{operator: install.ControlPlaneOperator()},
			}
			if c.present != "" {
				found.live = &fleetv1alpha1.ControlPlane{Status: fleetv1alpha1.ControlPlaneStatus{Version: c.present}}
			}
			stored := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(c.there...).Build()
			expect(t, wished(c.change).checkHost(t.Context(), stored, found, false), c.want)
		})
	}
}

func TestTheCredentialOfAnEtcdElsewhereIsLookedAt(t *testing.T) {
	valid, expired := certificate(t, time.Now().Add(time.Hour)), certificate(t, time.Now().Add(-time.Hour))
	secret := func(data map[string][]byte) runtime.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hub-control-plane", Name: "etcd"}, Data: data}
	}
	files := func(certificate []byte) map[string][]byte {
		return map[string][]byte{"ca.crt": []byte("ca"), "tls.crt": certificate, "tls.key": []byte("key")}
	}
	for name, c := range map[string]struct {
		there []runtime.Object
		want  string
	}{
		"usable":         {[]runtime.Object{secret(files(valid))}, ""},
		"missing":        {nil, "kubectl -n hub-control-plane create secret generic etcd"},
		"without a key":  {[]runtime.Object{secret(map[string][]byte{"ca.crt": []byte("ca")})}, "has no key tls.crt"},
		"no certificate": {[]runtime.Object{secret(files([]byte("x")))}, "has no certificate"},
		"expired":        {[]runtime.Object{secret(files(expired))}, "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			stored := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithRuntimeObjects(c.there...).Build()
			d := wished(func(d *dedicatedHub) { d.endpoints, d.etcdSecret = []string{"https://e:2379"}, "etcd" })
			expect(t, d.credentialUsable(t.Context(), stored), c.want)
		})
	}
}

// endpoint is where the hub of the tests of contexts is.
const endpoint = "https://192.0.2.7:30000"

// kubeconfig returns one with a context, a cluster and a user of the name.
func kubeconfig(t *testing.T, name, server string) clientcmdapi.Config {
	t.Helper()
	config := *clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: []byte("ca")}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate(t, time.Now().Add(time.Hour))}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return config
}

// writtenContext returns the context of the hub after it was written into a
// kubeconfig with that of the host, twice: the second time renews it.
func writtenContext(t *testing.T) (hubContext, func() *clientcmdapi.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfig(t, "host", "https://host:6443"), file); err != nil {
		t.Fatal(err)
	}
	content, err := clientcmd.Write(kubeconfig(t, "administrator", "https://hub-apiserver.hub-control-plane.svc:6443"))
	if err != nil {
		t.Fatal(err)
	}
	h := hubContext{files: &clientcmd.PathOptions{GlobalFile: file, LoadingRules: &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}}, name: "hub"}
	for range 2 {
		expect(t, h.checkNameFree(endpoint), "")
		if expires, err := h.writeContext(endpoint, content); err != nil || time.Until(expires) > time.Hour {
			t.Fatalf("written until %s: %v", expires, err)
		}
	}
	return h, func() *clientcmdapi.Config {
		config, err := clientcmd.LoadFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
}

func TestTheContextOfAHubIsWrittenBesideTheOthers(t *testing.T) {
	h, read := writtenContext(t)
	config := read()
	if c := config.Clusters["hub"]; config.CurrentContext != "host" || c == nil || c.Server != endpoint || string(c.CertificateAuthorityData) != "ca" {
		t.Errorf("the kubeconfig has the current context %q and the cluster %+v", config.CurrentContext, c)
	}
	expect(t, h.checkNameFree("https://192.0.2.8:30000"), "has a cluster \"hub\" already, at "+endpoint)
	expect(t, hubContext{files: h.files, name: "host"}.checkNameFree(""), "has a cluster \"host\" already")
}

func TestTheContextOfAHubIsRemovedAlone(t *testing.T) {
	h, read := writtenContext(t)
	if removed, err := h.removeContext("https://192.0.2.8:30000"); removed || err != nil {
		t.Errorf("the context of another hub is removed: %t, %v", removed, err)
	}
	if removed, err := h.removeContext(endpoint); !removed || err != nil {
		t.Errorf("the context is removed: %t, %v", removed, err)
	}
	if config := read(); len(config.Contexts) != 1 || len(config.Clusters) != 1 || len(config.AuthInfos) != 1 {
		t.Errorf("left is %+v", config)
	}
}

// TestTheSampleIsWhatCapstanMakes compares what make applies with what capstan
// does. The sample spells out what the control plane has by default.
func TestTheSampleIsWhatCapstanMakes(t *testing.T) {
	d := wished(nil)
	spec, err := d.hostedHubSpec(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := d.renderObjects(operatorOptions{}, d.controlPlane(nil, func(string) bool { return false }), spec)
	if err != nil {
		t.Fatal(err)
	}
	sample := sampleObjects(t, "../../../config/samples/dedicated-hub")
	for _, object := range append(made.controlPlane, made.hub...) {
		labels := object.GetLabels()
		delete(labels, operatorv1.LabelPartOf)
		if object.SetLabels(labels); len(labels) == 0 {
			object.SetLabels(nil)
		}
		key := object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
		want := sample[key]
		delete(sample, key)
		if object.GetKind() == "ControlPlane" {
			continue
		}
		if diff := cmp.Diff(want, object.Object); diff != "" {
			t.Errorf("%s (-sample +capstan):\n%s", key, diff)
		}
	}
	if len(sample) > 0 {
		t.Errorf("capstan does not make %v", slices.Sorted(maps.Keys(sample)))
	}
}

// sampleObjects returns the objects in a directory by kind, namespace and name.
func sampleObjects(t *testing.T, directory string) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(directory + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", directory, err)
	}
	objects := map[string]map[string]any{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			object := &unstructured.Unstructured{}
			content, err := sigsyaml.YAMLToJSON([]byte(document))
			if err = errors.Join(err, object.UnmarshalJSON(content)); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object.GetKind() != "Kustomization" {
				objects[object.GetKind()+"/"+object.GetNamespace()+"/"+object.GetName()] = object.Object
			}
		}
	}
	return objects
}

func TestDataAreDeletedOnlyIfThatIsWanted(t *testing.T) {
	managed := func(policy string) *fleetv1alpha1.ControlPlane {
		return &fleetv1alpha1.ControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: "hub-control-plane", Name: "hub"},
			Spec: fleetv1alpha1.ControlPlaneSpec{Etcd: fleetv1alpha1.ControlPlaneEtcd{
				Managed: &fleetv1alpha1.ControlPlaneManagedEtcd{DeletionPolicy: fleetv1alpha1.DeletionPolicy(policy)},
			}},
		}
	}
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		policy string
		delete bool
		want   string
	}{{"Retain", false, "Retain"}, {"Retain", true, "Delete"}, {"Delete", true, "Delete"}, {"Delete", false, "Retain"}} {
		live := managed(c.policy)
		stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).Build()
		if set := (&cleanCommand{deleteData: c.delete}).setDeletionPolicy(&clusterSite{write: stored}, live); set != nil {
			if err := set(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}
		got := &fleetv1alpha1.ControlPlane{}
		if err := stored.Get(t.Context(), client.ObjectKeyFromObject(live), got); err != nil || string(got.Spec.Etcd.Managed.DeletionPolicy) != c.want {
			t.Errorf("%s, and data are deleted %t: it is %q (%v), want %s", c.policy, c.delete, got.Spec.Etcd.Managed.DeletionPolicy, err, c.want)
		}
	}
	external := managed("Retain")
	external.Spec.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: &fleetv1alpha1.ControlPlaneExternalEtcd{}}
	if (&cleanCommand{deleteData: true}).setDeletionPolicy(&clusterSite{}, external) != nil {
		t.Error("an etcd of somebody else gets a deletion policy")
	}
}
