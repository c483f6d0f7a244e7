// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

const (
	// renewPart is the part of a lifetime that is left when a successor is made:
	// 73 days for a signer, more than a leaf lives, and 6 for a leaf.
	renewPart = 0.2

	// TrustDelay is how long a new signer waits, with the bundle everywhere
	// already, until it signs: API servers see a changed bundle a little later.
	TrustDelay = time.Minute

	// trustRecheck is how often we look whether all clients have the bundle.
	trustRecheck = 15 * time.Second

	// bundleCertificatesMax limits the bundle; the oldest are left out.
	bundleCertificatesMax = 8
)

// Leaf is a certificate that is wanted: of a server if it has hosts, of a client
// if it has a user, or of both.
type Leaf struct {
	// Secret is the name of the TLS secret.
	Secret string
	// Hosts are the names by which clients call the server, IP addresses last.
	Hosts []string
	// User is whom servers take a client for, and Groups those that the user is in.
	User   string
	Groups []string
	// Lifetime is how long it is valid; 0 means LeafLifetime.
	Lifetime time.Duration
}

// ObservedState is what is there.
type ObservedState struct {
	// Signer is the newest signer, Previous the one before; nil if there is
	// none or it cannot be used.
	Signer, Previous *CertificatePair
	// Next is the one that is to take the signer's place; nil if there is none.
	Next *CertificatePair
	// Step is how far that is.
	Step ReplacementStep
	// Bundle is what is published, as PEM.
	Bundle []byte
	// Trusted are the bundles that clients have now, as PEM.
	Trusted [][]byte
	// Leaves has the certificates by the name of their secret.
	Leaves map[string]*CertificatePair
}

// RotationPlan is what has to be done, in the order of the fields.
type RotationPlan struct {
	// NewSigner says that a signer has to be made, and then to decide again.
	NewSigner bool
	// Bundle is what has to be published, as PEM.
	Bundle []byte
	// Issue are the certificates to make, signed by IssueBy.
	Issue   []Leaf
	IssueBy *CertificatePair
	// Due is when to decide again, if nothing else happens.
	Due time.Time
}

// PlanRotation tells what has to be done for the wanted certificates. It changes
// nothing and gives the same answer for the same facts.
func PlanRotation(now time.Time, observed ObservedState, wanted []Leaf) RotationPlan {
	if !isUsableSigner(observed.Signer, now) || renewDue(observed.Signer.Certificate, now) {
		return RotationPlan{NewSigner: true, Due: now}
	}
	bundle := mergeBundle(now, observed)
	signers := bundle
	if observed.Step == Sign || observed.Step == Drop {
		signers = []*x509.Certificate{observed.Signer.Certificate}
	}
	if observed.Step == Drop {
		bundle = signers
	}
	plan := RotationPlan{Bundle: EncodeBundle(bundle), Due: renewTime(observed.Signer.Certificate)}
	plan.IssueBy = trustedIssuer(now, observed)
	for _, leaf := range wanted {
		have := observed.Leaves[leaf.Secret]
		if have == nil || !certificateFits(now, have, leaf, signers) {
			plan.Issue = append(plan.Issue, leaf)
			continue
		}
		plan.Due = earlierTime(plan.Due, renewTime(have.Certificate))
	}
	if plan.IssueBy == nil && len(plan.Issue) > 0 {
		// No signer is known to all clients yet.
		plan.Issue = nil
		plan.Due = now.Add(trustRecheck)
	}
	return plan
}

// trustedIssuer returns the newest signer that every client trusts, or nil.
func trustedIssuer(now time.Time, observed ObservedState) *CertificatePair {
	for _, signer := range []*CertificatePair{observed.Signer, observed.Previous} {
		if isUsableSigner(signer, now) && isTrustedByAll(now, signer, observed.Trusted) {
			return signer
		}
	}
	if !anyUsed(now, observed) {
		return observed.Signer // waiting would protect nobody
	}
	return nil
}

// isTrustedByAll reports whether all clients know the signer, and have for a while. With
// no client there is nobody to wait for.
func isTrustedByAll(now time.Time, signer *CertificatePair, bundles [][]byte) bool {
	for _, bundle := range bundles {
		if !containsCertificate(ParseBundle(bundle), signer.Certificate) {
			return false
		}
	}
	made := signer.Certificate.NotBefore.Add(backdate)
	return len(bundles) == 0 || !now.Before(made.Add(TrustDelay))
}

// anyUsed reports whether somebody may hold a certificate that others accept.
func anyUsed(now time.Time, observed ObservedState) bool {
	for _, pair := range observed.Leaves {
		if pair != nil && now.Before(pair.Certificate.NotAfter) {
			return true
		}
	}
	return false
}

// mergeBundle returns the signers to trust, newest first: those that we have
// and those that anyone trusts already, for they may have signed something that
// is still in use.
func mergeBundle(now time.Time, observed ObservedState) []*x509.Certificate {
	var list []*x509.Certificate
	add := func(cert *x509.Certificate) {
		if cert.IsCA && now.Before(cert.NotAfter) && !containsCertificate(list, cert) {
			list = append(list, cert)
		}
	}
	for _, pair := range []*CertificatePair{observed.Signer, observed.Previous, observed.Next} {
		if pair != nil {
			add(pair.Certificate)
		}
	}
	for _, bundle := range append([][]byte{observed.Bundle}, observed.Trusted...) {
		for _, cert := range ParseBundle(bundle) {
			add(cert)
		}
	}
	slices.SortStableFunc(list, func(a, b *x509.Certificate) int { return b.NotBefore.Compare(a.NotBefore) })
	return list[:min(len(list), bundleCertificatesMax)]
}

// certificateFits reports whether a certificate is what is wanted and will be for a while.
func certificateFits(now time.Time, have *CertificatePair, want Leaf, signers []*x509.Certificate) bool {
	cert := have.Certificate
	if now.Before(cert.NotBefore) || renewDue(cert, now) || !slices.Equal(hostsOf(cert), want.Hosts) {
		return false
	}
	if want.User != "" && (cert.Subject.CommonName != want.User || !sameNames(cert.Subject.Organization, want.Groups)) {
		return false
	}
	return slices.ContainsFunc(signers, func(signer *x509.Certificate) bool { return cert.CheckSignatureFrom(signer) == nil })
}

// sameNames compares names whose order does not matter: a certificate sorts them.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// hostsOf returns the hosts that a certificate is for.
func hostsOf(cert *x509.Certificate) []string {
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// isUsableSigner reports whether the pair can sign now.
func isUsableSigner(pair *CertificatePair, now time.Time) bool {
	if pair == nil {
		return false
	}
	cert := pair.Certificate
	return cert.IsCA && !now.Before(cert.NotBefore) && now.Before(cert.NotAfter)
}

func renewTime(cert *x509.Certificate) time.Time {
	left := time.Duration(renewPart * float64(cert.NotAfter.Sub(cert.NotBefore)))
	return cert.NotAfter.Add(-left)
}

func renewDue(cert *x509.Certificate, now time.Time) bool { return !now.Before(renewTime(cert)) }

func containsCertificate(list []*x509.Certificate, cert *x509.Certificate) bool {
	return slices.ContainsFunc(list, cert.Equal)
}
