// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestDefinitionsAreThoseOfTheirPlace(t *testing.T) {
	cases := map[string]struct {
		reason string
		load   func() ([]*apiextensionsv1.CustomResourceDefinition, error)
		want   []string
	}{
		"hub": {
			reason: "the operator installs the kinds that hub components serve",
			load:   HubCRDs,
			want:   []string{"AddOnPlacementScore", "ManagedCluster", "ManagedClusterSetBinding", "ManagedClusterSet", "PlacementDecision", "Placement", "ClusterConnection", "ManifestWorkReplicaSet", "ManifestWork"},
		},
		"spoke": {
			reason: "the operator installs the kinds that agents read and write on the member",
			load:   SpokeCRDs,
			want:   []string{"ClusterClaim", "AppliedManifestWork"},
		},
		"properties": {
			reason: "the operator installs it with a feature gate, if nobody else has",
			load:   PropertyCRDs,
			want:   []string{"ClusterProperty"},
		},
		"propagation": {
			reason: "Karmada may be installed on the hub's cluster, so that its kinds are there only where they are wanted",
			load:   PropagationCRDs,
			want: []string{
				"WorkloadRebalancer", "ResourceInterpreterCustomization", "ResourceInterpreterWebhookConfiguration", "ClusterPropagationRollout", "PropagationRevision", "PropagationRollout", "ClusterOverridePolicy", "ClusterPropagationPolicy", "OverridePolicy", "PropagationPolicy",
				"ClusterResourceBinding", "ResourceBinding",
			},
		},
		"operators": {
			reason: "an operator cannot install the kind that it waits for",
			load:   OperatorCRDs,
			want:   []string{"ClusterManager", "Klusterlet"},
		},
		"control planes": {
			reason: "its operator is installed only where somebody wants it, and with its kind",
			load:   ControlPlaneCRDs,
			want:   []string{"ControlPlane"},
		},
	}
	placed := 0
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			definitions, err := c.load()
			expect.NoError(t, err)
			var got []string
			for _, definition := range definitions {
				got = append(got, definition.Spec.Names.Kind)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			placed += len(got)
		})
	}
	files, err := manifests.ReadDir("crd")
	expect.NoError(t, err)
	if len(files) != placed {
		t.Errorf("config/crd has %d definitions, but only %d are installed anywhere: add the others to HubCRDs, PropagationCRDs, SpokeCRDs, OperatorCRDs or ControlPlaneCRDs", len(files), placed)
	}
}

func TestDefinitionsAreCopies(t *testing.T) {
	first, err := HubCRDs()
	expect.NoError(t, err)
	first[0].Name = "changed"
	second, err := HubCRDs()
	expect.NoError(t, err)
	if second[0].Name == "changed" {
		t.Error("a caller's change of a definition is seen by the next caller")
	}
}

func TestRulesAreSplitByScope(t *testing.T) {
	cases := map[string]struct {
		reason              string
		content             string
		cluster, namespaced []rbacv1.PolicyRule
		wantError           string
	}{
		"both": {
			reason: "controller-gen writes one document for each scope",
			content: "---\nkind: ClusterRole\nrules:\n- {apiGroups: [a], resources: [b], verbs: [get]}\n" +
				"---\nkind: Role\nmetadata: {namespace: x}\nrules:\n- {apiGroups: [c], resources: [d], resourceNames: [e], verbs: [update]}\n",
			cluster:    []rbacv1.PolicyRule{{APIGroups: []string{"a"}, Resources: []string{"b"}, Verbs: []string{"get"}}},
			namespaced: []rbacv1.PolicyRule{{APIGroups: []string{"c"}, Resources: []string{"d"}, ResourceNames: []string{"e"}, Verbs: []string{"update"}}},
		},
		"several roles": {
			reason: "the namespaces of the markers do not count",
			content: "kind: Role\nmetadata: {namespace: x}\nrules:\n- {verbs: [get]}\n" +
				"---\nkind: Role\nmetadata: {namespace: y}\nrules:\n- {verbs: [list]}\n",
			namespaced: []rbacv1.PolicyRule{{Verbs: []string{"get"}}, {Verbs: []string{"list"}}},
		},
		"another kind": {
			reason:    "rules of an unknown scope must not get lost silently",
			content:   "kind: ConfigMap\n",
			wantError: `unexpected kind "ConfigMap"`,
		},
		"no YAML": {
			reason:    "a damaged file must not mean no rules",
			content:   "kind: [",
			wantError: "yaml",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster, namespaced, err := parseRules([]byte(c.content))
			if c.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantError) {
					t.Fatalf("%s: got error %v, want one with %q", c.reason, err, c.wantError)
				}
				return
			}
			expect.NoError(t, err)
			if diff := cmp.Diff(c.cluster, cluster); diff != "" {
				t.Errorf("%s: cluster rules (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(c.namespaced, namespaced); diff != "" {
				t.Errorf("%s: namespaced rules (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestUnknownComponentHasNoRules(t *testing.T) {
	_, _, err := Rules("no-such-component")
	if err == nil || !strings.Contains(err.Error(), `"no-such-component"`) {
		t.Errorf("got error %v, want one that names the component", err)
	}
}

func TestComponentsHoldNoWildcardsAndNamedSecretsOnly(t *testing.T) {
	for _, component := range components() {
		t.Run(component, func(t *testing.T) {
			for _, rule := range allRules(t, component) {
				if slices.Contains(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), "*") {
					t.Errorf("rule with a wildcard: %v", rule)
				}
				secrets := slices.Contains(rule.APIGroups, "") && slices.Contains(rule.Resources, "secrets")
				if secrets && len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
					t.Errorf("rule for secrets without names, with more than create: %v", rule)
				}
			}
		})
	}
}

func TestOperatorsHoldWhatTheyGrant(t *testing.T) {
	content, err := os.ReadFile("samples/propagation/clusterrole.yaml")
	expect.NoError(t, err)
	sample := &rbacv1.ClusterRole{}
	expect.NoError(t, sigsyaml.Unmarshal([]byte(strings.Split(string(content), "\n---")[0]), sample))
	cases := map[string]struct {
		operator string
		installs []string
		// given are rules that an administrator may give to the operator.
		given []rbacv1.PolicyRule
	}{
		"cluster-manager": {operator: ClusterManager, installs: []string{RegistrationController, RegistrationWebhook, WorkWebhook, WorkController, PlacementController, PropagationController, APIServer, PushAgent}, given: sample.Rules},
		"klusterlet":      {operator: Klusterlet, installs: []string{RegistrationAgent, WorkAgent}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			held := map[string]bool{}
			for _, rule := range append(allRules(t, c.operator), c.given...) {
				for _, single := range singles(rule) {
					held[single] = true
				}
			}
			for _, component := range c.installs {
				for _, rule := range allRules(t, component) {
					for _, single := range singles(rule) {
						unnamed, _, _ := strings.Cut(single, " name=")
						if !held[single] && !held[unnamed] {
							t.Errorf("%s needs %q, which %s does not hold: it could not install it", component, single, c.operator)
						}
					}
				}
			}
		})
	}
}

// Operators may change what they install by name. That of the hub deletes it as
// well; definitions on a member stay.
func TestOperatorsMayChangeTheirDefinitions(t *testing.T) {
	hubs := func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
		always, err := HubCRDs()
		gated, gatedErr := PropagationCRDs()
		return slices.Concat(always, gated), errors.Join(err, gatedErr)
	}
	cases := map[string]struct {
		load  func() ([]*apiextensionsv1.CustomResourceDefinition, error)
		verbs []string
	}{
		ClusterManager: {load: hubs, verbs: []string{"patch", "update", "delete"}},
		Klusterlet:     {load: SpokeCRDs, verbs: []string{"patch", "update"}},
	}
	for operator, tc := range cases {
		t.Run(operator, func(t *testing.T) {
			var may []string
			for _, rule := range allRules(t, operator) {
				may = append(may, singles(rule)...)
			}
			definitions, err := tc.load()
			expect.NoError(t, err)
			for _, definition := range definitions {
				for _, verb := range tc.verbs {
					if want := verb + " customresourcedefinitions.apiextensions.k8s.io name=" + definition.Name; !slices.Contains(may, want) {
						t.Errorf("it may not %s; add the name to the markers of the operator", want)
					}
				}
			}
		})
	}
}

func components() []string {
	return []string{ClusterManager, Klusterlet, RegistrationController, RegistrationWebhook, WorkWebhook, WorkController, PlacementController, PropagationController, APIServer, PushAgent, RegistrationAgent, WorkAgent}
}

func allRules(t *testing.T, component string) []rbacv1.PolicyRule {
	t.Helper()
	cluster, namespaced, err := Rules(component)
	expect.NoError(t, err)
	return append(cluster, namespaced...)
}

// singles takes a rule apart into what it allows, one thing each.
func singles(rule rbacv1.PolicyRule) []string {
	var all []string
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					single := verb + " " + resource + "." + group
					if name != "" {
						single += " name=" + name
					}
					all = append(all, single)
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			all = append(all, verb+" "+url)
		}
	}
	return all
}
