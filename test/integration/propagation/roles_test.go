// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// refusal is the answer of an API server that refuses what is asked for.
func refusal(request *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}
}

// TestRolesThatCannotBeMarked are sent all the same, and hold up no policy that goes.
func TestRolesThatCannotBeMarked(t *testing.T) {
	w := harness.NewWorld(t, servers, 1, func(next http.RoundTripper) http.RoundTripper {
		// Nobody may change a ClusterRole, as the API server lets nobody who has not got its rules.
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/clusterroles/") {
				return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
			}
			return refusal(request, http.StatusForbidden, metav1.StatusReasonForbidden, "it gives what you have not got"), nil
		})
	})
	p := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "roles", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-roles"},
			Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
		},
		Spec: policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
			{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "viewer"},
		}},
	}
	// Who made it says himself which policy it is of.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-roles"}}}
	w.CreateAll(role, p)
	binding := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer-clusterrole"}}
	w.Eventually("the role is bound", func() error { return w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding) })
	if err := w.Delete(w.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.IsGone(p)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding); err != nil || binding.Labels[policyv1alpha1.LabelClusterPropagationPolicyID] != "" {
		t.Errorf("the binding stays, and nobody claims it: %v, labels %v", err, binding.Labels)
	}
	if err := w.Delete(w.Context(), role); err != nil {
		t.Fatal(err)
	}
	w.IsGone(binding)
}

// TestABindingOfARoleThatIsNotThereIsSent lets the controller change bindings of roles, and
// give nobody a role: then the API server looks for the role.
func TestABindingOfARoleThatIsNotThereIsSent(t *testing.T) {
	const account = "changes-bindings"
	w := harness.NewWorld(t, servers, 1, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/rolebindings/") {
				request = request.Clone(request.Context())
				request.Header.Set("Impersonate-User", account)
				request.Header.Add("Impersonate-Group", "system:authenticated")
			}
			return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
		})
	})
	change := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"get", "patch"}},
	}}
	w.CreateAll(change, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}},
	})
	env.WaitAllowed(w.Context(), w.TB, w.Config, authorizationv1.SubjectAccessReviewSpec{User: account}, "default", change.Rules[0], true)
	readers := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "of-the-members"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "readers"}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Name: "readers"}}
	w.CreateAll(readers, p)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "readers-rolebinding"}}
	w.Eventually("the binding of the role is bound", func() error { return w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding) })

	// A role that comes later changes nothing of what was sent.
	w.HasWorks(1)
	stands := func() string { return w.StandingOf(binding) }
	w.BecomesQuiet(stands)
	before := stands()
	w.CreateAll(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: readers.RoleRef.Name}})
	w.AwaitPasses(func() {})
	if after := stands(); before != after {
		t.Errorf("with the role, %s became %s", before, after)
	}
}
