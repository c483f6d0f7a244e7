// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"fmt"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// TestOthersRequestsAreNotInTheWay has somebody make many requests in the name of a
// cluster, whose own request waits as well when the cluster changes.
func TestOthersRequestsAreNotInTheWay(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	requestOf := func(name, user string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: "c"}},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Username: user},
		}
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&certificatesv1.CertificateSigningRequest{}, indexCluster, indexByCluster(isUndecided)).
		WithObjects(requestOf("c-own", clusterv1.AgentUser("c", "one")))
	for i := range 2 * RequestsMax {
		hub.WithObjects(requestOf(fmt.Sprint("c-a", i), "system:bootstrap:abcdef"))
	}
	c := NewCSRApprovalController(CSRApprovalDeps{Client: hub.Build()})
	found := c.undecidedRequests(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	if !slices.Contains(found, reconcile.Request{NamespacedName: types.NamespacedName{Name: "c-own"}}) {
		t.Error("when the cluster changes, the request of its agent is not looked at")
	}
	if len(found) != RequestsMax+1 {
		t.Errorf("%d requests are looked at, want the one of the agent and %d of the other user", len(found), RequestsMax)
	}
}
