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
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// unprivileged is a round tripper that lets nobody change a ClusterRole, as the API
// server does if somebody has not got what the role gives.
func unprivileged(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/clusterroles/") {
			return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
		}
		return refusal(request, "it gives what you have not got"), nil
	})
}

// refusal is the answer of an API server that forbids what is asked for.
func refusal(request *http.Request, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, message)
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}
}

// TestRolesThatCannotBeMarked are sent all the same, and hold up no policy that goes.
func TestRolesThatCannotBeMarked(t *testing.T) {
	w := newWorld(t, 1, unprivileged)
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
	w.create(role, p)
	binding := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer-clusterrole"}}
	w.eventually("the role is bound", func() error { return w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding) })
	if err := w.Delete(w.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.gone(p)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding); err != nil || binding.Labels[policyv1alpha1.LabelClusterPropagationPolicyID] != "" {
		t.Errorf("the binding stays, and nobody claims it: %v, labels %v", err, binding.Labels)
	}
	if err := w.Delete(w.Context(), role); err != nil {
		t.Fatal(err)
	}
	w.gone(binding)
}

// TestABindingOfARoleThatIsNotThereIsSent lets the controller change bindings of roles, and
// give nobody a role: then the API server looks for the role.
func TestABindingOfARoleThatIsNotThereIsSent(t *testing.T) {
	const account = "changes-bindings"
	w := newWorld(t, 1, func(next http.RoundTripper) http.RoundTripper {
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
	w.create(change, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}},
	})
	env.WaitAllowed(w.Context(), w.T, w.config, authorizationv1.SubjectAccessReviewSpec{User: account}, "default", change.Rules[0], true)
	readers := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "of-the-members"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "readers"}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding", Name: "readers"}}
	w.create(readers, p)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "readers-rolebinding"}}
	w.eventually("the binding of the role is bound", func() error { return w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding) })
}

// TestARefusedClaimIsTold has the hub refuse the marks of a policy.
func TestARefusedClaimIsTold(t *testing.T) {
	w := newWorld(t, 1, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/configmaps/settings") {
				return refusal(request, "labels are for the team that owns them"), nil
			}
			return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
		})
	})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"}}
	w.create(settings, p)
	w.eventually("an Event says why", func() error {
		list := &corev1.EventList{}
		if err := w.List(w.Context(), list, client.InNamespace("default"), client.MatchingFields{"reason": "ApplyPolicyFailed"}); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == "settings" && strings.Contains(e.Message, "labels are for the team that owns them") {
				return nil
			}
		}
		return fmt.Errorf("there are %d Events", len(list.Items))
	})
}
