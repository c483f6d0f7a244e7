// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/events"
)

func TestWhatPoliciesNeed(t *testing.T) {
	spec := func(deps bool, selectors ...policyv1alpha1.ResourceSelector) policyv1alpha1.PropagationSpec {
		return policyv1alpha1.PropagationSpec{PropagateDeps: deps, ResourceSelectors: selectors}
	}
	of := func(apiVersion, kind string) policyv1alpha1.ResourceSelector {
		return policyv1alpha1.ResourceSelector{APIVersion: apiVersion, Kind: kind}
	}
	cases := map[string]struct {
		reason                  string
		spec                    policyv1alpha1.PropagationSpec
		templates, dependencies []string
		refused                 string
	}{
		"a kind": {
			reason: "nobody asked for what it refers to",
			spec:   spec(false, of("apps/v1", "Deployment"), of("apps/v1", "Deployment")), templates: []string{"apps/v1, Kind=Deployment"},
		},
		"with dependencies": {
			reason: "a ServiceAccount refers to Secrets itself",
			spec:   spec(true, of("batch/v1", "Job")), templates: []string{"batch/v1, Kind=Job"},
			dependencies: []string{"/v1, Kind=ConfigMap", "/v1, Kind=PersistentVolumeClaim", "/v1, Kind=Secret", "/v1, Kind=ServiceAccount"},
		},
		"dependencies of a kind that has none": {
			reason: "there is nothing to be sent along", spec: spec(true, of("example.com/v1", "Widget")),
			templates: []string{"example.com/v1, Kind=Widget"},
		},
		"a kind that is reserved": {
			reason: "the other one is sent all the same",
			spec:   spec(true, of("v1", "Node"), of("v1", "Node"), of("v1", "ConfigMap")), templates: []string{"/v1, Kind=ConfigMap"},
			refused: "Node of v1: it is a machine of the hub",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kinds := newKinds()
			refused := kinds.addPolicy(c.spec)
			if diff := cmp.Diff(c.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			text := func(set sets.Set[schema.GroupVersionKind]) sets.Set[string] {
				all := sets.New[string]()
				for kind := range set {
					all.Insert(kind.String())
				}
				return all
			}
			if diff := cmp.Diff(sets.New(c.templates...), text(kinds.Templates)); diff != "" {
				t.Errorf("%s: templates (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(sets.New(c.dependencies...), text(kinds.Dependencies)); diff != "" {
				t.Errorf("%s: dependencies (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestFewKindsAreNamed is about what is logged of policies with any number of kinds, of
// any length, that nobody serves.
func TestFewKindsAreNamed(t *testing.T) {
	names := []string{"a/v1, Kind=A", "b/v1, Kind=B"}
	if got := describeKinds(names); got != "a/v1, Kind=A; b/v1, Kind=B" {
		t.Errorf("of two it says %q", got)
	}
	for len(names) < 1000 {
		names = append(names, fmt.Sprintf("c%d/v1, Kind=C", len(names)))
	}
	if got := describeKinds(names); !strings.HasSuffix(got, "; c9/v1, Kind=C; and 990 more") {
		t.Errorf("of a thousand it says %q", got)
	}
	if got := describeKinds([]string{strings.Repeat("a", 1<<20)}); len(got) > events.NoteBytesMax {
		t.Errorf("of a long one it says %d bytes", len(got))
	}
}

func TestRules(t *testing.T) {
	of := newResources()
	of.Templates.Insert(schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Resource: "secrets"})
	of.Dependencies.Insert(schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Resource: "secrets"})
	rules := RulesForResources(of)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups: []string{""}, Verbs: []string{"patch", "update"},
			Resources: []string{"configmaps/finalizers", "configmaps/status", "secrets/finalizers", "secrets/status"},
		},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments/finalizers", "deployments/status"}, Verbs: []string{"patch", "update"}},
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	held := granted(rules)
	if diff := cmp.Diff(rules, RulesForResources(held)); diff != "" {
		t.Errorf("what the rules grant makes other rules (-want +got):\n%s", diff)
	}
	if some := held.filterResources(func(of schema.GroupResource) bool { return of.Group == "batch" }); len(some.Templates)+len(some.Dependencies) != 0 {
		t.Errorf("rules of other groups count: %v", some)
	}
}
