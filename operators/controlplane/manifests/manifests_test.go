// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"flag"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/golden"
)

var update = flag.Bool("update", false, "write the golden files")

// plane returns one with the defaults that the API server sets.
func plane(change func(*fleetv1alpha1.ControlPlaneSpec)) Plane {
	p := Plane{
		Name: "hub", Namespace: "hub-control-plane",
		Spec: fleetv1alpha1.ControlPlaneSpec{
			Version: "v1.36.3", ImageRegistry: "registry.k8s.io", Replicas: 1,
			Etcd: fleetv1alpha1.ControlPlaneEtcd{Managed: &fleetv1alpha1.ControlPlaneManagedEtcd{
				Replicas: 1, Storage: fleetv1alpha1.ControlPlaneStorage{Size: "8Gi"}, DeletionPolicy: fleetv1alpha1.DeletionPolicyRetain,
			}},
			Service: fleetv1alpha1.ControlPlaneService{Type: corev1.ServiceTypeClusterIP},
		},
		Hashes: map[string]string{Etcd: "hash-of-etcd", APIServer: "hash-of-apiserver", ControllerManager: "hash-of-controller-manager"},
	}
	change(&p.Spec)
	p.Issuer = p.DefaultIssuer()
	p.Endpoint = APIServerEndpoint{Host: p.ServiceHost(), Port: 6443}
	return p
}

func everything(spec *fleetv1alpha1.ControlPlaneSpec) {
	resources := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	*spec = fleetv1alpha1.ControlPlaneSpec{
		Version: "v1.36.3", ImageRegistry: "registry.example.com/k8s", Replicas: 3,
		Images:           fleetv1alpha1.ControlPlaneImages{Etcd: "e:1", APIServer: "a:2", ControllerManager: "c:3"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Etcd: fleetv1alpha1.ControlPlaneEtcd{Managed: &fleetv1alpha1.ControlPlaneManagedEtcd{
			Replicas: 3, Storage: fleetv1alpha1.ControlPlaneStorage{Size: "20Gi", ClassName: ptr.To("fast")}, Resources: resources,
		}},
		APIServer:         fleetv1alpha1.ControlPlaneComponent{Resources: resources},
		ControllerManager: fleetv1alpha1.ControlPlaneComponent{Resources: resources},
		Service: fleetv1alpha1.ControlPlaneService{
			Type: corev1.ServiceTypeLoadBalancer, NodePort: 30443, Annotations: map[string]string{"lb": "internal"},
			LoadBalancerClass: ptr.To("metal"), ExternalNames: []string{"hub.example.com", "192.0.2.7"},
		},
		Audit: &fleetv1alpha1.ControlPlaneAudit{PolicyConfigMap: corev1.LocalObjectReference{Name: "audit"}},
		Placement: fleetv1alpha1.ControlPlanePlacement{
			NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations:  []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: corev1.LabelHostname},
			}}},
		},
		PriorityClassName: "system-cluster-critical",
		NetworkPolicies:   fleetv1alpha1.ControlPlaneNetworkPolicies{Egress: []fleetv1alpha1.ControlPlaneEgress{{CIDR: "192.0.2.10/32", Port: 8443}}},
		KubeconfigSecret:  &fleetv1alpha1.ControlPlaneSecretReference{Namespace: "elsewhere", Name: "admin"},
	}
}

func external(spec *fleetv1alpha1.ControlPlaneSpec) {
	spec.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: &fleetv1alpha1.ControlPlaneExternalEtcd{
		Endpoints: []string{"https://etcd-0.example.com:2379", "https://etcd-1.example.com"},
		SecretRef: fleetv1alpha1.SecretReference{Name: "etcd-credential"}, Prefix: "/hub",
	}}
	spec.Service.Type = corev1.ServiceTypeNodePort
	spec.Encryption.Enabled = ptr.To(false)
}

func objectsOf(t *testing.T, p Plane) []render.Object {
	t.Helper()
	config, err := ControllerManagerConfig(p)
	expect.NoError(t, err)
	inHub, err := HubObjects(p, []byte("bundle"))
	expect.NoError(t, err)
	kubeconfig, err := KubeconfigSecret(p, []byte("bundle"), &certs.CertificatePair{CertPEM: []byte("certificate"), KeyPEM: []byte("key")})
	expect.NoError(t, err)
	var objects []render.Object
	if p.HasManagedEtcd() {
		objects = append(objects, EtcdService(p), EtcdStatefulSet(p))
	}
	objects = append(objects, APIServerConfig(p), APIServerService(p), APIServerDeployment(p), config, ControllerManagerDeployment(p))
	objects = append(objects, DisruptionBudgets(p)...)
	objects = append(objects, ComponentNetworkPolicies(p)...)
	return append(append(objects, inHub...), kubeconfig)
}

func TestRenderedManifestsAreAsInTheGoldenFiles(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		change func(*fleetv1alpha1.ControlPlaneSpec)
	}{
		"default":  {"one of each", func(*fleetv1alpha1.ControlPlaneSpec) {}},
		"all":      {"each option shows where it should", everything},
		"external": {"no etcd is installed, and none of its certificates", external},
	} {
		t.Run(name, func(t *testing.T) {
			golden.CompareFile(t, filepath.Join("testdata", name+".golden.yaml"), test.reason, golden.YAMLDocuments(t, objectsOf(t, plane(test.change))), *update)
		})
	}
}

func TestARestoringPodIsAsRestrictedAsAMember(t *testing.T) {
	p := plane(everything)
	objects := []render.Object{RestorePod(p, 1, Restoration{Image: "capstan", Size: 42, SHA256: "abc", Bump: 1000, Again: true})}
	for _, claim := range DataClaims(p) {
		objects = append(objects, claim)
	}
	golden.CompareFile(t, filepath.Join("testdata", "restore.golden.yaml"), "it takes the place of a member", golden.YAMLDocuments(t, objects), *update)
}

// TestNoPodCanDoMoreThanItNeeds looks at the pods as an attacker does.
func TestNoPodCanDoMoreThanItNeeds(t *testing.T) {
	p := plane(everything)
	for _, object := range append(objectsOf(t, p), RestorePod(p, 0, Restoration{})) {
		u, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		if !slices.Contains([]string{"Deployment", "StatefulSet", "Pod"}, u.GetKind()) {
			continue
		}
		encoded, err := yaml.Marshal(u.Object)
		expect.NoError(t, err)
		for _, want := range []string{
			"automountServiceAccountToken: false", "readOnlyRootFilesystem: true", "runAsNonRoot: true", "allowPrivilegeEscalation: false",
			"type: RuntimeDefault", "- ALL\n",
		} {
			if !strings.Contains(string(encoded), want) {
				t.Errorf("%s %s lacks %q", u.GetKind(), u.GetName(), want)
			}
		}
		for _, bad := range []string{"hostPath", "hostNetwork", "serviceAccountName", "serviceAccountToken"} {
			if strings.Contains(string(encoded), bad) {
				t.Errorf("%s %s has %s", u.GetKind(), u.GetName(), bad)
			}
		}
	}
}

func TestCertificatesHaveAllNamesOfTheAPIServer(t *testing.T) {
	p := plane(everything)
	p.ClusterIP, p.Endpoint = "10.0.0.7", APIServerEndpoint{Host: "lb.example.com", Port: 6443}
	hosts := p.Authorities()[ServingAuthority][0].Hosts
	for _, want := range []string{"hub-apiserver.hub-control-plane.svc", "lb.example.com", "hub.example.com", "192.0.2.7", "10.0.0.7", "localhost"} {
		if !slices.Contains(hosts, want) {
			t.Errorf("the certificate is not for %s: %v", want, hosts)
		}
	}
	addresses := slices.IndexFunc(hosts, func(h string) bool { return net.ParseIP(h) != nil })
	if slices.ContainsFunc(hosts[addresses:], func(h string) bool { return net.ParseIP(h) == nil }) {
		t.Errorf("names stand behind addresses, so no certificate ever fits: %v", hosts)
	}
}

func TestWhatWasEncryptedCanBeReadAfterItWasTurnedOff(t *testing.T) {
	keys := []EncryptionKey{{Name: "key2", Secret: []byte("b")}, {Name: "key1", Secret: []byte("a")}}
	order := func(p Plane) string {
		text := string(EncryptionConfiguration(p, keys)[encryptionKey])
		var found []string
		for line := range strings.Lines(text) {
			for _, what := range []string{"identity", "key1", "key2"} {
				if strings.Contains(line, what) {
					found = append(found, what)
				}
			}
		}
		return strings.Join(found, ",")
	}
	if got := order(plane(func(*fleetv1alpha1.ControlPlaneSpec) {})); got != "key2,key1,identity" {
		t.Errorf("with encryption: %s", got)
	}
	if got := order(plane(external)); got != "identity,key2,key1" {
		t.Errorf("without encryption: %s", got)
	}
}
