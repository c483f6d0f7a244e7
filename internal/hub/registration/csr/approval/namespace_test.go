// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"context"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/registration/csr/approval"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// TestNoNamespaceOfATenantIsTaken has somebody whose clusters are accepted automatically ask for one that is
// named like a namespace of the hub: once it is accepted, nothing more is sent from there. The request is
// looked at again, as nobody tells when the namespace goes, or is labelled.
func TestNoNamespaceOfATenantIsTaken(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, clusterv1.AddToScheme, clusterv1beta2.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mc, csr := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}, asked(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusterName, Labels: map[string]string{clusterv1.LabelClusterName: "west"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc, csr, namespace).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, obj client.Object, o ...client.SubResourceUpdateOption) error {
			return c.SubResource("status").Update(ctx, obj, o...) // the fake client knows no approval
		},
	}).WithIndex(csr, "clusterAndRequester", func(client.Object) []string { return nil }).WithStatusSubresource(csr).Build()
	recorder := events.NewFakeRecorder(4)
	controller := approval.NewCSRApprovalController(approval.CSRApprovalDeps{
		Client: trimming(c), Live: c, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Events: recorder,
		Automatic: policy.AutoApproval{Users: []string{bootstrapUser}},
	})
	for _, tc := range []struct {
		label    string
		accepted bool
	}{{label: "west"}, {label: ""}, {label: clusterName, accepted: true}} {
		namespace.Labels[clusterv1.LabelClusterName] = tc.label
		if err := c.Update(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csr)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
			t.Fatal(err)
		}
		if got := len(csr.Status.Conditions) > 0; mc.Spec.HubAcceptsClient != tc.accepted || got != tc.accepted {
			t.Errorf("with a namespace of cluster %q: accepted=%t, approved=%t, want %t", tc.label, mc.Spec.HubAcceptsClient, got, tc.accepted)
		}
		if again := result.RequeueAfter > 0; again == tc.accepted {
			t.Errorf("with a namespace of cluster %q: looked at again: %t", tc.label, again)
		}
	}
	if len(recorder.Events) == 0 {
		t.Error("nobody is told why the cluster is not accepted")
	}
}
