// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

// overriddenBy is which objects a policy of the hub changes in which clusters. The objects
// are a Deployment and four that differ from it in version, kind, namespace, or name and
// labels.
func overriddenBy(t *testing.T, spec policyv1alpha1.OverrideSpec) string {
	t.Helper()
	var all []string
	for _, o := range [][5]string{
		{"web", "apps/v1", "Deployment", "shop", "web"},
		{"old", "apps/v1beta1", "Deployment", "shop", "web"},
		{"set", "apps/v1", "StatefulSet", "shop", "web"},
		{"bank", "apps/v1", "Deployment", "bank", "web"},
		{"db", "apps/v1", "Deployment", "shop", "db"},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": o[1], "kind": o[2], "spec": map[string]any{"replicas": int64(1)},
			"metadata": map[string]any{"namespace": o[3], "name": o[4], "labels": map[string]any{"app": o[4]}},
		}}
		policies := selected(t, object, []policyv1alpha1.ClusterOverridePolicy{everywhere("all", spec)})
		for _, cluster := range []*view.Cluster{
			{Name: "paris", Region: "eu", Labels: map[string]string{"env": "prod"}}, {Name: "rome", Region: "eu"}, {Name: "lima", Region: "sa"},
		} {
			changed, _, err := policies.ApplyToObject(object, cluster)
			if err != nil {
				return "error: " + err.Error()
			}
			if at(t, changed, "spec", "replicas") != int64(1) {
				all = append(all, fmt.Sprintf("%s in %s", o[0], cluster.Name))
			}
		}
	}
	return strings.Join(all, ", ")
}

// Each field that says what is changed, and where, does something: without it, the same
// change is made elsewhere, or none.
func TestFields(t *testing.T) {
	const (
		exact    = "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web}]"
		labelled = "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, namespace: shop, labelSelector: {matchLabels: {app: web}}}]"
		double   = `overriders: {plaintext: [{path: /spec/replicas, operator: replace, value: 2}]}`
		ruled    = "{" + exact + ", overrideRules: [{" + double + ", targetCluster: %s}]}"
		old      = "{" + exact + ", " + double + ", targetCluster: %s}"

		names, exclude, labels, region = "{clusterNames: [paris]}", "{exclude: [paris]}", "{labelSelector: {matchLabels: {env: prod}}}",
			"{fieldSelector: {matchExpressions: [{key: region, operator: NotIn, values: [eu]}]}}"
		target, expected = "targetCluster.", "targetCluster.fieldSelector.matchExpressions[0]."
		rule             = "overrideRules[0]."
		inAll            = "web in paris, web in rome, web in lima"
	)
	for name, tc := range map[string]struct{ field, spec, want string }{
		"version":   {"resourceSelectors[0].apiVersion", "{" + exact + ", " + double + "}", inAll},
		"kind":      {"resourceSelectors[0].kind", "{" + exact + ", " + double + "}", inAll},
		"namespace": {"resourceSelectors[0].namespace", "{" + exact + ", " + double + "}", inAll},
		"name":      {"resourceSelectors[0].name", "{" + exact + ", " + double + "}", inAll},
		"labels":    {"resourceSelectors[0].labelSelector", "{" + labelled + ", " + double + "}", inAll},

		"clusters of a rule": {rule + target + "clusterNames", fmt.Sprintf(ruled, names), "web in paris"},
		"exclude of a rule":  {rule + target + "exclude", fmt.Sprintf(ruled, exclude), "web in rome, web in lima"},
		"labels of a rule":   {rule + target + "labelSelector", fmt.Sprintf(ruled, labels), "web in paris"},
		"key of a rule":      {rule + expected + "key", fmt.Sprintf(ruled, region), "web in lima"},
		"operator of a rule": {rule + expected + "operator", fmt.Sprintf(ruled, region), "web in lima"},
		"values of a rule":   {rule + expected + "values", fmt.Sprintf(ruled, region), "web in lima"},

		"overriders": {"overriders", "{" + exact + ", " + double + "}", inAll},
		"clusters":   {target + "clusterNames", fmt.Sprintf(old, names), "web in paris"},
		"exclude":    {target + "exclude", fmt.Sprintf(old, exclude), "web in rome, web in lima"},
		"at labels":  {target + "labelSelector", fmt.Sprintf(old, labels), "web in paris"},
		"key":        {expected + "key", fmt.Sprintf(old, region), "web in lima"},
		"operator":   {expected + "operator", fmt.Sprintf(old, region), "web in lima"},
		"values":     {expected + "values", fmt.Sprintf(old, region), "web in lima"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := overriddenBy(t, specs.ParseSpec[policyv1alpha1.OverrideSpec](t, tc.spec)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if overriddenBy(t, specs.ParseWithout[policyv1alpha1.OverrideSpec](t, tc.spec, tc.field)) == tc.want {
				t.Errorf("without spec.%s it is %q, too", tc.field, tc.want)
			}
		})
	}
}
