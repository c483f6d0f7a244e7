// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestWhatGoesWrongAgainReadsTheSame has the same thing go wrong at two moments.
func TestWhatGoesWrongAgainReadsTheSame(t *testing.T) {
	expired := expiredCertificate(t)
	connection := func(op, network string, port int) error {
		return &net.OpError{
			Op: op, Net: network, Err: syscall.ECONNRESET,
			Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 443},
		}
	}
	cases := map[string]struct {
		at   func(moment int) error
		says []string
	}{
		"an expired certificate": {
			at: func(moment int) error {
				_, err := expired.Verify(x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: expired.NotAfter.Add(time.Duration(moment) * time.Hour)})
				return err
			},
			says: []string{"has expired or is not yet valid", "it is after 2020-01-02T00:00:00Z"},
		},
		"a certificate that is not valid yet": {
			at: func(moment int) error {
				_, err := expired.Verify(x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: expired.NotBefore.Add(-time.Duration(moment) * time.Hour)})
				return err
			},
			says: []string{"it is before 2020-01-01T00:00:00Z"},
		},
		"a connection that ends": {
			at:   func(moment int) error { return connection("read", "tcp", 40000+moment) },
			says: []string{"read tcp 10.0.0.2:443: connection reset by peer"},
		},
		"a name server that does not answer": {
			at: func(moment int) error {
				return fmt.Errorf("dial tcp: lookup a.b.svc on 10.0.0.2:53: %w", connection("read", "udp4", 40000+moment))
			},
			says: []string{"lookup a.b.svc on 10.0.0.2:53: read udp4 10.0.0.2:443"},
		},
		"a request that is cut off": {
			at: func(moment int) error {
				return fmt.Errorf("stream error: stream ID %d; INTERNAL_ERROR; received from peer", moment)
			},
			says: []string{"INTERNAL_ERROR; received from peer"},
		},
		"a server that goes away": {
			at: func(moment int) error {
				return fmt.Errorf(`http2: server sent GOAWAY and closed the connection; LastStreamID=%d, ErrCode=NO_ERROR, debug=""`, moment)
			},
			says: []string{"closed the connection; ErrCode=NO_ERROR"},
		},
	}
	object := ObjectRef{Resource: "configmaps", Namespace: "shop", Name: "a"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for who, wrap := range map[string]func(error) error{
				"the cluster does not answer": func(err error) error { return err },
				"a webhook does not answer": func(err error) error {
					return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: %w", "a.example.com", err))
				},
			} {
				first, again := tc.at(1), tc.at(2)
				if first == nil || first.Error() == again.Error() {
					t.Fatalf("the errors are %v and %v: want two that differ", first, again)
				}
				before, after := ExplainError(wrap(first), "patch", object), ExplainError(wrap(again), "patch", object)
				if before.Message != after.Message {
					t.Errorf("%s: it says\n%s\nand the next time\n%s", who, before.Message, after.Message)
				}
				for _, says := range tc.says {
					if !strings.Contains(before.Message, says) {
						t.Errorf("%s: %q lacks %q", who, before.Message, says)
					}
				}
			}
		})
	}
}

// TestAWebhookThatDoesNotAnswerIsNamed is about that of an operator in the cluster whose pods
// do not run yet.
func TestAWebhookThatDoesNotAnswerIsNamed(t *testing.T) {
	err := apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com": failed to call webhook: no endpoints available for service "a"`))
	got := ExplainError(err, "patch", ObjectRef{Resource: "configmaps", Namespace: "shop", Name: "a"})
	want := `Cannot patch configmaps shop/a: Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: no endpoints available for service "a". ` +
		"It is tried again: that webhook of the cluster has to admit the object; if this persists, check the webhook's pods, Service and certificate."
	if got.Trouble != TroublePassing || got.Message != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

// expiredCertificate returns one that was valid on the first day of 2020.
func expiredCertificate(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(t, err)
	from := time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	expect.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	expect.NoError(t, err)
	return certificate
}
