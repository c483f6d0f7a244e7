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
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

const address = "https://hub.example.com:6443"

// hubWords are those of a hub, whose next steps can be told apart.
func hubWords() MessageWords {
	return MessageWords{
		Cluster: "the hub", Kubeconfig: "--kubeconfig", Context: "--context", Server: "--server",
		Missing: "NEXT: give one", Slow: "NEXT: be patient", Webhooks: "NEXT: look at webhooks", Kinds: "is no hub", Other: "NEXT: choose another", Code: exit.NoHub,
	}
}

// memberWords are those of a cluster of which nothing is known but that it is one.
func memberWords() MessageWords {
	return MessageWords{Cluster: "the member", Kubeconfig: "--member-kubeconfig", Context: "--member-context", Slow: "NEXT: be patient", Webhooks: "NEXT: look at webhooks", Code: exit.NoMember}
}

// request returns the error that a client gets whose request fails for a reason.
func request(reason error) error { return &url.Error{Op: "Get", URL: address + "/api", Err: reason} }

// notFound returns what an API server answers about a path that it does not have.
func notFound() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "widgets"}, "a", "404 page not found", 0, true)
}

func TestAnAnswerLeadsToTheNextStep(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	object := apierrors.NewNotFound(pods, "web")
	cases := map[string]struct {
		err      error
		text     string // a part of what is said
		next     string // the beginning of the next step; "" is none
		code     int
		memberIs string // the same for the member, if it differs
	}{
		"a kind that is not served":    {notFound(), address + ` is no hub`, "NEXT: choose another", exit.NoHub, "-"},
		"an object that is not there":  {object, `pods "web" not found`, "", exit.Failed, ""},
		"credentials":                  {apierrors.NewUnauthorized("no"), address + " refuses the credentials of the kubeconfig", "They may have expired", exit.NoHub, ""},
		"a right":                      {apierrors.NewForbidden(pods, "web", errors.New("no")), "forbidden", "Ask an administrator of the ", exit.Failed, ""},
		"a change":                     {apierrors.NewConflict(pods, "web", errors.New("no")), "cannot be fulfilled", "Somebody changed it", exit.Failed, ""},
		"too much to do":               {apierrors.NewTooManyRequests("no", 1), "no", "The hub is too busy", exit.Failed, "The member is too busy"},
		"only starting":                {apierrors.NewServiceUnavailable("no"), "no", "The hub is too busy", exit.Failed, "The member is too busy"},
		"too slow":                     {apierrors.NewServerTimeout(pods, "list", 1), "list", "The hub is too busy", exit.Failed, "The member is too busy"},
		"a webhook that does not work": {apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com"`)), "a.example.com", "NEXT: look at webhooks", exit.Failed, ""},
		"a mistake":                    {apierrors.NewBadRequest("no"), "no", "", exit.Failed, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			// Whoever asked has said what for.
			asked := fmt.Errorf("reading: %w", tc.err)
			check(t, (&ClusterAccess{words: hubWords(), server: address}).ExplainError(asked), tc.err, tc.text, tc.next, tc.code)
			next, code, text := tc.next, tc.code, tc.text
			if tc.memberIs != "" {
				next = strings.TrimPrefix(tc.memberIs, "-")
			}
			if code == exit.NoHub {
				code = exit.NoMember
			}
			if tc.memberIs == "-" {
				text, code = "", exit.Failed
			}
			check(t, (&ClusterAccess{words: memberWords(), server: address}).ExplainError(asked), tc.err, text, next, code)
		})
	}
}

// check checks an explanation: that it says the text, has the next step and the code,
// and still is the error if it does not stand for it.
func check(t *testing.T, got, cause error, text, next string, code int) {
	t.Helper()
	if !strings.Contains(got.Error(), text) {
		t.Errorf("it says %q, want %q in it", got, text)
	}
	var known *exit.Error
	if errors.As(got, &known) != (next != "") || known != nil && !strings.HasPrefix(known.Next, next) {
		t.Errorf("the next step is in %+v, want %q", got, next)
	}
	if is := exit.Code(got); is != code {
		t.Errorf("the exit code is %d, want %d", is, code)
	}
	if code == exit.Failed && !errors.Is(got, cause) {
		t.Errorf("what the API server said is lost in %v", got)
	}
}

func TestWhatKeepsAClusterFromAnsweringIsNamed(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "hub.example.com", IsNotFound: true}}
	certificate := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	other := &x509.Certificate{DNSNames: []string{"other.example.com"}}
	cases := map[string]struct {
		err        error
		text, next string
	}{
		"nobody listens":                      {request(refused), "cannot reach " + address, "Check that the hub is running"},
		"the name does not resolve":           {request(unknown), "the name of " + address + " does not resolve", "Look at the address"},
		"a CA that is not that of the file":   {request(certificate), "is not signed by the CA of the kubeconfig", "The kubeconfig belongs to another cluster"},
		"a certificate for another address":   {request(x509.HostnameError{Certificate: other, Host: "hub.example.com"}), "is not valid for this address", "Use an address that it is valid for, with --server or in the kubeconfig."},
		"a certificate that has expired":      {request(x509.CertificateInvalidError{Reason: x509.Expired}), "is not valid", "If it has expired"},
		"no TLS":                              {request(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), "does not speak TLS", "Fix the address"},
		"HTTP where HTTPS is wanted":          {request(errors.New("http: server gave HTTP response to HTTPS client")), "does not speak TLS", "Fix the address"},
		"a program that gets credentials":     {request(errors.New("getting credentials: exec: executable aws not found")), "gets its credentials from a program", "Run \"kubectl get"},
		"no answer in time":                   {request(context.DeadlineExceeded), "does not answer in time", "NEXT: be patient"},
		"no answer to what is no request yet": {context.DeadlineExceeded, "does not answer in time", "NEXT: be patient"},
		"a connection that breaks":            {request(errors.New("EOF")), "cannot ask " + address + ": EOF", "Check that the hub is healthy"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := (&ClusterAccess{words: hubWords(), server: address}).ExplainError(fmt.Errorf("reading: %w", tc.err))
			check(t, got, tc.err, tc.text, tc.next, exit.NoHub)
			if strings.Contains(got.Error(), "/api") {
				t.Errorf("it says %q, want no path that the user did not ask for", got)
			}
		})
	}
}

func TestWhatIsExplainedOrCannotBeStays(t *testing.T) {
	for name, err := range map[string]error{
		"nothing":                    nil,
		"a mistake of the user":      exit.UsageError("no"),
		"a next step that is nearer": fmt.Errorf("reading: %w", exit.Next(request(errors.New("EOF")), "Do this.")),
		"a user who does not wait":   request(context.Canceled),
		"no error of a request":      errors.New("a file is not there"),
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&ClusterAccess{words: hubWords()}).ExplainError(err); got != err { //nolint:errorlint // the very same
				t.Errorf("got %v, want what it was", got)
			}
		})
	}
}

func TestTheAddressOfAClusterWithoutAFlagIsInItsKubeconfig(t *testing.T) {
	got := (&ClusterAccess{words: memberWords()}).ExplainError(request(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a"}}, Host: "b"}))
	var known *exit.Error
	if want := "Use an address that it is valid for, in the kubeconfig."; !errors.As(got, &known) || known.Next != want {
		t.Errorf("the next step is in %+v, want %q", got, want)
	}
}

func TestWhetherAKindIsServed(t *testing.T) {
	status := func(reason metav1.StatusReason, details *metav1.StatusDetails) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: reason, Details: details}}
	}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"an object that is not there":             {apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web"), true},
		"a path that is not there":                {notFound(), false},
		"a list of what is not there":             {status(metav1.StatusReasonNotFound, &metav1.StatusDetails{Kind: "widgets"}), false},
		"an answer without details":               {status(metav1.StatusReasonNotFound, nil), false},
		"an answer with other causes":             {status(metav1.StatusReasonNotFound, &metav1.StatusDetails{Name: "web", Causes: []metav1.StatusCause{{Type: "Other"}}}), true},
		"an answer about something else":          {status(metav1.StatusReasonForbidden, nil), true},
		"an answer that somebody else has passed": {fmt.Errorf("reading: %w", notFound()), false},
		"no answer": {request(errors.New("EOF")), true},
		"no error":  {nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := IsKindServed(tc.err); got != tc.want {
				t.Errorf("served: got %t, want %t", got, tc.want)
			}
		})
	}
}
