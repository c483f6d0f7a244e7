// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// stepError is an error of a step of the handshake with the reason that the
// user is told.
type stepError struct {
	reason  string
	message string
	err     error
}

func (e *stepError) Error() string {
	if e.err == nil {
		return e.message
	}
	return e.message + ": " + e.err.Error()
}

func (e *stepError) Unwrap() error { return e.err }

// isUntrusted reports whether the server's certificate is the problem.
func isUntrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}

// explainBootstrapError says what the answer of the hub to a request with the bootstrap
// kubeconfig means for the user. what is what the agent wanted, such as
// "creating ManagedCluster x".
func explainBootstrapError(what, server string, err error) error {
	reason := operatorv1.JoinReasonHubUnreachable
	message := fmt.Sprintf("%s: the hub %s is unreachable or not responding", what, server)
	switch {
	case isUntrusted(err):
		reason = operatorv1.JoinReasonHubCertificateUntrusted
		message = fmt.Sprintf("%s: the certificate of the hub %s does not match the CA or the server name in the bootstrap kubeconfig; "+
			"put the hub's current CA into the secret %s", what, server, BootstrapSecret)
	case apierrors.IsUnauthorized(err):
		reason = operatorv1.JoinReasonBootstrapUnauthorized
		message = fmt.Sprintf("%s: the hub %s rejects the bootstrap credential; its token has probably expired: "+
			"put a new one into the secret %s", what, server, BootstrapSecret)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || refusedByAdmission(err):
		reason = operatorv1.JoinReasonBootstrapForbidden
		message = fmt.Sprintf("%s: the hub %s refused the object", what, server)
	case apierrors.IsForbidden(err):
		reason = operatorv1.JoinReasonBootstrapForbidden
		message = fmt.Sprintf("%s: the hub %s does not allow this for the bootstrap credential; bind it to the hub's ClusterRole for bootstrapping",
			what, server)
	case apierrors.IsNotFound(err):
		message = fmt.Sprintf("%s: %s does not serve the API; is it a hub?", what, server)
	}
	return &stepError{reason: reason, message: message, err: err}
}

// refusedByAdmission reports whether a rule of the hub refuses the object, which no role of
// the agent changes: the error says which.
func refusedByAdmission(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "denied the request")
}

// explainHubError says the same of a request with the hub credential.
func explainHubError(what, server string, err error) error {
	reason := operatorv1.JoinReasonHubUnreachable
	message := fmt.Sprintf("%s: the hub %s is unreachable or not responding", what, server)
	switch {
	case isUntrusted(err):
		reason = operatorv1.JoinReasonHubCertificateUntrusted
		message = fmt.Sprintf("%s: the certificate of the hub %s does not match the CA or the server name that the cluster joined with; "+
			"put the hub's current CA into the secret %s", what, server, BootstrapSecret)
	case apierrors.IsUnauthorized(err):
		reason = operatorv1.JoinReasonHubCredentialInvalid
		message = fmt.Sprintf("%s: the hub %s rejects the certificate in the secret %s", what, server, HubSecret)
	case apierrors.IsForbidden(err):
		reason = operatorv1.JoinReasonHubPermissionsMissing
		message = fmt.Sprintf("%s: the hub %s does not allow this for the agent", what, server)
	}
	return &stepError{reason: reason, message: message, err: err}
}
