// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

func object(apiVersion, kind, namespace, name string, labels map[string]string) Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
	}
}

func TestPriority(t *testing.T) {
	web := object("apps/v1", "Deployment", "shop", "web", map[string]string{"app": "web"})
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader", nil)
	deployment := func(more policyv1alpha1.ResourceSelector) policyv1alpha1.ResourceSelector {
		more.APIVersion, more.Kind = "apps/v1", "Deployment"
		return more
	}
	labelled := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
	}
	for name, test := range map[string]struct {
		object    Object
		namespace string
		selectors []policyv1alpha1.ResourceSelector
		want      Priority
	}{
		"no selectors":               {web, "shop", nil, None},
		"all of the kind":            {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{})}, ByKind},
		"labels":                     {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{LabelSelector: labelled("web")})}, ByLabels},
		"empty label selector":       {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{LabelSelector: &metav1.LabelSelector{}})}, ByLabels},
		"other labels":               {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{LabelSelector: labelled("db")})}, None},
		"name":                       {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{Name: "web"})}, ByName},
		"name, whatever its labels":  {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{Name: "web", LabelSelector: labelled("db")})}, ByName},
		"other name, whatever else":  {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{Name: "db", LabelSelector: labelled("web")})}, None},
		"the most exact counts":      {web, "shop", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{}), deployment(policyv1alpha1.ResourceSelector{Name: "web"}), deployment(policyv1alpha1.ResourceSelector{LabelSelector: labelled("web")})}, ByName},
		"other version":              {web, "shop", []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1beta1", Kind: "Deployment"}}, None},
		"other kind":                 {web, "shop", []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "deployment"}}, None},
		"other namespace of policy":  {web, "bank", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{Name: "web"})}, None},
		"cluster policy":             {web, "", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{})}, ByKind},
		"cluster policy, namespace":  {web, "", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{Namespace: "shop", Name: "web"})}, ByName},
		"cluster policy, other":      {web, "", []policyv1alpha1.ResourceSelector{deployment(policyv1alpha1.ResourceSelector{Namespace: "bank", Name: "web"})}, None},
		"no namespace":               {role, "", []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}}, ByKind},
		"no namespace, but a policy": {role, "shop", []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "reader"}}, None},
	} {
		t.Run(name, func(t *testing.T) {
			selectors, problems := CompileSelectors(test.namespace, test.selectors, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := selectors.PriorityOf(test.object); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// TestManyTermsSelectNothing has the label selectors of a policy have more values than
// all objects of a namespace can be compared with.
func TestManyTermsSelectNothing(t *testing.T) {
	terms := func(n int) (Selectors, field.ErrorList) {
		selectors := []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"}}
		for range 10 {
			values := make([]string, n/10)
			for i := range values {
				values[i] = fmt.Sprint(i)
			}
			selectors = append(selectors, policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: values}},
			}})
		}
		return CompileSelectors("shop", selectors, field.NewPath("spec", "resourceSelectors"))
	}
	if selectors, problems := terms(labelselector.TermsMax); len(selectors) != 11 || len(problems) > 0 {
		t.Errorf("of as many as there may be %d selectors are used, and these are wrong: %v", len(selectors), problems)
	}
	if selectors, problems := terms(labelselector.TermsMax + 10); len(selectors) > 0 || len(problems) != 1 || problems[0].Field != "spec.resourceSelectors" {
		t.Errorf("of more %d selectors are used, and these are wrong: %v", len(selectors), problems)
	}
}

func TestMistakesNameTheirFieldAndSelectNothing(t *testing.T) {
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	selectors, problems := CompileSelectors("shop", []policyv1alpha1.ResourceSelector{
		{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "bank"},
		{APIVersion: "v1", Kind: "Secret", LabelSelector: wrong},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "settings", LabelSelector: wrong},
	}, field.NewPath("spec", "resourceSelectors"))
	for i, want := range []string{
		`spec.resourceSelectors[0].namespace: Invalid value: "bank": must be the namespace of the policy, or empty`,
		"spec.resourceSelectors[1].labelSelector: Invalid value",
	} {
		if len(problems) != 2 || !strings.HasPrefix(problems[i].Error(), want) {
			t.Errorf("got %v, want %s", problems, want)
		}
	}
	for _, test := range []struct {
		object Object
		want   Priority
	}{
		{object("apps/v1", "Deployment", "shop", "web", nil), None},
		{object("apps/v1", "Deployment", "bank", "web", nil), None},
		{object("v1", "Secret", "shop", "token", nil), None},
		{object("v1", "ConfigMap", "shop", "settings", nil), ByName},
	} {
		if got := selectors.PriorityOf(test.object); got != test.want {
			t.Errorf("%s: got %d, want %d", test.object.GetName(), got, test.want)
		}
	}
}
