// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// probedServer is an API server as messages call it.
type probedServer struct {
	// role is what the server is for us: "hub" or "managed cluster".
	role string
	host string
	// unknownName is what helps where its name is not known.
	unknownName string
}

func theHub(host string) probedServer {
	return probedServer{role: "hub", host: host, unknownName: "see spec.hubApiServerHostAlias of the Klusterlet"}
}

func theMember(host string) probedServer {
	return probedServer{role: "managed cluster", host: host, unknownName: "the kubeconfig needs an address that is reachable from here"}
}

func theHostedHub(host string) probedServer {
	return probedServer{role: "hub", host: host, unknownName: "the kubeconfig needs an address that is reachable from here"}
}

func (s probedServer) String() string { return "the " + s.role + " " + s.host }

// classifyError tells what the error of a request to a server means for someone who
// has to mend it. The message has no port or time in it that changes from one
// attempt to the next.
func classifyError(s probedServer, err error) CheckOutcome {
	switch {
	case apierrors.IsUnauthorized(err), isTLSRejection(err):
		return CheckOutcome{Unauthorized, fmt.Sprintf("%s rejects the credential; it has expired, was revoked, or belongs to another cluster", s)}
	case apierrors.IsForbidden(err):
		return CheckOutcome{Forbidden, fmt.Sprintf("%s does not allow the credential to review its own permissions: %v", s, err)}
	}
	if why := explainDistrust(err); why != "" {
		return CheckOutcome{Untrusted, fmt.Sprintf("the certificate of %s is not trusted: %s", s, why)}
	}
	return CheckOutcome{Unreachable, fmt.Sprintf("%s cannot be reached: %s", s, s.explainUnreachable(err))}
}

// isTLSRejection reports whether the server refused the client certificate
// already while connecting, as some proxies do.
func isTLSRejection(err error) bool {
	var alert tls.AlertError
	if !errors.As(err, &alert) {
		return false
	}
	const badCertificate, certificateExpired, unknownCA, certificateRequired = 42, 45, 48, 116
	switch uint8(alert) {
	case badCertificate, certificateExpired, unknownCA, certificateRequired:
		return true
	default:
		return false
	}
}

// explainDistrust says why a certificate is not trusted, or nothing if the error is
// not about that.
func explainDistrust(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		roots     x509.SystemRootsError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority):
		return "it is not signed by the certificate authority in the kubeconfig; update certificate-authority-data"
	case errors.As(err, &hostname):
		return "it is valid for another name: " + hostname.Error()
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet; compare the clocks"
	case errors.As(err, &invalid):
		return invalid.Error()
	case errors.As(err, &roots), errors.As(err, &verify):
		return err.Error()
	default:
		return ""
	}
}

func (s probedServer) explainUnreachable(err error) string {
	var (
		dns     *net.DNSError
		record  tls.RecordHeaderError
		network net.Error
		status  apierrors.APIStatus
	)
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %q does not resolve here (DNS); %s", dns.Name, s.unknownName)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused; nothing listens on this port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to this address"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("no response within %s", requestTimeout)
	case errors.As(err, &record):
		return "the server at this address does not speak TLS"
	case errors.As(err, &status):
		return "the response is not from a Kubernetes API server: " + status.Status().Message
	default:
		return innermostError(err).Error()
	}
}

// innermostError drops the wrapping that has the addresses of this attempt.
func innermostError(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
