// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

type spec = policyv1alpha1.OverrideSpec

func own(namespace, name string, s spec) policyv1alpha1.OverridePolicy {
	return policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: s}
}

func everywhere(name string, s spec) policyv1alpha1.ClusterOverridePolicy {
	return policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: s}
}

func selecting(selectors ...policyv1alpha1.ResourceSelector) spec {
	for i := range selectors {
		selectors[i].APIVersion, selectors[i].Kind = "apps/v1", "Deployment"
	}
	return spec{ResourceSelectors: selectors}
}

func byLabel(value string) policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}}
}

func byName(name string) policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{Name: name}
}

// web is a Deployment as it is on the hub.
func web() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"namespace": "shop", "name": "web", "labels": map[string]any{"app": "web"}},
		"spec": map[string]any{
			"replicas": int64(3),
			"template": map[string]any{"spec": map[string]any{
				"initContainers": []any{map[string]any{"name": "init", "image": "busybox", "command": []any{"sh", "-c"}}},
				"containers": []any{
					map[string]any{"name": "web", "image": "quay.io/shop/web:1.0", "command": []any{"serve", "-v", "-v"}, "args": []any{"--port=80"}},
					map[string]any{"name": "side", "image": "side@sha256:" + strings.Repeat("a", 64)},
				},
			}},
		},
	}}
}

// TestManyTermsHoldTheObjectBack is about a policy that admission has not refused.
func TestManyTermsHoldTheObjectBack(t *testing.T) {
	clusters := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: make([]string, 501)}},
	}}
	rules := []policyv1alpha1.RuleWithCluster{{TargetCluster: clusters}, {TargetCluster: clusters}}
	policies, err := SelectPolicies(web(), nil, []policyv1alpha1.OverridePolicy{own("shop", "many", spec{OverrideRules: rules})})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = policies.ApplyToObject(web(), &view.Cluster{Name: "a"}); err == nil || !strings.HasPrefix(err.Error(), "OverridePolicy shop/many: spec: Too many: 1002") {
		t.Errorf("it is applied: %v", err)
	}
}

// TestWhichPoliciesExpand tells those that change documents from others.
func TestWhichPoliciesExpand(t *testing.T) {
	inText := policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/config"}}}
	for want, overriders := range map[bool]policyv1alpha1.Overriders{true: inText, false: plain(set("/spec/paused", "true"))} {
		policies, err := SelectPolicies(web(), nil, []policyv1alpha1.OverridePolicy{own("shop", "a", rules()), own("shop", "b", rules(inNames(plain(), "x"), inNames(overriders, "y")))})
		if err != nil || policies.ExpandsDocuments() != want {
			t.Errorf("%+v: it says %t, and %v", overriders, policies.ExpandsDocuments(), err)
		}
	}
}

// TestPoliciesAboutAnObjectAreBounded has long policies for clusters that there are not.
func TestPoliciesAboutAnObjectAreBounded(t *testing.T) {
	long := inNames(policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
		Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"a": strings.Repeat("x", 1<<20)},
	}}}, "nowhere")
	var about, others []policyv1alpha1.OverridePolicy
	for i := range 40 {
		about = append(about, own("shop", fmt.Sprint(i), rules(long)))
		of := selecting(byName("db"))
		of.OverrideRules = rules(long).OverrideRules
		others = append(others, own("shop", fmt.Sprint(i), of))
	}
	if _, err := SelectPolicies(web(), nil, append(others, about[:7]...)); err != nil {
		t.Errorf("seven megabytes are refused: %v", err)
	}
	policies, err := SelectPolicies(web(), nil, about)
	if err == nil || !strings.Contains(err.Error(), "together") || len(policies) > 8 {
		t.Errorf("%d policies of a megabyte are about an object, and the mistake is %v", len(policies), err)
	}
}

// TestWhatAWorkCannotRecordIsRefused has rules that change nothing, each of which a work would record.
func TestWhatAWorkCannotRecordIsRefused(t *testing.T) {
	removes := policyv1alpha1.Overriders{AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
		Operator: policyv1alpha1.OverriderOpRemove, Value: map[string]string{"a": strings.Repeat("x", 100<<10)},
	}}}
	for count, refused := range map[int]bool{2: false, 3: true} {
		all := selected(t, web(), nil, own("shop", "many", rules(times(count, inNames(removes))...)))
		_, applied, err := all.ApplyToObject(web(), &view.Cluster{Name: "a"})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "can record") || len(applied.Overrides) > appliedBytesMax {
			t.Errorf("of %d rules a work records %d bytes, and the problem is %v", count, len(applied.Overrides), err)
		}
	}
}

func names(policies Policies) []string {
	var all []string
	for _, p := range policies {
		all = append(all, p.String())
	}
	return all
}

func TestSelectInTheOrderOfApplication(t *testing.T) {
	wrong := policyv1alpha1.ResourceSelector{LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}},
	}}
	policies, err := SelectPolicies(web(),
		[]policyv1alpha1.ClusterOverridePolicy{
			everywhere("name", selecting(byName("web"))),
			everywhere("b-labels", selecting(byLabel("web"))),
			everywhere("a-labels", selecting(byLabel("web"))),
			everywhere("all", spec{}),
			everywhere("kind", selecting(policyv1alpha1.ResourceSelector{})),
			everywhere("elsewhere", selecting(policyv1alpha1.ResourceSelector{Namespace: "bank"})),
			everywhere("not", selecting(byName("db"))),
			everywhere("wrong", selecting(wrong)),
		},
		[]policyv1alpha1.OverridePolicy{
			own("shop", "a-name", selecting(byName("db"), byName("web"))),
			own("shop", "z-all", spec{}),
			own("shop", "labels", selecting(wrong, byLabel("web"))),
			own("shop", "other-labels", selecting(byLabel("db"))),
			own("bank", "all-of-bank", spec{}),
			own("bank", "reaches", selecting(policyv1alpha1.ResourceSelector{Namespace: "shop", Name: "web"})),
		})
	want := []string{
		"ClusterOverridePolicy all", "ClusterOverridePolicy kind", "ClusterOverridePolicy a-labels",
		"ClusterOverridePolicy b-labels", "ClusterOverridePolicy name",
		"OverridePolicy shop/z-all", "OverridePolicy shop/labels", "OverridePolicy shop/a-name",
	}
	if diff := cmp.Diff(want, names(policies)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for _, mistake := range []string{
		"ClusterOverridePolicy wrong: spec.resourceSelectors[0].labelSelector: Invalid value",
		"OverridePolicy shop/labels: spec.resourceSelectors[0].labelSelector: Invalid value",
	} {
		if err == nil || !strings.Contains(err.Error(), mistake) {
			t.Errorf("got %v, want %s", err, mistake)
		}
	}
	if err != nil && strings.Contains(err.Error(), "bank") {
		t.Errorf("a policy of another namespace was looked at: %v", err)
	}
}

func TestSelectForAnObjectWithoutNamespace(t *testing.T) {
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "reader"},
	}}
	policies, err := SelectPolicies(role,
		[]policyv1alpha1.ClusterOverridePolicy{everywhere("all", spec{})},
		[]policyv1alpha1.OverridePolicy{own("shop", "all", spec{})})
	if diff := cmp.Diff([]string{"ClusterOverridePolicy all"}, names(policies)); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s\n%v", diff, err)
	}
}
