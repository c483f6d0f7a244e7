// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/golden"
)

var update = flag.Bool("update", false, "write the golden files")

func TestRenderedManifestsAreAsInTheGoldenFiles(t *testing.T) {
	rules := AgentRuleSet{
		Registration: AgentRules{
			Cluster: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}},
			Home:    []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}},
		},
		Work: AgentRules{
			Cluster: []rbacv1.PolicyRule{{APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"appliedmanifestworks"}, Verbs: []string{"list"}}},
			Home:    []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"hub-kubeconfig-secret"}, Verbs: []string{"get"}}},
		},
	}
	for name, test := range map[string]struct {
		reason  string
		spec    operatorv1.KlusterletSpec
		options AgentOptions
	}{
		"default": {
			reason:  "two agents, of which the second waits for its credential",
			options: AgentOptions{Image: "capstan:1", Replicas: 1},
		},
		"singleton": {
			reason:  "one agent with one account for everything",
			spec:    operatorv1.KlusterletSpec{DeployOption: operatorv1.KlusterletDeployOption{Mode: operatorv1.InstallModeSingleton}},
			options: AgentOptions{Image: "capstan:1", Replicas: 1},
		},
		"default-all-options": {
			reason:  "each option shows where it should",
			spec:    allOptions(operatorv1.InstallModeDefault),
			options: allSettings(),
		},
		"singleton-all-options": {
			reason:  "each option shows in the one agent",
			spec:    allOptions(operatorv1.InstallModeSingleton),
			options: allSettings(),
		},
		"hosted": {
			reason: "the agents run in a namespace called as the Klusterlet and work as accounts of the member",
			spec:   operatorv1.KlusterletSpec{DeployOption: operatorv1.KlusterletDeployOption{Mode: operatorv1.InstallModeHosted}},
			options: AgentOptions{Image: "capstan:1", Replicas: 1, MemberKubeconfigs: map[string]string{
				operatorv1.ExternalManagedKubeConfigRegistrationSecret: "hash-of-one", operatorv1.ExternalManagedKubeConfigWorkSecret: "hash-of-two",
			}},
		},
		"singleton-hosted-all-options": {
			reason:  "each option shows in the one hosted agent",
			spec:    allOptions(operatorv1.InstallModeSingletonHosted),
			options: allSettings(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			klusterlet := &operatorv1.Klusterlet{
				ObjectMeta: metav1.ObjectMeta{Name: "klusterlet", UID: "6ed26bb6-61b5-45f4-a44d-1ea1a7d4bd6c"}, Spec: test.spec,
			}
			var objects []render.Object
			objects = append(objects, HomeNamespaces(klusterlet)...)
			objects = append(objects, HomeAccess(klusterlet, rules, test.options.PullSecret)...)
			objects = append(objects, MemberNamespaces(klusterlet)...)
			objects = append(objects, MemberAccess(klusterlet, rules, test.options.PullSecret)...)
			objects = append(objects, AgentNetworkPolicies(klusterlet, test.options.HubPorts)...)
			objects = append(objects, AgentDeployments(klusterlet, test.options)...)
			golden.CompareFile(t, filepath.Join("testdata", name+".golden.yaml"), test.reason, golden.YAMLDocuments(t, objects), *update)
		})
	}
}

func allOptions(mode operatorv1.InstallMode) operatorv1.KlusterletSpec {
	return operatorv1.KlusterletSpec{
		Namespace:                 "open-cluster-management-agent-two",
		RegistrationImagePullSpec: "registry.example.com/registration:2",
		WorkImagePullSpec:         "registry.example.com/work:2",
		ImagePullSpec:             "registry.example.com/agent:2",
		ClusterName:               "cluster1",
		ExternalServerURLs: []operatorv1.ServerURL{
			{URL: "https://one.example.com:6443", CABundle: []byte("bundle")}, {URL: "https://two.example.com:6443"},
		},
		NodePlacement: operatorv1.NodePlacement{
			NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations:  []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		},
		DeployOption: operatorv1.KlusterletDeployOption{Mode: mode},
		RegistrationConfiguration: &operatorv1.RegistrationConfiguration{
			ClientCertExpirationSeconds: 3600,
			ClusterAnnotations: map[string]string{
				"agent.open-cluster-management.io/zone": "b", "agent.open-cluster-management.io/note": "a, b", "other.io/refused": "x",
			},
			ClusterLabels: map[string]string{"vendor": "kind", "env": "test"},
			KubeAPIQPS:    60, KubeAPIBurst: 110,
			AddOnKubeClientRegistrationDriver: &operatorv1.AddOnRegistrationDriver{
				AuthType: operatorv1.AuthTypeToken, Token: &operatorv1.TokenConfig{ExpirationSeconds: 7200},
			},
			ClusterClaimConfiguration: &operatorv1.ClusterClaimConfiguration{
				MaxCustomClusterClaims: 30, ReservedClusterClaimSuffixes: []string{"reserved.io", "other.io"},
			},
		},
		WorkConfiguration: &operatorv1.WorkAgentConfiguration{
			KubeAPIQPS: 70, KubeAPIBurst: 100, HubKubeAPIQPS: 80, HubKubeAPIBurst: 130,
			AppliedManifestWorkEvictionGracePeriod: &metav1.Duration{Duration: 10 * time.Minute},
			StatusSyncInterval:                     &metav1.Duration{Duration: 5 * time.Second},
		},
		HubAPIServerHostAlias: &operatorv1.HubAPIServerHostAlias{IP: "192.0.2.7", Hostname: "hub.example.com"},
		ResourceRequirement: &operatorv1.ResourceRequirement{
			Type: operatorv1.ResourceQosClassResourceRequirement,
			ResourceRequirements: &corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
		},
		PriorityClassName: "system-cluster-critical",
	}
}

func allSettings() AgentOptions {
	registration, _ := features.ResolveGates(features.AgentRegistration, map[string]bool{"ClusterClaim": false, "NetworkPolicies": true})
	work, _ := features.ResolveGates(features.AgentWork, map[string]bool{"RawFeedbackJsonString": true})
	return AgentOptions{
		Image: "capstan:1", PullSecret: "pull", Replicas: 3, WorkReplicas: 3, ClusterName: "cluster1",
		Env:               []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}},
		RegistrationGates: registration, WorkGates: work, HubPorts: []int32{16443, 6443},
	}
}

func TestPairsCanBeReadBackByFlags(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		values map[string]string
		want   string
	}{
		"Sorted":       {"the same map gives the same argument, or pods would roll", map[string]string{"b": "2", "a": "1"}, "a=1,b=2"},
		"One":          {"one pair is read as it is, with its commas", map[string]string{"a": "1,2"}, "a=1,2"},
		"Comma":        {"a comma in a value does not end it", map[string]string{"a": "1,2", "b": "3"}, `"a=1,2",b=3`},
		"Quote":        {"a quotation mark is doubled within quotation marks", map[string]string{"a": `x"y`, "b": "3"}, `"a=x""y",b=3`},
		"EqualSign":    {"an equal sign in a value is part of it", map[string]string{"a": "b=c"}, "a=b=c"},
		"EmptyIsEmpty": {"a label may have no value", map[string]string{"a": ""}, "a="},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, formatFlagPairs(test.values)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func TestAnnotationsOfTheHubAreRefused(t *testing.T) {
	klusterlet := &operatorv1.Klusterlet{Spec: allOptions(operatorv1.InstallModeDefault)}
	set, refused := ClusterAnnotations(klusterlet)
	if diff := cmp.Diff([]string{"other.io/refused"}, refused); diff != "" {
		t.Errorf("only keys of agents may be set (-want +got):\n%s", diff)
	}
	if _, ok := set["other.io/refused"]; ok {
		t.Error("a refused annotation is set nevertheless")
	}
}

func TestStatusSyncIntervalFollowsTheReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		interval *metav1.Duration
		replicas int32
		want     []string
	}{
		"Single":  {"the only replica looks seldom", nil, 1, []string{"--status-sync-interval=60s"}},
		"Several": {"the agent's own default holds", nil, 3, nil},
		"Set":     {"the spec goes first", ptr.To(metav1.Duration{Duration: time.Minute * 2}), 1, []string{"--status-sync-interval=2m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			klusterlet := &operatorv1.Klusterlet{Spec: operatorv1.KlusterletSpec{
				WorkConfiguration: &operatorv1.WorkAgentConfiguration{StatusSyncInterval: test.interval},
			}}
			if diff := cmp.Diff(test.want, applyArgs(klusterlet, test.replicas)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}
