// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

func text(value string) policyv1alpha1.JSON { return policyv1alpha1.JSON{Raw: []byte(value)} }

func set(path, value string) policyv1alpha1.PlaintextOverrider {
	return policyv1alpha1.PlaintextOverrider{Path: path, Operator: policyv1alpha1.OverriderOpAdd, Value: text(value)}
}

func plain(all ...policyv1alpha1.PlaintextOverrider) policyv1alpha1.Overriders {
	return policyv1alpha1.Overriders{Plaintext: all}
}

// inNames is a rule for clusters by name; none are all.
func inNames(o policyv1alpha1.Overriders, clusters ...string) policyv1alpha1.RuleWithCluster {
	r := policyv1alpha1.RuleWithCluster{Overriders: o}
	if len(clusters) > 0 {
		r.TargetCluster = &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}
	}
	return r
}

func rules(all ...policyv1alpha1.RuleWithCluster) spec { return spec{OverrideRules: all} }

func selected(t *testing.T, object *unstructured.Unstructured, clusterPolicies []policyv1alpha1.ClusterOverridePolicy, policies ...policyv1alpha1.OverridePolicy) Policies {
	t.Helper()
	all, err := SelectPolicies(object, clusterPolicies, policies)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// overridden is what a cluster gets if one policy has one rule.
func overridden(t *testing.T, object *unstructured.Unstructured, o policyv1alpha1.Overriders) (*unstructured.Unstructured, error) {
	t.Helper()
	return overriddenWithin(t, object, o, effortMax)
}

// overriddenWithin overrides an object for as much effort as there is.
func overriddenWithin(t *testing.T, object *unstructured.Unstructured, o policyv1alpha1.Overriders, most int) (*unstructured.Unstructured, error) {
	t.Helper()
	before := object.DeepCopy()
	changed, _, err := selected(t, object, nil, own(object.GetNamespace(), "one", rules(inNames(o)))).
		applyWithin(object, &view.Cluster{Name: "paris"}, &effortBudget{left: most})
	if diff := cmp.Diff(before.Object, object.Object); diff != "" {
		t.Errorf("the object itself was changed (-before +after):\n%s", diff)
	}
	return changed, err
}

func containersOf(t *testing.T, object *unstructured.Unstructured) []map[string]any {
	t.Helper()
	all, err := podContainers(object, &effortBudget{left: effortMax})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func at(t *testing.T, object *unstructured.Unstructured, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestRulesOfTheClusterInTheirOrder(t *testing.T) {
	all := selected(t, web(),
		[]policyv1alpha1.ClusterOverridePolicy{
			everywhere("base", rules(inNames(plain(set("/spec/replicas", "1"), set("/spec/paused", "true"))))),
			everywhere("exact", spec{
				ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
				OverrideRules:     []policyv1alpha1.RuleWithCluster{inNames(plain(set("/spec/replicas", "2")), "paris")},
			}),
		},
		own("shop", "own", rules(
			inNames(plain(set("/spec/replicas", "5")), "paris", "rome"),
			inNames(plain(set("/spec/replicas", "6")), "rome"),
			inNames(plain(set("/spec/minReadySeconds", "9")), "oslo"),
		)),
		own("shop", "previous-form", spec{
			TargetCluster: &policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: "In", Values: []string{"eu"}}},
			}},
			Overriders: plain(set("/spec/replicas", "7")),
		}),
	)
	entry := func(policy, path, value string) string {
		return `{"policyName":"` + policy + `","overriders":{"plaintext":[{"path":"` + path + `","operator":"add","value":` + value + `}]}}`
	}
	base := `{"policyName":"base","overriders":{"plaintext":[{"path":"/spec/replicas","operator":"add","value":1},{"path":"/spec/paused","operator":"add","value":true}]}}`
	for cluster, want := range map[*view.Cluster]struct {
		replicas int64
		applied  AppliedOverrides
	}{
		{Name: "paris"}: {5, AppliedOverrides{
			"[" + base + "," + entry("exact", "/spec/replicas", "2") + "]",
			"[" + entry("own", "/spec/replicas", "5") + "]",
		}},
		{Name: "rome"}: {6, AppliedOverrides{
			"[" + base + "]",
			"[" + entry("own", "/spec/replicas", "5") + "," + entry("own", "/spec/replicas", "6") + "]",
		}},
		{Name: "bern", Region: "eu"}: {7, AppliedOverrides{"[" + base + "]", "[" + entry("previous-form", "/spec/replicas", "7") + "]"}},
		{Name: "lima", Region: "sa"}: {1, AppliedOverrides{"[" + base + "]", ""}},
	} {
		t.Run(cluster.Name, func(t *testing.T) {
			changed, applied, err := all.ApplyToObject(web(), cluster)
			if err != nil {
				t.Fatal(err)
			}
			if got := at(t, changed, "spec", "replicas"); got != want.replicas {
				t.Errorf("replicas: %v, want %d", got, want.replicas)
			}
			if diff := cmp.Diff(want.applied, applied); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}

// Each kind of change sees what the ones before it in this list have done.
func TestOrderWithinARule(t *testing.T) {
	const command = "/spec/template/spec/containers/0/command"
	add := policyv1alpha1.OverriderOpAdd
	changed, err := overridden(t, web(), policyv1alpha1.Overriders{
		Plaintext: []policyv1alpha1.PlaintextOverrider{
			{Path: command + "/0", Operator: "replace", Value: text(`"plaintext"`)},
			{Path: "/metadata/annotations/settings", Operator: "replace", Value: text(`"plaintext is last"`)},
			{Path: "/spec/template/spec/containers/0/image", Operator: "replace", Value: text(`"plaintext:1"`)},
		},
		FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/metadata/annotations/settings", JSON: []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: add, Value: text("1")}}}},
		AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: add, Value: map[string]string{"settings": "{}"}},
		},
		LabelsOverrider:  []policyv1alpha1.LabelAnnotationOverrider{{Operator: add, Value: map[string]string{"tier": "front"}}},
		ArgsOverrider:    []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: "add", Value: []string{"--args"}}},
		CommandOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: "remove", Value: []string{"-v"}}},
		ImageOverrider:   []policyv1alpha1.ImageOverrider{{Component: "Tag", Operator: "replace", Value: "2.0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	containers := at(t, changed, "spec", "template", "spec", "containers").([]any)
	want := map[string]any{"name": "web", "image": "plaintext:1", "command": []any{"plaintext"}, "args": []any{"--port=80", "--args"}}
	if diff := cmp.Diff(want, containers[0]); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if got := changed.GetAnnotations()["settings"]; got != "plaintext is last" {
		t.Errorf("annotation: %q", got)
	}
	if got := changed.GetLabels()["tier"]; got != "front" {
		t.Errorf("label: %q", got)
	}
}

func TestNothingToDo(t *testing.T) {
	for name, policies := range map[string]Policies{
		"no policy":        nil,
		"no rule":          selected(t, web(), nil, own("shop", "empty", spec{OverrideRules: []policyv1alpha1.RuleWithCluster{}, TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"rome"}}})),
		"another cluster":  selected(t, web(), nil, own("shop", "rome", rules(inNames(plain(set("/spec/replicas", "1")), "rome")))),
		"another location": selected(t, web(), []policyv1alpha1.ClusterOverridePolicy{everywhere("rome", rules(inNames(plain(set("/spec/replicas", "1")), "rome")))}),
	} {
		object := web()
		changed, applied, err := policies.ApplyToObject(object, &view.Cluster{Name: "paris"})
		if err != nil || applied != (AppliedOverrides{}) {
			t.Errorf("%s: %v, %v", name, applied, err)
		}
		if diff := cmp.Diff(object.Object, changed.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		unstructured.RemoveNestedField(changed.Object, "spec", "template")
		if at(t, object, "spec", "template") == nil {
			t.Errorf("%s: the result shares with the object", name)
		}
	}
}

func TestErrorsNamePolicyAndField(t *testing.T) {
	object := web()
	for name, test := range map[string]struct {
		spec spec
		want string
	}{
		"patch": {
			rules(inNames(plain(set("/spec/replicas", "1"))), inNames(plain(set("/spec/replicas", "1"), set("/spec/no/where", "1")))),
			"OverridePolicy shop/broken: spec.overrideRules[1].overriders.plaintext[1]: add /spec/no/where: there is nothing at this path",
		},
		"previous form": {
			spec{Overriders: policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{Component: "Name", Operator: "remove"}}}},
			`OverridePolicy shop/broken: spec.overriders.imageOverrider[0]: container "init": unknown component "Name": use Registry, Repository or Tag`,
		},
		"selection of clusters": {
			rules(policyv1alpha1.RuleWithCluster{TargetCluster: &policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "planet", Operator: "In", Values: []string{"earth"}}},
			}}}),
			"OverridePolicy shop/broken: spec.overrideRules[0].targetCluster.fieldSelector.matchExpressions[0].key: Unsupported value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			policies := selected(t, object, nil, own("shop", "a", rules(inNames(plain(set("/spec/replicas", "9"))))), own("shop", "broken", test.spec))
			changed, applied, err := policies.ApplyToObject(object, &view.Cluster{Name: "paris"})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if changed != nil || applied != (AppliedOverrides{}) {
				t.Errorf("something came with the error: %v, %v", changed, applied)
			}
			if diff := cmp.Diff(web().Object, object.Object); diff != "" {
				t.Errorf("the object itself was changed (-before +after):\n%s", diff)
			}
		})
	}
}
