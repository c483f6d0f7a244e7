// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// TestTracesPassTheDocumentedPolicies: each policy selects pods that there are, and lets
// them to the collector of the example and to nobody else.
func TestTracesPassTheDocumentedPolicies(t *testing.T) {
	page, err := os.ReadFile(observability)
	if err != nil {
		t.Fatal(err)
	}
	_, traces, _ := strings.Cut(string(page), "## Traces\n")
	_, block, _ := strings.Cut(traces, "```yaml\n")
	block, _, found := strings.Cut(block, "```")
	if !found || !strings.Contains(traces, "http://collector.monitoring:4318") {
		t.Fatalf("%s has no policies for traces, or another collector", observability)
	}
	// These have the Deployments that the operators make, by namespace.
	const cm, k = "../../operators/clustermanager/manifests/testdata/", "../../operators/klusterlet/manifests/testdata/"
	files := map[string][]string{
		"open-cluster-management-hub":   {cm + "everything.yaml"},
		"open-cluster-management-agent": {k + "default.golden.yaml", k + "singleton.golden.yaml"},
	}
	for text := range strings.SplitSeq(block, "---\n") {
		var policy networkingv1.NetworkPolicy
		if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
			t.Fatal(err)
		}
		deployed := apps(t, files[policy.Namespace])
		delete(files, policy.Namespace)
		selected := policy.Spec.PodSelector.MatchExpressions
		if len(selected) != 1 || selected[0].Key != "app" || selected[0].Operator != "In" || len(selected[0].Values) == 0 {
			t.Fatalf("the policy in %s selects %+v", policy.Namespace, policy.Spec.PodSelector)
		}
		for _, app := range selected[0].Values {
			if !slices.Contains(deployed, app) {
				t.Errorf("the policy in %s is for %q, which is none of %q", policy.Namespace, app, deployed)
			}
		}
		port := intstr.FromInt32(4318)
		want := []networkingv1.NetworkPolicyEgressRule{{
			To:    []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "monitoring"}}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
		}}
		if diff := cmp.Diff(want, policy.Spec.Egress); diff != "" {
			t.Errorf("what the policy in %s lets out, -want +got:\n%s", policy.Namespace, diff)
		}
		if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}) {
			t.Errorf("the policy in %s is about %v", policy.Namespace, policy.Spec.PolicyTypes)
		}
	}
	for namespace := range files {
		t.Errorf("%s has no policy for %s", observability, namespace)
	}
}

// apps returns the labels by which pods of Deployments are found.
func apps(t *testing.T, files []string) []string {
	t.Helper()
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(content), "---\n") {
			var deployment appsv1.Deployment
			if !strings.Contains(text, "kind: Deployment\n") {
				continue
			}
			if err := yaml.Unmarshal([]byte(text), &deployment); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			names = append(names, deployment.Spec.Template.Labels["app"])
		}
	}
	return names
}
