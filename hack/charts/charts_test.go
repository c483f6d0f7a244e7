// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/operator/fence"
)

const (
	root      = "../.."
	namespace = operatorv1.DefaultOperatorNamespace
	image     = "quay.io/capstan-io/capstan:0.1.0"
)

var update = flag.Bool("update", false, "write the golden files")

// helm returns the executable of Helm, as `make bin/helm` does: Go leaves one alone that
// is as it would make it.
func helm(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-modfile=hack/tools/go.mod", "-ldflags=-s -w", "-o", "bin/helm", "helm.sh/helm/v3/cmd/helm")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling Helm (hack/tools): %v: %s", err, out)
	}
	executable, err := filepath.Abs(filepath.Join(root, "bin/helm"))
	if err != nil {
		t.Fatal(err)
	}
	return executable
}

// render returns what Helm makes of a chart, and what it says if it refuses to.
func render(t *testing.T, helm, chart string, args ...string) (string, error) {
	t.Helper()
	all := []string{"template", chart, filepath.Join(root, "deploy/helm", chart), "--namespace", namespace, "--kube-version", "1.36.0"}
	cmd := exec.CommandContext(t.Context(), helm, append(all, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, &stderr)
	}
	return stdout.String(), nil
}

// rendered is render of a chart with values that it has to take.
func rendered(t *testing.T, helm, chart string, args ...string) string {
	t.Helper()
	out, err := render(t, helm, chart, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// parse returns the objects of a text by kind and name.
func parse(t *testing.T, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(u.Object) > 0 {
			all[u.GetKind()+" "+u.GetName()] = u
		}
	}
	return all
}

// plainly takes off what is Helm's.
func plainly(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	for key, u := range objects {
		labels, annotations := u.GetLabels(), u.GetAnnotations()
		for _, label := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"} {
			delete(labels, label)
		}
		delete(annotations, "helm.sh/resource-policy")
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetLabels(labels)
		u.SetAnnotations(annotations)
		objects[key] = u
	}
	return objects
}

// asJSON returns the objects as they are in JSON, so that numbers are of one type.
func asJSON(t *testing.T, objects map[string]*unstructured.Unstructured) map[string]any {
	t.Helper()
	all := map[string]any{}
	for key, u := range objects {
		content, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var decoded any
		if err := yaml.Unmarshal(content, &decoded); err != nil {
			t.Fatal(err)
		}
		all[key] = decoded
	}
	return all
}

// operators are those that there are charts of.
func operators() map[string]install.Operator {
	return map[string]install.Operator{"cluster-manager": install.ClusterManagerOperator(), "klusterlet": install.KlusterletOperator()}
}

// TestAllWaysInstallTheSame compares charts and install.yaml with what the command
// line applies, which is what kustomize builds (config.TestOperator...).
func TestAllWaysInstallTheSame(t *testing.T) {
	helm := helm(t)
	files := map[string]string{"cluster-manager": "deploy/install.yaml", "klusterlet": "deploy/install-klusterlet.yaml"}
	for name, operator := range operators() {
		t.Run(name, func(t *testing.T) {
			objects, err := operator.RenderObjects(install.OperatorOptions{Image: image})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]*unstructured.Unstructured{}
			for _, o := range objects {
				want[o.GetKind()+" "+o.GetName()] = o
			}
			file, err := os.ReadFile(filepath.Join(root, files[name]))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, parse(t, string(file)))); diff != "" {
				t.Errorf("%s differs from what capstan applies (-capstan +file); run `make charts`:\n%s", files[name], diff)
			}
			delete(want, "Namespace "+namespace) // Helm creates it
			got := plainly(parse(t, rendered(t, helm, name, "--no-hooks")))
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
				t.Errorf("the chart differs from what capstan applies (-capstan +chart); run `make charts`:\n%s", diff)
			}
		})
	}
}

// instance returns the object that a hook of the chart applies.
func instance(t *testing.T, text, chart string) *unstructured.Unstructured {
	t.Helper()
	found := parse(t, text)["ConfigMap "+chart+"-hooks"]
	if found == nil {
		t.Fatalf("the chart %s has no object to apply:\n%s", chart, text)
	}
	data, _, _ := unstructured.NestedString(found.Object, "data", "instance.yaml")
	u := &unstructured.Unstructured{}
	if err := sigsyaml.UnmarshalStrict([]byte(data), &u.Object); err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
	return u
}

func TestChartsMakeTheObjectsThatTheCommandLineMakes(t *testing.T) {
	helm := helm(t)
	hub, err := install.ClusterManagerObject(install.ClusterManagerName, operatorv1.ClusterManagerSpec{
		DeployOption: operatorv1.ClusterManagerDeployOption{Mode: operatorv1.InstallModeDefault},
	})
	if err != nil {
		t.Fatal(err)
	}
	member, err := install.KlusterletObject(install.KlusterletName, operatorv1.KlusterletSpec{
		DeployOption: operatorv1.KlusterletDeployOption{Mode: operatorv1.InstallModeSingleton}, Namespace: operatorv1.DefaultAgentNamespace, ClusterName: "c1",
	})
	if err != nil {
		t.Fatal(err)
	}
	for chart, want := range map[string]*unstructured.Unstructured{"cluster-manager": hub, "klusterlet": member} {
		args := []string{}
		if chart == "klusterlet" {
			args = []string{"--set", "klusterlet.clusterName=c1"}
		}
		if diff := cmp.Diff(want, instance(t, rendered(t, helm, chart, args...), chart)); diff != "" {
			t.Errorf("%s (-capstan +chart):\n%s", chart, diff)
		}
	}
}

// all are the arguments that set every value of a chart, but for those that leave
// something out.
func all(chart string) []string {
	args := []string{"--values", "testdata/" + chart + "-all.values.yaml"}
	if chart == "klusterlet" {
		return append(args, "--set", "klusterlet.create=true,noOperator=false")
	}
	return append(args, "--set", "clusterManager.create=true")
}

// TestWhatHooksApplyIsValid decodes what a chart makes of all its values as the
// API server does, which would refuse a field at a wrong place.
func TestWhatHooksApplyIsValid(t *testing.T) {
	helm := helm(t)
	for chart, object := range map[string]any{"cluster-manager": &operatorv1.ClusterManager{}, "klusterlet": &operatorv1.Klusterlet{}} {
		u := instance(t, rendered(t, helm, chart, all(chart)...), chart)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, object, true); err != nil {
			t.Errorf("%s: %v", chart, err)
		}
	}
}

func TestTheFenceIsThatOfTheNamespace(t *testing.T) {
	helm := helm(t)
	for chart, o := range map[string]fence.FencedOperator{"cluster-manager": fence.ClusterManagerOperator("elsewhere"), "klusterlet": fence.KlusterletOperator("elsewhere")} {
		text := rendered(t, helm, chart, "--namespace", "elsewhere")
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.FencePolicy())
		if err != nil {
			t.Fatal(err)
		}
		key := "ValidatingAdmissionPolicy " + o.FenceName()
		got := parse(t, text)[key].Object["spec"]
		if diff := cmp.Diff(content["spec"], got); diff != "" {
			t.Errorf("%s (-fence +chart):\n%s", chart, diff)
		}
		for name, u := range parse(t, text) {
			if ns := u.GetNamespace(); ns != "" && ns != "elsewhere" {
				t.Errorf("%s is in namespace %s, want that of the release", name, ns)
			}
		}
	}
}

// TestRendered compares charts with golden files, but for the definitions, which
// are those of config/crd: see TestAllWaysInstallTheSame.
func TestRendered(t *testing.T) {
	helm := helm(t)
	for chart := range operators() {
		for name, args := range map[string][]string{"default": nil, "all": all(chart)} {
			documents := strings.Split(rendered(t, helm, chart, args...), "\n---\n")
			documents = slices.DeleteFunc(documents, func(d string) bool {
				return strings.Contains(d, "/templates/definition.yaml") || strings.Contains(d, "/templates/fence.yaml") || strings.Contains(d, "/templates/rbac.yaml")
			})
			got := strings.Join(documents, "\n---\n")
			golden := filepath.Join("testdata", chart+"-"+name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-golden +rendered); after a deliberate change run `go test ./hack/charts -update`:\n%s", golden, diff)
			}
		}
	}
}

// flat returns the leaves that the chart has values for, by their paths.
func flat(t *testing.T, c chart, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := sigsyaml.UnmarshalStrict(content, &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, v := range c.values {
		value, set, err := unstructured.NestedFieldNoCopy(all, strings.Split(v.path, ".")...)
		if err != nil || !set {
			t.Errorf("%s does not set %s", file, v.path)
			continue
		}
		nested := map[string]any{}
		if err := unstructured.SetNestedField(nested, runtime.DeepCopyJSONValue(value), strings.Split(v.path, ".")...); err != nil {
			t.Fatal(err)
		}
		encoded, err := sigsyaml.Marshal(nested)
		if err != nil {
			t.Fatal(err)
		}
		found[v.path] = string(encoded)
	}
	return found
}

// TestEveryValueHasAnEffect sets each value by itself.
func TestEveryValueHasAnEffect(t *testing.T) {
	helm := helm(t)
	const secret = "images.imageCredentials.createImageCredentials=true"
	needs := map[string]string{
		"images.imageCredentials.userName": secret, "images.imageCredentials.password": secret, "images.imageCredentials.dockerConfigJson": secret,
		"klusterlet.clusterName": "klusterlet.name=other", "clusterManager.default": "clusterManager.mode=Hosted",
	}
	for name := range operators() {
		c, err := chartNamed(name, "0.1.0", "quay.io/capstan-io")
		if err != nil {
			t.Fatal(err)
		}
		values := flat(t, c, "testdata/"+name+"-all.values.yaml")
		without := map[string]string{"": rendered(t, helm, name)}
		for _, path := range slices.Sorted(maps.Keys(values)) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(values[path]), 0o600); err != nil {
				t.Fatal(err)
			}
			args, need := []string{"--values", file}, needs[path]
			if need != "" {
				args = append(args, "--set", need)
				if without[need] == "" {
					without[need] = rendered(t, helm, name, "--set", need)
				}
			}
			if without[need] == rendered(t, helm, name, args...) {
				t.Errorf("%s: the value %s changes nothing", name, path)
			}
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	helm := helm(t)
	cases := map[string]struct {
		chart string
		args  []string
		want  string
	}{
		"a mistyped name":                     {"cluster-manager", []string{"--set", "replicas=2"}, "additional properties 'replicas' not allowed"},
		"a mistyped name further down":        {"klusterlet", []string{"--set", "klusterlet.clustername=c1"}, "additional properties 'clustername' not allowed"},
		"a text that should be a number":      {"cluster-manager", []string{"--set-string", "replicaCount=2"}, "got string, want integer"},
		"no pods":                             {"cluster-manager", []string{"--set", "replicaCount=0"}, "minimum"},
		"a mode that a hub has not":           {"cluster-manager", []string{"--set", "clusterManager.mode=Singleton"}, "must be one of 'Default', 'Hosted'"},
		"a mode that a member has not":        {"klusterlet", []string{"--set", "klusterlet.mode=singleton"}, "must be one of"},
		"a gate without a name":               {"cluster-manager", []string{"--set", "clusterManager.workConfiguration.featureGates[0].gate=X"}, "additional properties 'gate' not allowed"},
		"gates that are no list":              {"klusterlet", []string{"--set", "klusterlet.workConfiguration.featureGates=X"}, "got string, want array"},
		"a name that no namespace can have":   {"klusterlet", []string{"--set", "klusterlet.clusterName=A_b"}, "does not match pattern"},
		"a namespace that is not the agents'": {"klusterlet", []string{"--set", "klusterlet.namespace=default"}, "does not match pattern"},
		"a policy that is none":               {"klusterlet", []string{"--set", "images.imagePullPolicy=Sometimes"}, "must be one of"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, helm, tc.chart, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestChartsPassHelmsLint(t *testing.T) {
	helm := helm(t)
	for name := range operators() {
		out, err := exec.CommandContext(t.Context(), helm, "lint", "--strict", filepath.Join(root, "deploy/helm", name)).CombinedOutput()
		if err != nil {
			t.Errorf("helm lint of %s: %v\n%s", name, err, out)
		}
	}
}
