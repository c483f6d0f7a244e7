// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

func TestCertificatesAreGoodForWhatTheyWereIssued(t *testing.T) {
	authority, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(Request{
		CommonName:    "server",
		Organizations: []string{"group"},
		DNSNames:      []string{"server.test"},
		IPs:           []net.IP{net.IPv4(192, 0, 2, 1)},
		Usages:        []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Public, pair.Private); err != nil {
		t.Errorf("certificate and key do not match: %v", err)
	}
	certificates, err := cert.ParseCertsPEM(pair.Public)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Public)

	for name, test := range map[string]struct {
		host  string
		usage x509.ExtKeyUsage
		valid bool
	}{
		"by name":         {"server.test", x509.ExtKeyUsageServerAuth, true},
		"by address":      {"192.0.2.1", x509.ExtKeyUsageServerAuth, true},
		"other name":      {"other.test", x509.ExtKeyUsageServerAuth, false},
		"other usage":     {"server.test", x509.ExtKeyUsageClientAuth, false},
		"not by its name": {"server", x509.ExtKeyUsageServerAuth, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := certificates[0].Verify(x509.VerifyOptions{
				DNSName:   test.host,
				Roots:     roots,
				KeyUsages: []x509.ExtKeyUsage{test.usage},
			})
			if valid := err == nil; valid != test.valid {
				t.Errorf("valid is %t, want %t (%v)", valid, test.valid, err)
			}
		})
	}
}

func TestCertificatesAreNotTrustedByOthers(t *testing.T) {
	authority, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(Request{CommonName: "user", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := cert.ParseCertsPEM(pair.Public)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(other.Public)
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := certificates[0].Verify(options); err == nil {
		t.Error("an authority of the same name vouches for the certificate")
	}
}

func TestASigningKeyIsAPair(t *testing.T) {
	pair, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyutil.ParsePrivateKeyPEM(pair.Private); err != nil {
		t.Errorf("private key: %v", err)
	}
	if _, err := keyutil.ParsePublicKeysPEM(pair.Public); err != nil {
		t.Errorf("public key: %v", err)
	}
}
