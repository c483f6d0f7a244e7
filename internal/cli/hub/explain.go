// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

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

// Explain adds to an error of a request what it means and the next step. An
// error that has a next step already, or none that is known, stays as it is.
func (s *Session) Explain(err error) error {
	var known *exit.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return s.explainAnswer(err, status.Status())
	}
	return s.explainConnection(err)
}

// explainAnswer is for what the API server said.
func (s *Session) explainAnswer(err error, status metav1.Status) error {
	switch {
	case notServed(status):
		return noHub(fmt.Errorf("%s is no hub of Capstan: it does not know the kinds of one", s.Where()),
			"Choose the hub by --context, or make this cluster one with \"make deploy-hub\". If a hub is being installed, wait until its ClusterManager is Applied.")
	case apierrors.IsUnauthorized(err):
		return noHub(fmt.Errorf("%s refuses the credentials of the kubeconfig", s.Where()),
			"They may have expired or belong to another cluster: get a new kubeconfig of the hub, or choose another context by --context.")
	case apierrors.IsForbidden(err):
		return exit.Next(err, "Ask an administrator of the hub for this permission, or use a kubeconfig that has it. \"kubectl auth whoami\" tells who you are there.")
	case apierrors.IsConflict(err):
		return exit.Next(err, "Somebody changed it at the same moment. Run the command again.")
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return exit.Next(err, "The hub is too busy or only starting. Run the command again in a moment.")
	case strings.Contains(status.Message, "failed calling webhook"):
		return exit.Next(err, "The hub's webhooks do not answer: look at the pods in namespace open-cluster-management-hub, and at \"kubectl describe clustermanager\".")
	default:
		return err
	}
}

// notServed tells whether the API server does not know the resource at all, as
// opposed to one object of it.
func notServed(status metav1.Status) bool {
	if status.Reason != metav1.StatusReasonNotFound {
		return false
	}
	return status.Details == nil || status.Details.Name == "" ||
		len(status.Details.Causes) > 0 && status.Details.Causes[0].Type == metav1.CauseTypeUnexpectedServerResponse
}

// explainConnection is for what kept the API server from saying anything.
func (s *Session) explainConnection(err error) error {
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
		return noHub(fmt.Errorf("the kubeconfig gets its credentials from a program, and that failed: %w", cause(err)),
			"Run \"kubectl get --raw /version\" with the same kubeconfig. If it fails as well, install the program or log in with it.")
	case errors.As(err, &unknownCA):
		return noHub(fmt.Errorf("%s shows a certificate that the CA of the kubeconfig has not signed", s.Where()),
			"The kubeconfig is of another cluster, or the hub's CA has changed: get a new kubeconfig.")
	case errors.As(err, &hostname):
		return noHub(fmt.Errorf("the certificate of %s is not for this address: %w", s.Where(), hostname), "Use an address that it is for, by --server or in the kubeconfig.")
	case errors.As(err, &invalid):
		return noHub(fmt.Errorf("the certificate of %s is not valid: %w", s.Where(), invalid), "If it has expired, renew it on the hub; otherwise look at the clock of this machine.")
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return noHub(fmt.Errorf("%s does not speak TLS", s.Where()), "Mend the address in the kubeconfig: it is probably the wrong port.")
	case errors.As(err, &dns):
		return noHub(fmt.Errorf("the name of %s cannot be resolved: %w", s.Where(), dns), "Look at the address in the kubeconfig and at the DNS of this machine.")
	case errors.As(err, &operation):
		return noHub(fmt.Errorf("cannot reach %s: %w", s.Where(), operation), "See whether the hub runs and whether this machine may reach it, or choose another context by --context.")
	case isRequest && request.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return noHub(fmt.Errorf("%s does not answer in time: %w", s.Where(), cause(err)), "Try again, with more time by --request-timeout.")
	case isRequest:
		return noHub(fmt.Errorf("cannot ask %s: %w", s.Where(), request.Err), "See whether the hub is well: \"kubectl get --raw /readyz\".")
	default:
		return err
	}
}

// cause leaves away the method and address of a request, which the message has.
func cause(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// Served tells whether an answer "not found" is about one object, and not about
// a kind that the API server does not know.
func Served(err error) bool {
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || !notServed(status.Status())
}
