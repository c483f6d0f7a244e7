// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/csr/policy"
)

// An approval is an update of the whole object, so what Trim drops would be lost.
func TestTrimKeepsWhatAnApprovalWritesBack(t *testing.T) {
	large := strings.Repeat("x", policy.RequestBytesMax+1)
	for name, test := range map[string]struct {
		reason              string
		annotation, request string
		kept                bool
	}{
		"an ordinary request": {reason: "it may be approved", annotation: "y", request: "r", kept: true},
		"a large request":     {reason: "no agent makes it, so it is never approved", annotation: "y", request: large},
		"large annotations":   {reason: "a flood of these would fill the memory", annotation: large, request: "r"},
	} {
		t.Run(name, func(t *testing.T) {
			trimmed, err := Trim(&certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"x": test.annotation}, Labels: map[string]string{"l": "m"}},
				Spec:       certificatesv1.CertificateSigningRequestSpec{Request: []byte(test.request)},
			})
			if err != nil {
				t.Fatal(err)
			}
			csr, _ := trimmed.(*certificatesv1.CertificateSigningRequest)
			if kept := csr.Annotations["x"] == test.annotation && len(csr.Spec.Request) > 0; kept != test.kept {
				t.Errorf("%s: kept=%t, want %t", test.reason, kept, test.kept)
			}
			if csr.Labels["l"] != "m" {
				t.Errorf("%s: the labels are gone", test.reason)
			}
		})
	}
}
