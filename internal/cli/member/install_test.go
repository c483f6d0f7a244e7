// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/env"
)

// TestAnotherRoleTakesThePlaceOfTheFormerOne installs with one role after the other. What join did not
// make stays, whatever its name or its labels are, and so does what other clusters have.
func TestAnotherRoleTakesThePlaceOfTheFormerOne(t *testing.T) {
	_, config := env.Start(t)
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	push := PushInstallation{Cluster: "member1", Hub: "1234", Namespace: "capstan-cluster", Role: "cluster-admin"}
	other := PushInstallation{Cluster: "member2", Hub: "1234", Namespace: "capstan-cluster", Role: "cluster-admin"}
	install := func(p PushInstallation) {
		t.Helper()
		if err := p.InstallInMember(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	install(push)
	install(other)
	byHand := map[string]map[string]string{"capstan:capstan-cluster:member1:role:admin": nil, "by-hand": push.Labels()}
	for name, labels := range byHand {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}, Subjects: []rbacv1.Subject{push.Account()},
		}
		if err := c.Create(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
	has := func(roles ...string) {
		t.Helper()
		if diff := cmp.Diff(boundRoles(push, roles...), rolesOf(t, c, push.Account())); diff != "" {
			t.Errorf("the bindings are (-want +got):\n%s", diff)
		}
	}
	theirs := rolesOf(t, c, other.Account())
	has("cluster-admin")
	for _, role := range []string{"cluster-admin", "view", "edit", ""} {
		push.Role = role
		former, err := push.FormerRoles(t.Context(), c)
		if err != nil || (len(former) == 1) != (role != "cluster-admin") {
			t.Errorf("with role %q these are said to go: %v, error %v", role, former, err)
		}
		install(push)
		if role == "" {
			has()
			continue
		}
		has(role)
	}
	if diff := cmp.Diff(theirs, rolesOf(t, c, other.Account())); diff != "" {
		t.Errorf("what the other cluster has changed (-before +after):\n%s", diff)
	}
}

// boundRoles are the ClusterRoleBindings of the account of a cluster by name, with the roles that they
// bind: those that join makes for roles that were chosen, and those that were made by hand.
func boundRoles(p PushInstallation, chosen ...string) map[string]string {
	before := "capstan:" + p.Namespace + ":" + p.Cluster + ":"
	bound := map[string]string{"by-hand": "admin", before + "role:admin": "admin", before + "admin": "admin"}
	for _, suffix := range []string{"agent", "execution", "aggregate"} {
		bound[before+suffix] = before + suffix
	}
	for _, role := range chosen {
		bound[before+"role:"+role] = role
	}
	return bound
}

// rolesOf returns the roles that ClusterRoleBindings give to an account, by their names.
func rolesOf(t *testing.T, c client.Client, account rbacv1.Subject) map[string]string {
	t.Helper()
	list := &rbacv1.ClusterRoleBindingList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	bound := map[string]string{}
	for _, binding := range list.Items {
		if len(binding.Subjects) == 1 && binding.Subjects[0] == account {
			bound[binding.Name] = binding.RoleRef.Name
		}
	}
	return bound
}
