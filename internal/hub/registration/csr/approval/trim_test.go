// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// TestTrimKeepsNothingOfItsAuthors trims a request in whose metadata an agent has put as
// much as fits.
func TestTrimKeepsNothingOfItsAuthors(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for i := range 100_000 {
		keys[fmt.Sprint("k", i)] = ""
	}
	hostile := ordinary()
	for key := range keys {
		hostile.Labels[key] = ""
		hostile.Finalizers = append(hostile.Finalizers, "example.com/"+key)
		hostile.OwnerReferences = append(hostile.OwnerReferences, metav1.OwnerReference{Name: key})
		hostile.ManagedFields = append(hostile.ManagedFields, metav1.ManagedFieldsEntry{Manager: key})
	}
	hostile.Annotations, hostile.GenerateName = keys, "some-"
	hostile.Status.Certificate = []byte("certificate")
	if diff := cmp.Diff(ordinary(), trim(t, hostile)); diff != "" {
		t.Errorf("what is kept (-want +got):\n%.2000s", diff)
	}
	large := ordinary()
	large.Spec.Request = []byte(strings.Repeat("x", policy.RequestBytesMax+1))
	if got := trim(t, large); len(got.Spec.Request) > 0 {
		t.Errorf("%d bytes of a request are kept that no agent makes", len(got.Spec.Request))
	}
}

// ordinary has all that the controller looks at.
func ordinary() *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: "one", UID: "uid", ResourceVersion: "1", Labels: map[string]string{clusterv1.LabelClusterName: "east", labelAddOn: "metrics"},
		},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: []byte("request"), SignerName: certificatesv1.KubeAPIServerClientSignerName, Username: "agent", UID: "agent's", Groups: []string{"agents"},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, Extra: map[string]certificatesv1.ExtraValue{"a": {"b"}},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved, Status: "True"},
		}},
	}
}

func trim(t *testing.T, csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	trimmed, err := SlimRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	return trimmed.(*certificatesv1.CertificateSigningRequest) //nolint:forcetypeassert // it is one
}
