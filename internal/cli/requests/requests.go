// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests sorts the certificate requests of clusters: which of them
// wait for an administrator, and which of these may be approved.
//
// It decides only: it has no client and no clock.
package requests

import (
	certificatesv1 "k8s.io/api/certificates/v1"
)

// Pending tells whether nobody has decided about the request yet.
func Pending(request *certificatesv1.CertificateSigningRequest) bool {
	return len(request.Status.Conditions) == 0
}
