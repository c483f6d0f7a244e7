// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// fencePatience is how long a fence may take until it is in force.
const fencePatience = 30 * time.Second

// TestRightsCannotBeExceeded lets whoever has the token of the controller try to get further.
func TestRightsCannotBeExceeded(t *testing.T) {
	h := newHub(t)
	changes := roleChanges()
	for name, change := range changes {
		if err := h.write(t, h.account, change); err != nil {
			t.Fatalf("%s: without a fence this does not work, so it proves nothing: %v", name, err)
		}
	}
	if err := (fence.TemplatesFence{}).EnsureFence(t.Context(), h.root, h.root); err != nil {
		t.Fatal(err)
	}
	if err := (fence.TemplatesFence{}).EnsureFence(t.Context(), h.root, h.root); err != nil {
		t.Errorf("a fence that is there: %v", err)
	}
	everything := func(role *rbacv1.ClusterRole) {
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	}
	for deadline := time.Now().Add(fencePatience); h.write(t, h.account, everything) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the fence does not come into force")
		}
	}
	for who, by := range map[string]client.Client{"the controller": h.account, "an administrator": h.root} {
		for name, change := range changes {
			err := h.write(t, by, change)
			if err == nil || !strings.Contains(err.Error(), fence.TemplatesFence{}.FenceName()) || !strings.Contains(err.Error(), "this ClusterRole") {
				t.Errorf("%s, by %s: got %v, want it to be refused by the fence", name, who, err)
			}
		}
	}
	t.Run("AndItWorks", h.works)
}

// write changes the role as a dry run.
func (h *hub) write(t *testing.T, by client.Client, change func(*rbacv1.ClusterRole)) error {
	t.Helper()
	role := h.role(t)
	change(role)
	return by.Update(t.Context(), role, client.DryRunAll)
}

// roleChanges are changes of its own role by which it would get further.
func roleChanges() map[string]func(*rbacv1.ClusterRole) {
	changes := map[string]func(*rbacv1.ClusterRole){
		"paths": func(role *rbacv1.ClusterRole) {
			role.Rules = []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
		},
		"the rules of others": func(role *rbacv1.ClusterRole) {
			role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"x": "y"}}}}
		},
		"its rules for everybody who may view": func(role *rbacv1.ClusterRole) {
			role.Labels = map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
		},
	}
	rule := func(group, resource string, verbs ...string) func(*rbacv1.ClusterRole) {
		return func(role *rbacv1.ClusterRole) {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"apps", group}, Resources: []string{resource}, Verbs: verbs})
		}
	}
	changes["all verbs"] = rule("", "secrets", "*")
	changes["all resources"] = rule("", "*", "get")
	changes["the status of all"] = rule("", "*/status", "update")
	changes["all groups"] = rule("*", "deployments", "get")
	changes["creating pods"] = rule("", "pods", "create")
	changes["deleting Secrets"] = rule("", "secrets", "delete")
	changes["updating Secrets"] = rule("", "secrets", "update")
	changes["commands in pods"] = rule("", "pods/exec", "get")
	changes["services by the API server"] = rule("", "services/proxy", "get")
	changes["tokens"] = rule("", "serviceaccounts/token", "create")
	changes["impersonation"] = rule("", "users", "impersonate")
	changes["escalation"] = rule(rbacv1.GroupName, "clusterroles", "escalate")
	changes["binding"] = rule(rbacv1.GroupName, "clusterroles", "bind")
	changes["the end of a namespace"] = rule("", "namespaces/finalize", "update")
	for _, resource := range reserved.CoreResources() {
		changes["reading "+resource] = rule("", resource, "get")
		changes["the status of "+resource] = rule("", resource+"/status", "patch")
	}
	for _, group := range reserved.AllReservedGroups() {
		changes["the group "+group] = rule(group, "anything", "get")
	}
	return changes
}

// TestRightsCannotBeExceededByOtherObjects are other ways than by its own role.
func TestRightsCannotBeExceededByOtherObjects(t *testing.T) {
	h := newHub(t)
	everything := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	h.create(t, &rbacv1.ClusterRole{ObjectMeta: named("other")})
	tries := map[string]func(client.Client) error{
		"another role": func(c client.Client) error {
			return c.Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: named("other"), Rules: everything}, client.DryRunAll)
		},
		"a new role": func(c client.Client) error {
			return c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: named("new"), Rules: everything}, client.DryRunAll)
		},
		"a binding": func(c client.Client) error {
			return c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
				ObjectMeta: named("new"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "thief"}},
			}, client.DryRunAll)
		},
		"its own role gone": func(c client.Client) error {
			return c.Delete(t.Context(), &rbacv1.ClusterRole{ObjectMeta: named(fleetv1alpha1.PropagationTemplatesRole)}, client.DryRunAll)
		},
		"a kind that no policy selects": func(c client.Client) error {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("v1")
			list.SetKind("ReplicationControllerList")
			return c.List(t.Context(), list)
		},
	}
	for name, attempt := range tries {
		if err := attempt(h.account); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want it to be forbidden", name, err)
		}
	}
}

// works is what the controller does, with the fence.
func (h *hub) works(t *testing.T) {
	p := policy("fenced", deployments())
	p.Spec.PropagateDeps = true
	h.create(t, p)
	pass(t, h.controller(h.root.RESTMapper()))
	h.may(t, true, "patch", "apps", "deployments")
	h.may(t, true, "list", "", "configmaps")
	h.remove(t, p)
	pass(t, h.controller(h.root.RESTMapper()))
	if rules := h.role(t).Rules; len(rules) != 0 {
		t.Errorf("the policy is gone and these are left: %v", rules)
	}
}
