// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"bytes"
	"cmp"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
)

const (
	// decodedBytesMax is how many bytes the certificates of a server may take once they are decoded, all together: each
	// connection keeps them. Those of eight authorities and of a server with several hundred names take half of it.
	decodedBytesMax = 192 << 10
	// elementBytes is what an element of a certificate takes beside its bytes, and uriBytes what one takes that is a URI.
	elementBytes = 64
	uriBytes     = 176
	// uriTag is the tag of a URI in the names of a certificate.
	uriTag = 6
	// arcBytes is what a byte of an object identifier takes, which may be a number, and is kept once more in policies.
	arcBytes = 12
	// signaturesMax is how many signatures may have to be verified: the certificates of a server may be issued by each
	// other in many ways.
	signaturesMax = 16
	// exponentMax is how large the exponent of an RSA key may be. Others take as long to verify with as longer keys.
	exponentMax = 65537
	// reasonRunesMax is how much is told of why a certificate is not trusted, which quotes it.
	reasonRunesMax = 1000
)

// ServerTrust is which server a client of TLS agrees with.
type ServerTrust struct {
	// Host is the name or the address that its certificate has to be for.
	Host string
	// Authorities sign its certificate; nil is for those of the system.
	Authorities *x509.CertPool
	// Anyone does without a check of who it is.
	Anyone bool
}

// ClientConfig returns a configuration for clients.
func (t ServerTrust) ClientConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, VerifyConnection: t.checkServer,
		InsecureSkipVerify: true, //nolint:gosec // checkServer does it, within bounds
	}
}

// checkServer returns an error if the certificates of a server are not trusted, or are more than are taken. The error has
// nothing of them but a text, as clients keep it.
func (t ServerTrust) checkServer(state tls.ConnectionState) error {
	own := state.PeerCertificates[0]
	var others []*x509.Certificate
	for _, certificate := range state.PeerCertificates[1:] {
		if !slices.ContainsFunc(others, certificate.Equal) {
			others = append(others, certificate)
		}
	}
	if err := checkCost(state, own, others); err != nil || t.Anyone {
		return err
	}
	options := x509.VerifyOptions{
		Roots: t.Authorities, Intermediates: x509.NewCertPool(),
		DNSName: cmp.Or(state.ServerName, t.Host), // the first is empty if it is an address
	}
	for _, certificate := range others {
		options.Intermediates.AddCert(certificate)
	}
	if _, err := own.Verify(options); err != nil {
		return &tls.CertificateVerificationError{Err: fmt.Errorf("%.*s", reasonRunesMax, err.Error())}
	}
	return nil
}

// checkCost returns an error if it takes too much to keep or to verify the certificates of a server.
func checkCost(state tls.ConnectionState, own *x509.Certificate, others []*x509.Certificate) error {
	const remedy = "have it send those that lead to its authority, with fewer names"
	decoded := 0
	for _, certificate := range state.PeerCertificates {
		decoded += decodedBytes(certificate.Raw, decodedBytesMax-decoded)
		if key, is := certificate.PublicKey.(*rsa.PublicKey); is && key.E > exponentMax {
			return fmt.Errorf("its certificates have an RSA key with the exponent %d, more than the %d that is taken; use a key with that one", key.E, exponentMax)
		}
	}
	for _, timestamp := range state.SignedCertificateTimestamps {
		decoded += elementBytes + len(timestamp)
	}
	if decoded > decodedBytesMax {
		return fmt.Errorf("its certificates have more than the %d bytes that are taken, once they are decoded; %s", decodedBytesMax, remedy)
	}
	if countSignatures(own, others) > signaturesMax {
		return fmt.Errorf("its certificates have more than the %d signatures that are verified; %s", signaturesMax, remedy)
	}
	return nil
}

// decodedBytes is about how many bytes DER takes once it is decoded. It counts no further when these are more than most.
func decodedBytes(der []byte, most int) int {
	decoded := 0
	for len(der) > 0 && decoded <= most {
		var element asn1.RawValue
		rest, err := asn1.Unmarshal(der, &element)
		if err != nil { // it is a text, or the bytes of a key
			return decoded + len(der)
		}
		der = rest
		decoded += elementBytes
		universal := element.Class == asn1.ClassUniversal
		switch {
		case element.IsCompound, universal && element.Tag == asn1.TagOctetString: // which is what an extension has its value in
			decoded += decodedBytes(element.Bytes, most-decoded)
		case universal && element.Tag == asn1.TagOID:
			decoded += arcBytes * len(element.Bytes)
		case element.Class == asn1.ClassContextSpecific && element.Tag == uriTag:
			decoded += uriBytes - elementBytes + len(element.Bytes)
		default:
			decoded += len(element.Bytes)
		}
	}
	return decoded
}

// countSignatures returns how many signatures may have to be verified until a certificate is led back to authorities by
// others. It counts no further when these are more than signaturesMax.
func countSignatures(of *x509.Certificate, by []*x509.Certificate) int {
	count := 0
	for i, issuer := range by {
		if count <= signaturesMax && bytes.Equal(issuer.RawSubject, of.RawIssuer) {
			count += 1 + countSignatures(issuer, slices.Concat(by[:i], by[i+1:]))
		}
	}
	return count
}
