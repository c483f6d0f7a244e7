// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/internal/operator/render"
)

func TestWhatAPushClusterHas(t *testing.T) {
	p := PushInstallation{Cluster: "member1", Hub: "1234", Namespace: "capstan-cluster"}
	objects, err := p.RenderObjects()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		u, err := render.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, u.GetKind()+" "+u.GetName())
		if diff := cmp.Diff(p.Labels(), u.GetLabels()); diff != "" {
			t.Errorf("%s %s is not found by its labels when the cluster leaves (-want +got):\n%s", u.GetKind(), u.GetName(), diff)
		}
		role := &rbacv1.ClusterRole{} // Role has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				if slices.Contains(list, "*") {
					t.Errorf("%s %s has a wildcard: %v", u.GetKind(), u.GetName(), rule)
				}
			}
			if slices.Contains(rule.Resources, "serviceaccounts/token") && !slices.Equal(rule.ResourceNames, []string{"capstan-member1"}) {
				t.Errorf("tokens may be had of %q, not of the own account only", rule.ResourceNames)
			}
		}
	}
	want := []string{
		"ClusterRole capstan:capstan-cluster:member1:agent", "ClusterRole capstan:capstan-cluster:member1:execution",
		"ClusterRole capstan:capstan-cluster:member1:aggregate", "ServiceAccount capstan-member1",
		"ClusterRoleBinding capstan:capstan-cluster:member1:agent", "ClusterRoleBinding capstan:capstan-cluster:member1:execution",
		"ClusterRoleBinding capstan:capstan-cluster:member1:aggregate", "ClusterRoleBinding capstan:capstan-cluster:member1:admin",
		"Role capstan-member1:token", "RoleBinding capstan-member1:token",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("the objects differ (-want +got):\n%s", diff)
	}
}

// TestAPushClusterMayHaveOneMoreRole has the user name a role.
func TestAPushClusterMayHaveOneMoreRole(t *testing.T) {
	p := PushInstallation{Cluster: "member1", Hub: "1234", Namespace: "capstan-cluster"}
	objects, err := p.RenderObjects()
	if err != nil {
		t.Fatal(err)
	}
	p.Role = "cluster-admin"
	with, err := p.RenderObjects()
	if err != nil || len(with) != len(objects)+1 {
		t.Fatalf("with a role there are %d objects and not one more than %d, error %v", len(with), len(objects), err)
	}
	u, err := render.ToUnstructured(with[len(objects)])
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, binding); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Labels(), binding.Labels); diff != "" || binding.RoleRef.Name != "cluster-admin" || !slices.Equal(binding.Subjects, []rbacv1.Subject{p.Account()}) {
		t.Errorf("the role is bound by %+v", binding)
	}
}
