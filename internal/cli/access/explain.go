// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// ExplainError adds to an error of a request what it means and the next step. An
// error that has a next step already, or none that is known, stays as it is.
func (a *ClusterAccess) ExplainError(err error) error {
	var known *exit.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return a.explainAnswer(err, status.Status())
	}
	return a.explainConnection(err)
}

// explainAnswer is for what the API server said.
func (a *ClusterAccess) explainAnswer(err error, status metav1.Status) error {
	switch {
	case notServed(status) && a.words.Kinds != "":
		return a.unreachableError(fmt.Errorf("%s %s", a.DescribeTarget(), a.words.Kinds), "%s", a.words.Other)
	case apierrors.IsUnauthorized(err):
		return a.unreachableError(fmt.Errorf("%s refuses the credentials of the kubeconfig", a.DescribeTarget()),
			"They may have expired or belong to another cluster: get a new kubeconfig of %s, or choose another context with %s.", a.words.Cluster, a.words.Context)
	case apierrors.IsForbidden(err):
		return exit.Next(err, "Ask an administrator of %s for this permission, or use a kubeconfig that has it. \"kubectl auth whoami\" shows who you are there.", a.words.Cluster)
	case apierrors.IsConflict(err):
		return exit.Next(err, "Somebody changed it at the same moment. Run the command again.")
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return exit.Next(err, "%s is too busy or only starting. Run the command again in a moment.", capitalizeFirst(a.words.Cluster))
	case strings.Contains(status.Message, "failed calling webhook"):
		return exit.Next(err, "%s", a.words.Webhooks)
	default:
		return err
	}
}

// capitalizeFirst returns the text as the beginning of a sentence.
func capitalizeFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// notServed reports whether the API server does not know the resource at all, as
// opposed to one object of it.
func notServed(status metav1.Status) bool {
	if status.Reason != metav1.StatusReasonNotFound {
		return false
	}
	return status.Details == nil || status.Details.Name == "" ||
		len(status.Details.Causes) > 0 && status.Details.Causes[0].Type == metav1.CauseTypeUnexpectedServerResponse
}

// explainConnection is for what kept the API server from saying anything.
func (a *ClusterAccess) explainConnection(err error) error {
	var (
		unknownCA x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		plain     tls.RecordHeaderError
		request   *url.Error
		operation *net.OpError
		dns       *net.DNSError
	)
	isRequest := errors.As(err, &request)
	switch {
	case strings.Contains(err.Error(), "getting credentials: exec"):
		return a.unreachableError(fmt.Errorf("the kubeconfig gets its credentials from a program, and that failed: %w", stripURLError(err)),
			"Run \"kubectl get --raw /version\" with the same kubeconfig. If it fails as well, install the program or log in with it.")
	case errors.As(err, &unknownCA):
		return a.unreachableError(fmt.Errorf("the certificate of %s is not signed by the CA of the kubeconfig", a.DescribeTarget()),
			"The kubeconfig belongs to another cluster, or the CA of %s has changed: get a new kubeconfig.", a.words.Cluster)
	case errors.As(err, &hostname):
		return a.unreachableError(fmt.Errorf("the certificate of %s is not valid for this address: %w", a.DescribeTarget(), hostname), "Use an address that it is valid for%s.", a.inKubeconfig())
	case errors.As(err, &invalid):
		return a.unreachableError(fmt.Errorf("the certificate of %s is not valid: %w", a.DescribeTarget(), invalid), "If it has expired, renew it on %s; otherwise check the clock of this machine.", a.words.Cluster)
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return a.unreachableError(fmt.Errorf("%s does not speak TLS", a.DescribeTarget()), "Fix the address in the kubeconfig: it is probably the wrong port.")
	case errors.As(err, &dns):
		return a.unreachableError(fmt.Errorf("the name of %s does not resolve: %w", a.DescribeTarget(), dns), "Look at the address in the kubeconfig and at the DNS of this machine.")
	case errors.As(err, &operation):
		return a.unreachableError(fmt.Errorf("cannot reach %s: %w", a.DescribeTarget(), operation), "Check that %s is running and reachable from this machine, or choose another context with %s.", a.words.Cluster, a.words.Context)
	case isRequest && request.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return a.unreachableError(fmt.Errorf("%s does not answer in time: %w", a.DescribeTarget(), stripURLError(err)), "%s", a.words.Slow)
	case isRequest:
		return a.unreachableError(fmt.Errorf("cannot ask %s: %w", a.DescribeTarget(), request.Err), "Check that %s is healthy: \"kubectl get --raw /readyz\".", a.words.Cluster)
	default:
		return err
	}
}

// stripURLError leaves away the method and address of a request, which the message has.
func stripURLError(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// inKubeconfig says where the address of a cluster is given.
func (a *ClusterAccess) inKubeconfig() string {
	if a.words.Server != "" {
		return ", with " + a.words.Server + " or in the kubeconfig"
	}
	return ", in the kubeconfig"
}

// IsKindServed reports whether an answer "not found" is about one object, and not about
// a kind that the API server does not know.
func IsKindServed(err error) bool {
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || !notServed(status.Status())
}
