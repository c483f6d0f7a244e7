// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"

	"golang.org/x/net/http2"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// ConnectionProblem is why something does not work, as conditions of a ClusterConnection
// tell it. The zero value is that it works.
type ConnectionProblem struct{ Reason, Message string }

// IsNone reports whether there is no problem.
func (p ConnectionProblem) IsNone() bool { return p.Reason == "" }

// ExplainEndpoint says what is wrong with an endpoint that NewTransport refused.
func ExplainEndpoint(err error) ConnectionProblem {
	var forbidden *ForbiddenAddressError
	if errors.As(err, &forbidden) {
		return ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonForbiddenAddress, err.Error()}
	}
	return ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonInvalidEndpoint, err.Error()}
}

// ExplainFailure says why a request failed, in words that do not change from one
// attempt to the next: no ports or streams of ours, no times.
func ExplainFailure(err error) ConnectionProblem {
	var (
		forbidden *ForbiddenAddressError
		untrusted *tls.CertificateVerificationError
		network   *net.OpError
		name      *net.DNSError
		request   *url.Error
		number    syscall.Errno
		stream    http2.StreamError
		away      http2.GoAwayError
	)
	unreachable := func(text string) ConnectionProblem {
		return ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonUnreachable, "the API server is unreachable: " + text}
	}
	switch {
	case errors.As(err, &forbidden):
		return ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonForbiddenAddress, forbidden.Error()}
	case errors.As(err, &untrusted):
		return ConnectionProblem{
			fleetv1alpha1.ClusterConnectionReasonUntrusted,
			"the certificate of the API server is not trusted: " + untrusted.Err.Error() + "; caBundle in the Secret has to verify it",
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return unreachable(fmt.Sprintf("no response within %s", probeTimeout))
	case errors.As(err, &name):
		return unreachable(fmt.Sprintf("the name %q does not resolve", name.Name))
	case errors.As(err, &stream):
		return unreachable("it ended the request: " + stream.Code.String())
	case errors.As(err, &away):
		return unreachable("it ended the connection: " + away.ErrCode.String())
	case errors.As(err, &number):
		return unreachable(number.Error())
	case errors.As(err, &network):
		return unreachable(network.Op + ": " + network.Err.Error())
	case errors.As(err, &request):
		return unreachable(request.Err.Error())
	}
	return unreachable(err.Error())
}
