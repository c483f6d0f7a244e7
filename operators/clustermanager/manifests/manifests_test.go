// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/golden"
)

var update = flag.Bool("update", false, "write what is rendered into the golden files")

// testRules stands for the rules of config, which have tests of their own.
func testRules(component string) (cluster, namespaced []rbacv1.PolicyRule, err error) {
	cluster = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{component}, Verbs: []string{"get"}}}
	cluster = append(cluster, rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}})
	if strings.HasSuffix(component, "-controller") {
		namespaced = []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}}}
	}
	return cluster, namespaced, nil
}

func testHub(spec operatorv1.ClusterManagerSpec, registration, work, placement map[string]bool) Hub {
	h := Hub{
		Name: "cluster-manager", Spec: spec, OperatorNamespace: "open-cluster-management",
		OwnImage: "registry.example/capstan:1", Replicas: 1, CABundle: []byte("the bundle"),
	}
	h.Registration, _ = features.ResolveGates(features.HubRegistration, registration)
	h.Work, _ = features.ResolveGates(features.HubWork, work)
	h.Placement, _ = features.ResolveGates(features.HubPlacement, placement)
	return h
}

func everything() Hub {
	h := testHub(operatorv1.ClusterManagerSpec{
		RegistrationImagePullSpec: "registry.example/registration:2",
		WorkImagePullSpec:         "registry.example/work:2",
		NodePlacement: operatorv1.NodePlacement{
			NodeSelector: map[string]string{"zone": "a"},
			Tolerations:  []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		},
		DeployOption: operatorv1.ClusterManagerDeployOption{Default: &operatorv1.DefaultClusterManagerConfiguration{
			RegistrationWebhookConfiguration: operatorv1.DefaultWebhookConfiguration{BindConfiguration: &operatorv1.BindConfiguration{
				Port: 10443, HealthProbePort: 18000, MetricsPort: 18080, HostNetwork: true,
			}},
		}},
		RegistrationConfiguration: &operatorv1.RegistrationHubConfiguration{
			AutoApproveUsers: []string{"alice", "bob"},
			RegistrationDrivers: []operatorv1.RegistrationDriverHub{
				{AuthType: "csr", CSR: &operatorv1.CSRConfig{AutoApprovedIdentities: []string{"carol"}}},
			},
		},
		ResourceRequirement: &operatorv1.ResourceRequirement{
			Type: operatorv1.ResourceQosClassResourceRequirement,
			ResourceRequirements: &corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			},
		},
	}, map[string]bool{
		"ManagedClusterAutoApproval": true, "DefaultClusterSet": false, "NetworkPolicies": true, "StrictBootstrap": true, "AggregatedAPI": true,
	}, map[string]bool{"NilExecutorValidating": true, "CleanUpCompletedManifestWork": true}, map[string]bool{"PlacementDebugServer": true, "Propagation": true, "PropagationAuthorization": true})
	h.Replicas = 3
	h.PullSecret = "pull"
	h.MaxUnaccepted = ptr.To(50)
	h.MaxAutomatic = ptr.To(20)
	h.MaxRequestsPerUser = 100
	h.Labels = map[string]string{"team": "fleet"}
	h.ProxyEnv = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}}
	h.TLSFlags = []string{"--tls-min-version=VersionTLS13"}
	return h
}

// hosted is a hub whose webhooks are reached by a name and by an IP address.
func hosted() Hub {
	h := testHub(operatorv1.ClusterManagerSpec{
		DeployOption: operatorv1.ClusterManagerDeployOption{
			Mode: operatorv1.InstallModeHosted,
			Hosted: &operatorv1.HostedClusterManagerConfiguration{
				RegistrationWebhookConfiguration: operatorv1.HostedWebhookConfiguration{
					Address: "hooks.example.com", BindConfiguration: &operatorv1.BindConfiguration{Port: 10443},
				},
				WorkWebhookConfiguration: operatorv1.HostedWebhookConfiguration{Address: "192.0.2.7", Port: 31443},
			},
		},
	}, map[string]bool{"NetworkPolicies": true, "AggregatedAPI": true}, map[string]bool{"ManifestWorkReplicaSet": true}, map[string]bool{"PlacementDebugServer": true, "Propagation": true})
	h.Name = "hub1"
	h.HubPort = 8443
	h.APIServerAddress = h.HostedAPIServerAddress()
	h.Kubeconfigs = map[string]string{"registration-controller-sa": "0123", "work-webhook-sa": "4567"}
	return h
}

func TestManifestsAreAsInTheGoldenFiles(t *testing.T) {
	tests := map[string]struct {
		reason string
		hub    Hub
	}{
		"default": {
			reason: "a ClusterManager without a spec",
			hub:    testHub(operatorv1.ClusterManagerSpec{}, nil, nil, nil),
		},
		"everything": {
			reason: "every field that changes something",
			hub:    everything(),
		},
		"hosted": {
			reason: "components on another cluster than the hub",
			hub:    hosted(),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			golden.CompareFile(t, filepath.Join("testdata", name+".yaml"), tc.reason, rendered(t, tc.hub), *update)
		})
	}
}

// everyObject returns all that is installed, on either cluster.
func everyObject(t *testing.T, h Hub) []render.Object {
	t.Helper()
	access, err := ComponentAccess(h, testRules)
	expect.NoError(t, err)
	home, err := HomeAccess(h, testRules)
	expect.NoError(t, err)
	users := UserRoles(h, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules })
	return slices.Concat(HubNamespaces(h), access, users, home, BootstrapAccess(h), ServerServices(h), HomeServices(h),
		HubNetworkPolicies(h), DisruptionBudgets(h), ComponentDeployments(h), WebhookConfigurations(h), ConnectionGuard(h), AgentGuards(h), PriorityObjects(h), protection(h), apiServices(h))
}

// protection is what is installed of it.
func protection(h Hub) []render.Object {
	if !h.PropagationEnabled() {
		return nil
	}
	return DeletionProtection(h)
}

// apiServices are those that are installed.
func apiServices(h Hub) []render.Object {
	if !h.AggregatedAPI() {
		return nil
	}
	return APIServices(h)
}

func rendered(t *testing.T, h Hub) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, object := range everyObject(t, h) {
		u, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		text, err := yaml.Marshal(u.Object)
		expect.NoError(t, err)
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}

func TestEverythingCarriesTheLabelOfItsOwner(t *testing.T) {
	for _, h := range []Hub{everything(), hosted()} {
		h.Labels = map[string]string{"team": "fleet"}
		for _, object := range everyObject(t, h) {
			u, err := render.ToUnstructured(object)
			expect.NoError(t, err)
			if u.GetLabels()[operatorv1.LabelCreatedByClusterManager] != h.Name {
				t.Errorf("%s %s has no label of its owner", u.GetKind(), u.GetName())
			}
			if u.GetLabels()["team"] != "fleet" {
				t.Errorf("%s %s has no label of the ClusterManager", u.GetKind(), u.GetName())
			}
		}
	}
}

// TestProgramsThatWriteWorksAreToldOfEachOther looks at what they are told of how many there are.
func TestProgramsThatWriteWorksAreToldOfEachOther(t *testing.T) {
	none := operatorv1.ClusterManagerSpec{}
	replicaSets := map[string]bool{"ManifestWorkReplicaSet": true}
	for name, tc := range map[string]struct {
		reason string
		hub    Hub
		want   int
	}{
		"both":        {reason: "each has its part of the time", hub: testHub(none, nil, replicaSets, map[string]bool{"Propagation": true}), want: 2},
		"bindings":    {reason: "one has all of it", hub: testHub(none, nil, nil, map[string]bool{"Propagation": true})},
		"replicasets": {reason: "one has all of it", hub: testHub(none, nil, replicaSets, nil)},
		"everything":  {reason: "who deletes finished works writes none", hub: everything()},
	} {
		told := 0
		for _, deployment := range ComponentDeployments(tc.hub) {
			u, err := render.ToUnstructured(deployment)
			expect.NoError(t, err)
			text, err := u.MarshalJSON()
			expect.NoError(t, err)
			told += strings.Count(string(text), `"--work-writers=2"`)
		}
		if told != tc.want {
			t.Errorf("%s: %d programs are told that there are two, want %d: %s", name, told, tc.want, tc.reason)
		}
	}
}

func TestUnsetImageIsThatOfTheOperator(t *testing.T) {
	tests := map[string]struct {
		reason, spec, want string
	}{
		"Empty":   {reason: "an object from before defaulting", spec: "", want: "own"},
		"Default": {reason: "what the definition fills in stands for nothing chosen", spec: unsetRegistrationImage, want: "own"},
		"Chosen":  {reason: "a user's choice counts", spec: unsetRegistrationImage + ":v1", want: unsetRegistrationImage + ":v1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := imageOr(tc.spec, unsetRegistrationImage, "own"); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestNobodyButServersIsReachedByAService(t *testing.T) {
	for _, service := range ServerServices(everything()) {
		u, err := render.ToUnstructured(service)
		expect.NoError(t, err)
		if !strings.HasSuffix(u.GetName(), "-webhook") && u.GetName() != "cluster-manager-apiserver" {
			t.Errorf("Service %s", u.GetName())
		}
	}
}

func TestHostedComponentsAreNobodyOnTheirCluster(t *testing.T) {
	h := hosted()
	objects, err := HomeAccess(h, config.Rules)
	expect.NoError(t, err)
	allowed := []string{"leases", "pods", "tokenreviews", "subjectaccessreviews", "servicecidrs"}
	for _, object := range objects {
		u, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		if kind := u.GetKind(); kind != "ClusterRole" && kind != "Role" {
			continue
		}
		role := &rbacv1.ClusterRole{} // Role has the same fields
		expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, role))
		for _, rule := range role.Rules {
			if len(rule.Resources) != 1 || !slices.Contains(allowed, rule.Resources[0]) {
				t.Errorf("%s %s allows %v on %v", u.GetKind(), u.GetName(), rule.Verbs, rule.Resources)
			}
		}
	}
	if objects, err := HomeAccess(everything(), config.Rules); err != nil || len(objects) > 0 {
		t.Errorf("in mode Default there are %d objects and the error %v besides those of Access", len(objects), err)
	}
}
