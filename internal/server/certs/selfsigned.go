// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// selfSignedBackdate makes a certificate valid for clients whose clock is
// behind ours: they may be anywhere.
const selfSignedBackdate = time.Hour

// SelfSigned is a serving certificate in memory, for servers whose clients do
// not verify it. It is made when somebody connects first, so that it costs the
// start of a component nothing, and anew when half of its life is over.
type SelfSigned struct {
	name    string
	clock   clock.PassiveClock
	mu      sync.Mutex
	current *tls.Certificate
}

// NewSelfSigned returns a certificate with the common name.
func NewSelfSigned(name string, c clock.PassiveClock) *SelfSigned {
	return &SelfSigned{name: name, clock: c}
}

// GetCertificate is for GetCertificate of a tls.Config.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.current != nil && now.Before(s.current.Leaf.NotAfter.Add(-LeafLifetime/2)) {
		return s.current, nil
	}
	made, err := s.issueCertificate(now)
	if err != nil {
		return nil, fmt.Errorf("making the serving certificate %q: %w", s.name, err)
	}
	s.current = made
	return made, nil
}

func (s *SelfSigned) issueCertificate(now time.Time) (*tls.Certificate, error) {
	pair, err := signCertificate(&x509.Certificate{
		Subject:     pkix.Name{CommonName: s.name},
		DNSNames:    []string{"localhost"},
		NotBefore:   now.Add(-selfSignedBackdate),
		NotAfter:    now.Add(LeafLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, nil)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{pair.Certificate.Raw}, PrivateKey: pair.key, Leaf: pair.Certificate}, nil
}
