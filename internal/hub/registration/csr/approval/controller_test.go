// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"context"
	"errors"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/capstan-io/capstan/internal/testing/agentrequest"
)

const (
	bootstrapUser = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	clusterName   = "east"
)

// asked is a request of the bootstrap user for the certificate of an agent.
func asked(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request, _ := agentrequest.NewRequest(t, clusterName, "one")
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "east-1", Labels: map[string]string{clusterv1.LabelClusterName: clusterName}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Username:   bootstrapUser,
			Request:    request,
		},
	}
}

// The acceptance and the approval are two writes. Nobody gets a certificate of a
// cluster that is not known to be theirs, and whoever has taken the cluster gets
// it in the end.
func TestAClusterIsTakenBeforeItsCertificateIsApproved(t *testing.T) {
	cases := map[string]struct {
		reason             string
		failing            string // the write
		accepted, approved bool   // after the failure
	}{
		"the acceptance fails": {reason: "another request may have taken the cluster", failing: "accept"},
		"the approval fails":   {reason: "the cluster is taken by now", failing: "approve", accepted: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, clusterv1.AddToScheme, clusterv1beta2.AddToScheme, corev1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			failing := tc.failing
			fails := func(write string) error {
				if write == failing {
					return apierrors.NewConflict(schema.GroupResource{Resource: write}, clusterName, errors.New("somebody else was faster"))
				}
				return nil
			}
			mc, csr := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}, asked(t)
			csr.Labels["mine"], csr.Finalizers = "too", []string{"example.com/mine"}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc, csr).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, o ...client.PatchOption) error {
					if err := fails("accept"); err != nil {
						return err
					}
					return c.Patch(ctx, obj, patch, o...)
				},
				SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, obj client.Object, o ...client.SubResourceUpdateOption) error {
					if err := fails("approve"); err != nil {
						return err
					}
					return c.SubResource("status").Update(ctx, obj, o...) // the fake client knows no approval
				},
			}).WithIndex(csr, "clusterAndRequester", func(client.Object) []string { return nil }).WithStatusSubresource(csr).Build()
			controller := approval.NewCSRApprovalController(approval.CSRApprovalDeps{
				Client: trimming(c), Live: c, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Events: events.NewFakeRecorder(1),
				Automatic: policy.AutoApproval{Users: []string{bootstrapUser}},
			})
			check := func(wantErr, accepted, approved bool) {
				t.Helper()
				_, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(csr)})
				if (err != nil) != wantErr {
					t.Fatalf("the error is %v", err)
				}
				if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(mc), mc), c.Get(t.Context(), client.ObjectKeyFromObject(csr), csr)); err != nil {
					t.Fatal(err)
				}
				if got := len(csr.Status.Conditions) > 0; mc.Spec.HubAcceptsClient != accepted || got != approved {
					t.Errorf("accepted=%t, approved=%t, want %t and %t: %s", mc.Spec.HubAcceptsClient, got, accepted, approved, tc.reason)
				}
			}
			check(true, tc.accepted, tc.approved)
			failing = ""
			check(false, true, true)
			if agents := mc.Annotations[clusterv1.AnnotationAgents]; agents != "one" {
				t.Errorf("the hub remembers the agents %q", agents)
			}
			if csr.Labels["mine"] != "too" || len(csr.Finalizers) != 1 {
				t.Errorf("the approval has changed the labels to %v, and the finalizers to %v", csr.Labels, csr.Finalizers)
			}
		})
	}
}

// trimming returns a client that reads requests as a cache has them.
func trimming(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
			err := c.Get(ctx, key, into, o...)
			csr, ok := into.(*certificatesv1.CertificateSigningRequest)
			if err != nil || !ok {
				return err
			}
			trimmed, err := approval.SlimRequest(csr)
			if kept, ok := trimmed.(*certificatesv1.CertificateSigningRequest); ok {
				*csr = *kept
			}
			return err
		},
	})
}
