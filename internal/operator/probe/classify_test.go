// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestErrorsOfTheHubAreToldApart(t *testing.T) {
	get := func(err error) error { return &url.Error{Op: "Post", URL: "https://hub/apis", Err: err} }
	for name, test := range map[string]struct {
		reason  string
		err     error
		want    Verdict
		message string
	}{
		"Expired":     {"an expired token is not a network problem", apierrors.NewUnauthorized("Unauthorized"), Unauthorized, "expired"},
		"Forbidden":   {"the hub answers", apierrors.NewForbidden(schema.GroupResource{}, "x", nil), Forbidden, "does not allow"},
		"WrongCA":     {"the CA is what to mend", get(x509.UnknownAuthorityError{}), Untrusted, "certificate-authority-data"},
		"WrongName":   {"the name is what to mend", get(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "hub"}), Untrusted, "another name"},
		"CertExpired": {"clocks are what to compare", get(x509.CertificateInvalidError{Reason: x509.Expired}), Untrusted, "clocks"},
		"DNS":         {"the name is what to mend", get(&net.DNSError{Name: "hub.example.com", IsNotFound: true}), Unreachable, "hubApiServerHostAlias"},
		"Refused":     {"the port is what to mend", get(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), Unreachable, "refused"},
		"Timeout":     {"a firewall is what to mend", get(context.DeadlineExceeded), Unreachable, "no response"},
		"NoRoute":     {"routing is what to mend", get(fmt.Errorf("dial: %w", syscall.EHOSTUNREACH)), Unreachable, "route"},
		"NotAnAPI":    {"another server answers", apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "y"), Unreachable, "not from a Kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			got := classifyError(theHub("https://hub"), test.err)
			if got.Verdict != test.want || !strings.Contains(got.Message, test.message) {
				t.Errorf("%s: got %q (%s), want %q with %q", test.reason, got.Verdict, got.Message, test.want, test.message)
			}
			if !strings.Contains(got.Message, "https://hub") {
				t.Errorf("the message %q does not name the address", got.Message)
			}
		})
	}
}

func TestRulesAreReadAsTheServerReadsThem(t *testing.T) {
	rule := func(verbs, groups, resources, names string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{
			Verbs: strings.Fields(verbs), APIGroups: strings.Split(groups, " "), Resources: strings.Fields(resources), ResourceNames: strings.Fields(names),
		}
	}
	want := permission{Group: "g", Resource: "things", Subresource: "status", Name: "n", Verb: "patch"}
	for name, test := range map[string]struct {
		reason string
		rule   authorizationv1.ResourceRule
		want   bool
	}{
		"Exact":            {"all is named", rule("patch", "g", "things/status", "n"), true},
		"AnyName":          {"no names is all names", rule("patch", "g", "things/status", ""), true},
		"OtherName":        {"another object's status is not this one's", rule("patch", "g", "things/status", "m"), false},
		"Parent":           {"the object is not its status", rule("patch", "g", "things", ""), false},
		"Wildcards":        {"an administrator may do everything", rule("*", "*", "*", ""), true},
		"AllSubresources":  {"the status of everything is this one's, too", rule("patch", "g", "*/status", ""), true},
		"OtherVerb":        {"update is not patch", rule("update", "g", "things/status", ""), false},
		"OtherGroup":       {"things of another group are others", rule("patch", "h", "things/status", ""), false},
		"OtherSubresource": {"scale is not status", rule("patch", "g", "things/scale", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rulesAllow([]authorizationv1.ResourceRule{test.rule}, want); got != test.want {
				t.Errorf("%s: got %t, want %t", test.reason, got, test.want)
			}
		})
	}
}
