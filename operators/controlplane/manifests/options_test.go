// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// option is a field of the spec and what it makes of what is installed.
type option struct {
	change func(*fleetv1alpha1.ControlPlaneSpec)
	// objects are those that show it at the path, with the text somewhere there.
	objects []string
	path    string
	want    string
}

const (
	etcdObject, serverObject, managerObject = "StatefulSet hub-etcd", "Deployment hub-apiserver", "Deployment hub-controller-manager"

	podPath, containerPath = "{.spec.template.spec", "{.spec.template.spec.containers[0]"
)

// TestEachOptionIsWhereItBelongs looks for what an option makes, which must not be
// there without it.
func TestEachOptionIsWhereItBelongs(t *testing.T) {
	type spec = fleetv1alpha1.ControlPlaneSpec
	var (
		all       = []string{etcdObject, serverObject, managerObject}
		service   = []string{"Service hub-apiserver"}
		policy    = []string{"NetworkPolicy hub-apiserver"}
		resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}
	)
	external := func(s *spec, change func(*fleetv1alpha1.ControlPlaneExternalEtcd)) {
		e := &fleetv1alpha1.ControlPlaneExternalEtcd{
			Endpoints: []string{"https://e"}, SecretRef: fleetv1alpha1.SecretReference{Name: "s"}, Prefix: "/registry",
		}
		change(e)
		s.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: e}
	}
	options := map[string]option{
		"Version": {
			func(s *spec) { s.Version = "v1.35.2" },
			[]string{serverObject, managerObject},
			containerPath + ".image}", ":v1.35.2",
		},
		"ImageRegistry":    {func(s *spec) { s.ImageRegistry = "example.com" }, all, containerPath + ".image}", "example.com/"},
		"EtcdImage":        {func(s *spec) { s.Images.Etcd = "e:1" }, []string{etcdObject}, containerPath + ".image}", "e:1"},
		"ServerImage":      {func(s *spec) { s.Images.APIServer = "a:1" }, []string{serverObject}, containerPath + ".image}", "a:1"},
		"ManagerImage":     {func(s *spec) { s.Images.ControllerManager = "c:1" }, []string{managerObject}, containerPath + ".image}", "c:1"},
		"ImagePullSecrets": {func(s *spec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} }, all, podPath + ".imagePullSecrets}", "pull"},
		"Replicas":         {func(s *spec) { s.Replicas = 3 }, []string{serverObject, managerObject}, "{.spec.replicas}", "3"},
		"Members":          {func(s *spec) { s.Etcd.Managed.Replicas = 3 }, []string{etcdObject}, "{.spec.replicas}", "3"},
		"EtcdResources":    {func(s *spec) { s.Etcd.Managed.Resources = resources }, []string{etcdObject}, containerPath + ".resources}", "3Gi"},
		"ServerResources":  {func(s *spec) { s.APIServer.Resources = resources }, []string{serverObject}, containerPath + ".resources}", "3Gi"},
		"ManagerResources": {func(s *spec) { s.ControllerManager.Resources = resources }, []string{managerObject}, containerPath + ".resources}", "3Gi"},
		"StorageSize":      {func(s *spec) { s.Etcd.Managed.Storage.Size = "20Gi" }, []string{etcdObject}, "{.spec.volumeClaimTemplates[0].spec.resources}", "20Gi"},
		"StorageClass": {
			func(s *spec) { s.Etcd.Managed.Storage.ClassName = ptr.To("fast") },
			[]string{etcdObject},
			"{.spec.volumeClaimTemplates[0].spec.storageClassName}", "fast",
		},
		"ExternalEndpoints": {
			func(s *spec) {
				external(s, func(e *fleetv1alpha1.ControlPlaneExternalEtcd) { e.Endpoints = []string{"https://a:1", "https://b:2"} })
			},
			[]string{serverObject},
			containerPath + ".command}", "--etcd-servers=https://a:1,https://b:2",
		},
		"ExternalCredential": {
			func(s *spec) {
				external(s, func(e *fleetv1alpha1.ControlPlaneExternalEtcd) { e.SecretRef.Name = "theirs" })
			},
			[]string{serverObject},
			podPath + ".volumes[*].secret.secretName}", "theirs",
		},
		"ExternalPrefix": {
			func(s *spec) { external(s, func(e *fleetv1alpha1.ControlPlaneExternalEtcd) { e.Prefix = "/hub" }) },
			[]string{serverObject},
			containerPath + ".command}", "--etcd-prefix=/hub",
		},
		"ServiceType":        {func(s *spec) { s.Service.Type = corev1.ServiceTypeNodePort }, service, "{.spec.type}", "NodePort"},
		"NodePort":           {func(s *spec) { s.Service.NodePort = 30443 }, service, "{.spec.ports[0].nodePort}", "30443"},
		"ServiceAnnotations": {func(s *spec) { s.Service.Annotations = map[string]string{"lb": "inside"} }, service, "{.metadata.annotations}", "inside"},
		"LoadBalancerClass": {
			func(s *spec) {
				s.Service.Type, s.Service.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, ptr.To("metal")
			},
			service, "{.spec.loadBalancerClass}", "metal",
		},
		"Audit": {
			func(s *spec) {
				s.Audit = &fleetv1alpha1.ControlPlaneAudit{PolicyConfigMap: corev1.LocalObjectReference{Name: "rules"}}
			},
			[]string{serverObject},
			podPath + ".volumes[*].configMap.name}", "rules",
		},
		"NodeSelector": {func(s *spec) { s.Placement.NodeSelector = map[string]string{"disk": "ssd"} }, all, podPath + ".nodeSelector}", "ssd"},
		"Tolerations":  {func(s *spec) { s.Placement.Tolerations = []corev1.Toleration{{Key: "dedicated"}} }, all, podPath + ".tolerations}", "dedicated"},
		"Affinity": {
			func(s *spec) {
				s.Placement.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "rack"}},
				}}
			},
			all, podPath + ".affinity}", "rack",
		},
		"PriorityClassName": {func(s *spec) { s.PriorityClassName = "urgent" }, all, podPath + ".priorityClassName}", "urgent"},
		"EgressCIDR": {
			func(s *spec) {
				s.NetworkPolicies.Egress = []fleetv1alpha1.ControlPlaneEgress{{CIDR: "192.0.2.10/32", Port: 4443}}
			},
			policy, "{.spec.egress[*].to[*].ipBlock.cidr}", "192.0.2.10/32",
		},
		"EgressPort": {
			func(s *spec) {
				s.NetworkPolicies.Egress = []fleetv1alpha1.ControlPlaneEgress{{CIDR: "192.0.2.10/32", Port: 4443}}
			},
			policy, "{.spec.egress[*].ports[*].port}", "4443",
		},
		"KubeconfigSecret": {
			func(s *spec) {
				s.KubeconfigSecret = &fleetv1alpha1.ControlPlaneSecretReference{Namespace: "elsewhere", Name: "admin"}
			},
			[]string{"Secret admin"},
			"{.metadata.namespace}", "elsewhere",
		},
		"KubeconfigNamespace": { // where the hub's webhooks are, which the API server has to reach
			func(s *spec) {
				s.KubeconfigSecret = &fleetv1alpha1.ControlPlaneSecretReference{Namespace: "elsewhere", Name: "admin"}
			},
			policy, "{.spec.egress[*].to[*].namespaceSelector}", "elsewhere",
		},
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			with, without := textsAt(t, plane(o.change), o.path), textsAt(t, plane(func(*fleetv1alpha1.ControlPlaneSpec) {}), o.path)
			for _, object := range o.objects {
				if !strings.Contains(with[object], o.want) {
					t.Errorf("%s has %q at %s, which lacks %q", object, with[object], o.path, o.want)
				}
				if strings.Contains(without[object], o.want) {
					t.Errorf("%s has %q at %s even without the option", object, without[object], o.path)
				}
			}
		})
	}
}

// textsAt returns what is at the path, by object.
func textsAt(t *testing.T, p Plane, path string) map[string]string {
	t.Helper()
	parsed := jsonpath.New("path").AllowMissingKeys(true)
	expect.NoError(t, parsed.Parse(path))
	texts := map[string]string{}
	for _, object := range objectsOf(t, p) {
		u, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		var text strings.Builder
		expect.NoError(t, parsed.Execute(&text, u.Object))
		texts[u.GetKind()+" "+u.GetName()] = text.String()
	}
	return texts
}

func TestNetworkPoliciesAreThereUnlessTheyAreTurnedOff(t *testing.T) {
	if !NetworkPoliciesEnabled(plane(func(*fleetv1alpha1.ControlPlaneSpec) {})) {
		t.Error("there are none by default")
	}
	if NetworkPoliciesEnabled(plane(func(s *fleetv1alpha1.ControlPlaneSpec) { s.NetworkPolicies.Enabled = ptr.To(false) })) {
		t.Error("there are some though they are turned off")
	}
}
