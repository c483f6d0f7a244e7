// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package callout

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/capstan-io/capstan/internal/cluster/dial"
)

// Error is why a call has no answer. It does not change from one attempt to the
// next: it has no ports of ours in it, and no times.
type Error struct {
	// Problem is what is wrong, and Remedy a sentence that says what to do.
	Problem, Remedy string
	again           time.Duration
}

func (e *Error) Error() string { return e.Problem }

// RetryAfter is when to call again.
func (e *Error) RetryAfter() time.Duration { return e.again }

// callRefusalError is what is wrong, and what to do.
type callRefusalError struct {
	problem, remedy string
	// here says that the server is there, and only this call went wrong.
	here bool
}

func (r *callRefusalError) Error() string { return r.problem }

func newRefusal(problem, remedy string) *callRefusalError {
	return &callRefusalError{problem: problem, remedy: remedy}
}

// explainFailure says why a request failed, and what to do.
func explainFailure(err error, t Target) *callRefusalError {
	var (
		known     *callRefusalError
		resolve   *resolveError
		forbidden *dial.ForbiddenAddressError
		dns       *net.DNSError
		record    tls.RecordHeaderError
		network   net.Error
		number    syscall.Errno
	)
	if distrusted := explainDistrust(err, t); distrusted != nil {
		return distrusted
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &resolve):
		return newRefusal(fmt.Sprintf("the Service cannot be read: %v", resolve.error), "Check that the hub's API server works.")
	case errors.As(err, &forbidden):
		return newRefusal(fmt.Sprintf("its address %s is not called: it is %s", forbidden.Address, forbidden.Why),
			"Serve it at another address, or allow this one with --allowed-networks of what calls it: the propagation controller, and the push agent.")
	case errors.As(err, &dns):
		return newRefusal(fmt.Sprintf("the name %q does not resolve", dns.Name), "Check clientConfig, and that the Service exists if it is one.")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return newRefusal(fmt.Sprintf("it has not answered within %s", t.Timeout), "Check that it works, make it faster, or raise timeoutSeconds.")
	case errors.Is(err, context.Canceled):
		return newRefusal("the call was ended, as this process ends", "Nothing: it is called again.")
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return newRefusal("it does not speak TLS", "Let it serve HTTPS at the port that clientConfig names.")
	case errors.Is(err, syscall.ECONNREFUSED):
		return newRefusal("the connection was refused", "Check that it runs, and the port in clientConfig.")
	case errors.As(err, &number):
		return newRefusal("it cannot be reached: "+number.Error(), "Check that it runs, and the network between.")
	}
	return newRefusal("the connection broke: "+innermostMessage(err), "Check that it runs and speaks HTTPS.")
}

// explainDistrust says why a certificate is not trusted; nil if that is not the problem.
func explainDistrust(err error, t Target) *callRefusalError {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority) && len(t.CABundle) == 0:
		return newRefusal("its certificate is signed by a CA that the system does not trust",
			"Set clientConfig.caBundle to the certificate of that CA.")
	case errors.As(err, &authority):
		return newRefusal("its certificate is not signed by a CA in clientConfig.caBundle",
			"Set caBundle to the certificate of the CA that issues the webhook's certificate.")
	case errors.As(err, &hostname):
		return newRefusal(fmt.Sprintf("its certificate is not for %q", hostname.Host),
			"Give it a certificate for this name.")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return newRefusal("its certificate has expired, or is not valid yet", "Renew it, and compare the clocks.")
	case errors.As(err, &invalid):
		return newRefusal("its certificate is not valid: "+invalid.Error(), "Give it another one.")
	case errors.As(err, &verify):
		return newRefusal("its certificate cannot be verified: "+verify.Err.Error(), "Give it another one, or correct clientConfig.caBundle.")
	}
	return nil
}

// innermostMessage returns what an error says without addresses and URLs.
func innermostMessage(err error) string {
	var (
		request *url.Error
		network *net.OpError
	)
	if errors.As(err, &network) {
		return network.Op + ": " + network.Err.Error()
	}
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}
