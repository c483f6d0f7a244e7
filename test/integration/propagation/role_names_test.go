// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestRolesOfAnyNameAreSent sends Roles whose names no other object may have, and some that
// differ only in what the names of bindings cannot show.
func TestRolesOfAnyNameAreSent(t *testing.T) {
	t.Parallel()
	w := harness.NewWorldOfMembers(t, servers, 1)
	names := []string{
		"team::viewer", "Ops_View", "jane@example.com-view", "ops:a..b", "-lead", "Foo", "foo",
		"FOO", "a:b", "a.b", "sys:x:", "with space",
	}
	p := harness.Policy("roles", policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors = nil
	for _, name := range names {
		w.CreateAll(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Rules: reads("pods")})
		p.Spec.ResourceSelectors = append(p.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role", Name: name})
	}
	w.CreateAll(p)
	w.StartControllers()
	w.HasRoles(names...)

	bindings := &workv1alpha2.ResourceBindingList{}
	if err := w.List(t.Context(), bindings, client.InNamespace(metav1.NamespaceDefault)); err != nil || len(bindings.Items) != len(names) {
		t.Fatalf("there are %d bindings, want %d: %v", len(bindings.Items), len(names), err)
	}
	works := &workv1.ManifestWorkList{}
	if err := w.List(t.Context(), works, client.HasLabels{workv1alpha2.LabelResourceBindingID}); err != nil || len(works.Items) != len(names) {
		t.Fatalf("there are %d works, want %d: %v", len(works.Items), len(names), err)
	}

	// A change and an end concern one of them.
	for _, name := range []string{"foo", "team::viewer"} {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		w.ChangeObject(role, func() { role.Rules = reads("secrets") })
	}
	if err := w.Delete(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "Foo"}}); err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "Foo" })
	w.HasRoles(names...)
	w.Eventually("the changes are in the member", func() error {
		for _, name := range names {
			role := &rbacv1.Role{}
			if err := w.Members["member1"].Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, role); err != nil {
				return err
			}
			changed := name == "foo" || name == "team::viewer"
			if is := role.Rules[0].Resources[0] == "secrets"; is != changed {
				return fmt.Errorf("Role %q changed: %t, want %t", name, is, changed)
			}
		}
		return nil
	})
}

func reads(resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}
}
