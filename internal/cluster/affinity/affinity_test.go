// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

func where(all ...corev1.NodeSelectorRequirement) *policyv1alpha1.ClusterAffinity {
	return &policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{MatchExpressions: all}}
}

func is(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func TestMatches(t *testing.T) {
	paris := &view.Cluster{
		Name: "paris", Labels: map[string]string{"env": "prod"},
		Provider: "acme", Region: "eu", Zones: []string{"eu-1", "eu-2"},
	}
	nowhere := &view.Cluster{Name: "nowhere"}
	boasting := &view.Cluster{Name: "boasting", Region: "eu", Reported: view.Reported{Region: true}}
	const in, notIn = corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	for name, test := range map[string]struct {
		affinity *policyv1alpha1.ClusterAffinity
		cluster  *view.Cluster
		want     string // the objection
	}{
		"none":                    {nil, paris, ""},
		"empty":                   {&policyv1alpha1.ClusterAffinity{}, paris, ""},
		"empty of everything":     {&policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{}, FieldSelector: &policyv1alpha1.FieldSelector{}, ClusterNames: []string{}}, paris, ""},
		"by name":                 {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"rome", "paris"}}, paris, ""},
		"other names":             {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"rome", "oslo"}}, paris, "its name is not one of oslo, rome"},
		"excluded although named": {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"paris"}, ExcludeClusters: []string{"paris"}}, paris, "it is excluded by name"},
		"others are excluded":     {&policyv1alpha1.ClusterAffinity{ExcludeClusters: []string{"rome"}}, paris, ""},
		"by labels":               {&policyv1alpha1.ClusterAffinity{LabelSelector: prod}, paris, ""},
		"without labels":          {&policyv1alpha1.ClusterAffinity{LabelSelector: prod}, nowhere, `its labels do not match "env=prod"`},
		"named, but not labelled": {&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"nowhere"}, LabelSelector: prod}, nowhere, `its labels do not match "env=prod"`},
		"region":                  {where(is("region", in, "us", "eu")), paris, ""},
		"other region":            {where(is("region", in, "us", "asia")), paris, `its region is "eu", not one of us, asia`},
		"not in region":           {where(is("region", notIn, "eu")), paris, `its region is "eu"`},
		"not in other regions":    {where(is("region", notIn, "us")), paris, ""},
		"region by its own word":  {where(is("region", in, "us")), boasting, `its region is "eu" by its own word, not one of us`},
		"region not known":        {where(is("region", in, "eu")), nowhere, "its region is not known"},
		"not in any, not known":   {where(is("region", notIn, "eu"), is("zone", notIn, "eu-1"), is("provider", notIn, "acme")), nowhere, ""},
		"not known is not empty":  {where(is("provider", in, "")), nowhere, "its provider is not known"},
		"one of its zones":        {where(is("zone", in, "eu-2", "eu-3")), paris, ""},
		"none of its zones":       {where(is("zone", in, "eu-3")), paris, `its zone is "eu-1,eu-2", not one of eu-3`},
		"not in one of its zones": {where(is("zone", notIn, "eu-2")), paris, `its zone is "eu-1,eu-2"`},
		"all have to be met":      {where(is("provider", in, "acme"), is("zone", notIn, "us-1"), is("region", in, "us")), paris, `its region is "eu", not one of us`},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, problems := CompileAffinity(test.affinity, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := compiled.ExplainMismatch(test.cluster); got != test.want {
				t.Errorf("objection: %q, want %q", got, test.want)
			}
			matches, err := MatchesCluster(test.affinity, test.cluster)
			if err != nil || matches != (test.want == "") {
				t.Errorf("matches: %v, %v", matches, err)
			}
		})
	}
}

func TestMistakesNameTheirField(t *testing.T) {
	for want, affinity := range map[string]*policyv1alpha1.ClusterAffinity{
		"spec.x.labelSelector: Invalid value": {LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Near"}},
		}},
		`spec.x.fieldSelector.matchExpressions[1].key: Unsupported value: "planet": supported values: "provider", "region", "zone"`: where(is("zone", "In", "a"), is("planet", "In", "earth")),
		`spec.x.fieldSelector.matchExpressions[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"`:           where(is("zone", "Exists", "a")),
		"spec.x.fieldSelector.matchExpressions[0].values: Required value":                                                           where(is("zone", "In")),
	} {
		if _, problems := CompileAffinity(affinity, field.NewPath("spec", "x")); len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("got %v, want %s", problems, want)
		}
		if matches, err := MatchesCluster(affinity, &view.Cluster{Name: "paris", Zones: []string{"a"}}); matches || err == nil {
			t.Errorf("%s: matches: %v, %v", want, matches, err)
		}
	}
}

// TestAnObjectionNamesAFew is said of each cluster of a fleet: with 10,000 names in each, the
// reasons of one decision would have gigabytes.
func TestAnObjectionNamesAFew(t *testing.T) {
	names := make([]string, 0, 100)
	for i := range 100 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	compiled, problems := CompileAffinity(&policyv1alpha1.ClusterAffinity{ClusterNames: names}, field.NewPath("spec"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	const want = "its name is not one of c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 90 more"
	if got := compiled.ExplainMismatch(&view.Cluster{Name: "paris"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
