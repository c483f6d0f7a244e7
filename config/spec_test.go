// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	sigsyaml "sigs.k8s.io/yaml"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const specDirectory = "../docs/spec"

// page is the file of the spec page of a definition.
func page(definition *apiextensionsv1.CustomResourceDefinition) string {
	group, _, _ := strings.Cut(definition.Spec.Group, ".")
	return filepath.Join(specDirectory, group, definition.Spec.Names.Singular+".md")
}

func TestSpecPagesExplainEveryConditionAndReason(t *testing.T) {
	pages := map[string]string{}
	for _, definition := range allDefinitions(t) {
		content, err := os.ReadFile(page(definition))
		expect.NoError(t, err)
		pages[definition.Spec.Names.Singular] = string(content)
	}
	found := map[string]int{}
	for _, constant := range conditionConstants(t) {
		if filepath.Base(constant.file) == "wellknown.go" { // of kinds of several groups, each of which explains it
			for _, kind := range []string{"resourcebinding", "managedcluster", "placement", "manifestworkreplicaset"} {
				if !strings.Contains(pages[kind], "`"+constant.value+"`") {
					t.Errorf("docs/spec: the page of %s does not explain `%s` (%s in %s)", kind, constant.value, constant.name, constant.file)
				}
			}
			continue
		}
		kind := constant.kind(slices.Collect(maps.Keys(pages)))
		if kind == "" {
			t.Errorf("%s: cannot tell which kind %s is for: begin the file's name with the kind", constant.file, constant.name)
			continue
		}
		found[kind]++
		if !strings.Contains(pages[kind], "`"+constant.value+"`") {
			t.Errorf("docs/spec: the page of %s does not explain `%s` (%s in %s)", kind, constant.value, constant.name, constant.file)
		}
	}
	for _, kind := range []string{"clustermanager", "klusterlet", "managedcluster", "managedclusterset", "managedclustersetbinding", "clusterconnection", "controlplane", "manifestwork"} {
		if found[kind] == 0 {
			t.Errorf("no condition constants of %s were found, so its page is not compared", kind)
		}
	}
}

func TestExamplesInSpecPagesAreObjectsOfTheirKind(t *testing.T) {
	kinds := map[string]func() any{
		"ClusterManager":                          func() any { return &operatorv1.ClusterManager{} },
		"Klusterlet":                              func() any { return &operatorv1.Klusterlet{} },
		"ManagedCluster":                          func() any { return &clusterv1.ManagedCluster{} },
		"ManagedClusterSet":                       func() any { return &clusterv1beta2.ManagedClusterSet{} },
		"ManagedClusterSetBinding":                func() any { return &clusterv1beta2.ManagedClusterSetBinding{} },
		"Placement":                               func() any { return &clusterv1beta1.Placement{} },
		"PlacementDecision":                       func() any { return &clusterv1beta1.PlacementDecision{} },
		"AddOnPlacementScore":                     func() any { return &clusterv1alpha1.AddOnPlacementScore{} },
		"ClusterClaim":                            func() any { return &clusterv1alpha1.ClusterClaim{} },
		"ClusterProperty":                         func() any { return &aboutv1alpha1.ClusterProperty{} },
		"ClusterConnection":                       func() any { return &fleetv1alpha1.ClusterConnection{} },
		"ControlPlane":                            func() any { return &fleetv1alpha1.ControlPlane{} },
		"ManifestWork":                            func() any { return &workv1.ManifestWork{} },
		"ManifestWorkReplicaSet":                  func() any { return &workv1alpha1.ManifestWorkReplicaSet{} },
		"AppliedManifestWork":                     func() any { return &workv1.AppliedManifestWork{} },
		"WorkloadRebalancer":                      func() any { return &appsv1alpha1.WorkloadRebalancer{} },
		"ResourceInterpreterCustomization":        func() any { return &configv1alpha1.ResourceInterpreterCustomization{} },
		"ResourceInterpreterWebhookConfiguration": func() any { return &configv1alpha1.ResourceInterpreterWebhookConfiguration{} },
		"PropagationRollout":                      func() any { return &fleetv1alpha1.PropagationRollout{} },
		"ClusterPropagationRollout":               func() any { return &fleetv1alpha1.ClusterPropagationRollout{} },
		"PropagationRevision":                     func() any { return &fleetv1alpha1.PropagationRevision{} },
		"PropagationPolicy":                       func() any { return &policyv1alpha1.PropagationPolicy{} },
		"ClusterPropagationPolicy":                func() any { return &policyv1alpha1.ClusterPropagationPolicy{} },
		"OverridePolicy":                          func() any { return &policyv1alpha1.OverridePolicy{} },
		"ClusterOverridePolicy":                   func() any { return &policyv1alpha1.ClusterOverridePolicy{} },
		"ResourceBinding":                         func() any { return &karmadaworkv1alpha2.ResourceBinding{} },
		"ClusterResourceBinding":                  func() any { return &karmadaworkv1alpha2.ClusterResourceBinding{} },
	}
	for _, definition := range allDefinitions(t) {
		kind := definition.Spec.Names.Kind
		t.Run(kind, func(t *testing.T) {
			content, err := os.ReadFile(page(definition))
			expect.NoError(t, err)
			_, rest, _ := strings.Cut(string(content), "```yaml\n")
			example, _, ends := strings.Cut(rest, "```\n")
			if !ends {
				t.Fatalf("%s has no example", page(definition))
			}
			if err := sigsyaml.UnmarshalStrict([]byte(example), kinds[kind]()); err != nil {
				t.Errorf("the example in %s is no %s: %v", page(definition), kind, err)
			}
			if want := "apiVersion: " + definition.Spec.Group + "/" + definition.Spec.Versions[0].Name + "\nkind: " + kind + "\n"; !strings.HasPrefix(example, want) {
				t.Errorf("the example in %s does not begin with %q", page(definition), want)
			}
		})
	}
}

// constant is a constant with the type or a reason of a condition.
type constant struct{ file, name, value string }

// kind tells which of the kinds the constant is for: the one that its file is
// named after, or else the longest one that its name begins with.
func (c constant) kind(kinds []string) string {
	prefix, _, _ := strings.Cut(filepath.Base(c.file), "_")
	if slices.Contains(kinds, strings.TrimSuffix(prefix, ".go")) {
		return strings.TrimSuffix(prefix, ".go")
	}
	longest := ""
	for _, kind := range kinds {
		if strings.HasPrefix(strings.ToLower(c.name), kind) && len(kind) > len(longest) {
			longest = kind
		}
	}
	if longest == "" && strings.HasPrefix(c.name, "Manifest") {
		return "manifestwork"
	}
	return longest
}

// conditionConstants returns the constants of the API packages whose names say
// that they are types or reasons of conditions.
func conditionConstants(t *testing.T) []constant {
	t.Helper()
	files, err := filepath.Glob("../apis/*/*/*.go")
	expect.NoError(t, err)
	names := regexp.MustCompile(`(Condition|Reason)[A-Z]|^KlusterletJoined$`)
	var constants []constant
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		expect.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			// Constants with a type are values of fields, and those that begin with
			// CSR are for certificate signing requests.
			if !ok || spec.Type != nil || len(spec.Values) != 1 || !names.MatchString(spec.Names[0].Name) || strings.HasSuffix(spec.Names[0].Name, "Key") || strings.HasPrefix(spec.Names[0].Name, "CSR") {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				expect.NoError(t, err)
				constants = append(constants, constant{file: file, name: spec.Names[0].Name, value: value})
			}
			return true
		})
	}
	return constants
}

func allDefinitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, load := range []func() ([]*apiextensionsv1.CustomResourceDefinition, error){
		OperatorCRDs, ControlPlaneCRDs, HubCRDs, PropagationCRDs, SpokeCRDs, PropertyCRDs,
	} {
		definitions, err := load()
		expect.NoError(t, err)
		all = append(all, definitions...)
	}
	return all
}
