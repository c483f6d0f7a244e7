// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/build"
	testcluster "github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// cluster is an API server that has the accounts of one installation at a time.
type cluster struct {
	config *rest.Config
	client client.Client
	// seen counts how often settled was asked.
	seen int
}

// clusters have no installation any more when a test is done with them.
var clusters = env.NewFixtures(servers, newCluster)

func newCluster(t testing.TB) *cluster {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	made, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{config: config, client: made}
}

// install applies the objects, with the namespaces that they are in, and waits
// until they count.
func (c *cluster) install(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if name := object.GetNamespace(); name != "" {
			err := c.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			if client.IgnoreAlreadyExists(err) != nil {
				t.Fatal(err)
			}
		}
		err := c.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("installer"))
		if err != nil {
			t.Fatalf("applying %s %q: %v", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	c.aggregate(t)
	c.settled(t)
}

// remove makes room for the next installation. Its objects need not be gone
// from the authorizer: that follows the order of writes.
func (c *cluster) remove(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if err := c.client.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
}

// aggregate stands for the controller of Kubernetes that puts the rules of roles
// together, which an API server by itself has not.
func (c *cluster) aggregate(t *testing.T) {
	t.Helper()
	roles := &rbacv1.ClusterRoleList{}
	if err := c.client.List(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(roles.Items, func(a, b rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	for changed := true; changed; { // roles that are made of others may be a part of further ones
		changed = false
		for i := range roles.Items {
			role := &roles.Items[i]
			rules, aggregates := aggregated(t, role, roles.Items)
			if !aggregates || reflect.DeepEqual(rules, role.Rules) {
				continue
			}
			role.Rules, changed = rules, true
			if err := c.client.Update(t.Context(), role); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func aggregated(t *testing.T, role *rbacv1.ClusterRole, all []rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, aggregates bool) {
	t.Helper()
	if role.AggregationRule == nil {
		return nil, false
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			t.Fatal(err)
		}
		for j := range all {
			if all[j].Name != role.Name && selector.Matches(labels.Set(all[j].Labels)) {
				rules = append(rules, all[j].Rules...)
			}
		}
	}
	return rules, true
}

// settled waits until the authorizer has seen all that was written before. It
// learns of each of the four kinds in the order of writes, so it is enough to
// wait for the last of each.
func (c *cluster) settled(t *testing.T) {
	t.Helper()
	c.seen++
	name := fmt.Sprintf("last-%d", c.seen)
	rule := func(resource string) rbacv1.PolicyRule { return build.AccessRule("example.com", resource, "get") }
	testcluster.CreateObjects(t, c.client,
		build.ClusterRole(name, rule("wide")), build.ClusterRoleBinding(name, name, build.UserSubject(name)),
		build.NamespacedRole(metav1.NamespaceDefault, name, rule("narrow")), build.RoleBinding(metav1.NamespaceDefault, name, name, build.UserSubject(name)))
	for _, resource := range []string{"wide", "narrow"} {
		env.WaitAllowed(t.Context(), t, c.config, env.UserReview(name), metav1.NamespaceDefault, rule(resource), true)
	}
}

// permissions asks as the subject what it may do in a namespace and outside of
// all, and returns it as `kubectl auth can-i --list` would print it.
func (c *cluster) permissions(t *testing.T, subject rbacv1.Subject, namespace string) string {
	t.Helper()
	as := rest.CopyConfig(c.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + subject.Namespace + ":" + subject.Name}
	switch subject.Kind {
	case rbacv1.UserKind:
		as.Impersonate = rest.ImpersonationConfig{UserName: subject.Name}
	case rbacv1.GroupKind:
		as.Impersonate = rest.ImpersonationConfig{UserName: "somebody", Groups: []string{subject.Name}}
	}
	clients, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	review, err := clients.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if review.Status.Incomplete {
		t.Fatalf("the API server does not tell all that %s may do: %s", subject.Name, review.Status.EvaluationError)
	}
	return lines(review.Status)
}

// lines has a line for each resource and path, with all verbs for it: resource,
// paths, resource names and verbs.
func lines(rules authorizationv1.SubjectRulesReviewStatus) string {
	verbs := map[string][]string{}
	note := func(key string, more []string) { verbs[key] = append(verbs[key], more...) }
	for _, rule := range rules.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				kind, sub, _ := strings.Cut(resource, "/")
				full := strings.TrimSuffix(strings.TrimSuffix(kind+"."+group, ".")+"/"+sub, "/")
				names := rule.ResourceNames
				if len(names) == 0 {
					names = []string{""}
				}
				for _, name := range names {
					note(fmt.Sprintf("%s [] [%s]", full, name), rule.Verbs)
				}
			}
		}
	}
	for _, rule := range rules.NonResourceRules {
		for _, path := range rule.NonResourceURLs {
			note(fmt.Sprintf(" [%s] []", path), rule.Verbs)
		}
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(verbs)) {
		list := slices.Compact(slices.Sorted(slices.Values(verbs[key])))
		fmt.Fprintf(&text, "%s [%s]\n", key, strings.Join(list, " "))
	}
	return text.String()
}
