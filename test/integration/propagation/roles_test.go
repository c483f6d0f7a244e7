// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"io"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// unprivileged is a round tripper that lets nobody change a ClusterRole, as the API
// server does if somebody has not got what the role gives.
func unprivileged(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/clusterroles/") {
			return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
		}
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"it gives what you have not got"}`
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: request,
		}, nil
	})
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
