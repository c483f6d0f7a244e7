// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/csr/policy"
	"github.com/capstan-io/capstan/internal/hub/registration/csr/approval"
)

const (
	bootstrapUser = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	clusterName   = "east"
)

// approved is a request of the bootstrap user that the hub approved.
func approved(t *testing.T, made, approvedAt time.Time) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName:   clusterv1.AgentUser(clusterName, "one"),
		Organization: []string{clusterv1.AgentGroup(clusterName), clusterv1.GroupManagedClusters},
	}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: "east-1", CreationTimestamp: metav1.NewTime(made), Labels: map[string]string{clusterv1.LabelClusterName: clusterName},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Username:   bootstrapUser,
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
			Reason: clusterv1.CSRReasonAutoApproved, LastUpdateTime: metav1.NewTime(approvedAt),
		}}},
	}
}

// The approval and the acceptance are two writes; the second may fail, or the
// process may end in between.
func TestAnApprovedRequestAcceptsItsClusterLater(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason                    string
		requested, made, approved time.Time
		want                      bool
	}{
		"the cluster came first": {
			reason: "the usual order", made: now, requested: now.Add(time.Second), approved: now.Add(2 * time.Second), want: true,
		},
		"the request came first": {
			reason: "agents make both at the same time", requested: now, made: now.Add(time.Second), approved: now.Add(time.Second), want: true,
		},
		"the cluster has the name of an earlier one": {
			reason: "what was approved for another cluster says nothing about this one", requested: now, approved: now, made: now.Add(time.Minute),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, clusterv1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName, CreationTimestamp: metav1.NewTime(tc.made)}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc, approved(t, tc.requested, tc.approved)).Build()
			controller := approval.New(approval.Deps{
				Client: c, Clock: clocktesting.NewFakePassiveClock(now), Events: events.NewFakeRecorder(1),
				Automatic: policy.Automatic{Users: []string{bootstrapUser}},
			})
			if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "east-1"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil {
				t.Fatal(err)
			}
			if mc.Spec.HubAcceptsClient != tc.want {
				t.Errorf("accepted=%t, want %t: %s", mc.Spec.HubAcceptsClient, tc.want, tc.reason)
			}
		})
	}
}
