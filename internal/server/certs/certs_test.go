// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/x509"
	"encoding/pem"
	"math/rand"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const testNamespace = "hub"

var testServing = []Leaf{
	{Secret: "a-serving-cert", Hosts: []string{"a.hub.svc"}},
	{Secret: "b-serving-cert", Hosts: []string{"b.hub.svc"}},
}

// start is any moment: nothing depends on which.
var start = time.Unix(1_700_000_000, 0)

func newRotator(t *testing.T) (*Rotator, client.Client, *clocktesting.FakePassiveClock) {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, corev1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	clock := clocktesting.NewFakePassiveClock(start)
	return &Rotator{
		Client: c, Reader: c, Clock: clock, Owner: "test", Namespace: testNamespace,
		Labels: map[string]string{"made-by": "test"}, SignerSecret: "signer-secret", BundleConfigMap: "ca-bundle-configmap",
	}, c, clock
}

func stored(t *testing.T, c client.Client, name string) *CertificatePair {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: testNamespace, Name: name}, secret); err != nil {
		t.Fatalf("reading secret %q: %v", name, err)
	}
	pair, err := ParsePair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatalf("secret %q: %v", name, err)
	}
	return pair
}

func accepts(bundle []byte, cert *x509.Certificate, now time.Time) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: cert.DNSNames[0], CurrentTime: now})
	return err == nil
}

func TestFirstRotationMakesEverythingAtOnce(t *testing.T) {
	r, c, clock := newRotator(t)
	bundle, due, err := r.RotateCertificates(t.Context(), testServing, nil)
	expect.NoError(t, err)
	for _, serving := range testServing {
		if !accepts(bundle, stored(t, c, serving.Secret).Certificate, clock.Now()) {
			t.Errorf("%s is not accepted with the bundle", serving.Secret)
		}
	}
	if !stored(t, c, "signer-secret").Certificate.IsCA {
		t.Error("signer-secret is not a usable signer")
	}
	if due.Before(start.Add(20*24*time.Hour)) || due.After(start.Add(LeafLifetime)) {
		t.Errorf("due after %s, want it between 20 and 30 days", due.Sub(start))
	}
}

func TestRotationWithoutNeedWritesNothing(t *testing.T) {
	r, c, _ := newRotator(t)
	bundle, _, err := r.RotateCertificates(t.Context(), testServing, nil)
	expect.NoError(t, err)
	before := stored(t, c, "a-serving-cert")
	again, _, err := r.RotateCertificates(t.Context(), testServing, [][]byte{bundle})
	expect.NoError(t, err)
	if string(bundle) != string(again) || string(before.CertPEM) != string(stored(t, c, "a-serving-cert").CertPEM) {
		t.Error("a second rotation changed something")
	}
}

func TestCertificatesAreForNamesAndAddresses(t *testing.T) {
	rotator, c, clock := newRotator(t)
	issued := func(address string) *CertificatePair {
		t.Helper()
		if _, _, err := rotator.RotateCertificates(t.Context(), []Leaf{{Secret: "a-serving-cert", Hosts: []string{"a.hub.svc", address}}}, nil); err != nil {
			t.Fatal(err)
		}
		pair := stored(t, c, "a-serving-cert")
		for _, host := range []string{"a.hub.svc", address} {
			if err := pair.Certificate.VerifyHostname(host); err != nil {
				t.Errorf("the certificate is not for %s: %v", host, err)
			}
		}
		return pair
	}
	first := issued("192.0.2.7")
	clock.SetTime(start.Add(2 * TrustDelay))
	if !issued("192.0.2.7").Certificate.Equal(first.Certificate) {
		t.Error("a certificate that fits is replaced")
	}
	issued("192.0.2.8")
	issued("hooks.example.com")
}

func TestDamagedAndForeignCertificatesAreReplaced(t *testing.T) {
	stranger, err := NewAuthority("stranger", start)
	expect.NoError(t, err)
	foreign, err := NewServing(stranger, testServing[0].Hosts, start)
	expect.NoError(t, err)
	tests := map[string]struct {
		reason string
		data   map[string][]byte
	}{
		"Damaged": {
			reason: "what cannot be read cannot be served",
			data:   map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")},
		},
		"Foreign": {
			reason: "a certificate of a signer outside the bundle is accepted by nobody",
			data:   map[string][]byte{"tls.crt": foreign.CertPEM, "tls.key": foreign.KeyPEM},
		},
		"OtherKey": {
			reason: "a key that is not the certificate's cannot be used",
			data:   map[string][]byte{"tls.crt": foreign.CertPEM, "tls.key": stranger.KeyPEM},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, c, clock := newRotator(t)
			bundle, _, err := r.RotateCertificates(t.Context(), testServing, nil)
			expect.NoError(t, err)
			secret := &corev1.Secret{}
			key := client.ObjectKey{Namespace: testNamespace, Name: "a-serving-cert"}
			expect.NoError(t, c.Get(t.Context(), key, secret))
			secret.Data = tc.data
			expect.NoError(t, c.Update(t.Context(), secret))
			if _, _, err := r.RotateCertificates(t.Context(), testServing, [][]byte{bundle}); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(start.Add(2 * TrustDelay))
			if _, _, err := r.RotateCertificates(t.Context(), testServing, [][]byte{bundle}); err != nil {
				t.Fatal(err)
			}
			if !accepts(bundle, stored(t, c, "a-serving-cert").Certificate, clock.Now()) {
				t.Errorf("not replaced: %s", tc.reason)
			}
		})
	}
}

func TestNewSignerSignsNothingUntilEveryClientKnowsIt(t *testing.T) {
	r, c, clock := newRotator(t)
	old, _, err := r.RotateCertificates(t.Context(), testServing, nil)
	expect.NoError(t, err)
	clock.SetTime(start.Add(AuthorityLifetime * 85 / 100))
	fresh, _, err := r.RotateCertificates(t.Context(), testServing, [][]byte{old})
	expect.NoError(t, err)
	if got := len(ParseBundle(fresh)); got != 2 {
		t.Fatalf("the bundle has %d signers, want the old and the new one", got)
	}
	if !accepts(old, stored(t, c, "a-serving-cert").Certificate, clock.Now()) {
		t.Error("a certificate was signed by a signer that a client does not know")
	}
}

// lateMax is how late clients and servers may be in the test below; at some
// time they have to get a certificate before the old one expires.
const lateMax = 12 * time.Hour

// TestRotationNeverBreaksARequest walks through years of a hub's life: passes at
// odd times, clients that get the bundle late, servers that load a certificate
// late, secrets that get lost. At each moment every client must accept every
// server.
func TestRotationNeverBreaksARequest(t *testing.T) {
	for seed := range int64(2) {
		random := rand.New(rand.NewSource(seed))
		r, c, clock := newRotator(t)
		bundle, _, err := r.RotateCertificates(t.Context(), testServing, nil)
		expect.NoError(t, err)
		clients := [][]byte{bundle, bundle, bundle}
		serving := map[string]*CertificatePair{}
		for _, s := range testServing {
			serving[s.Secret] = stored(t, c, s.Secret)
		}
		renewed := 0
		for clock.Now().Before(start.Add(2 * AuthorityLifetime)) {
			step := time.Duration(random.Int63n(int64(48 * time.Hour)))
			if random.Intn(3) == 0 {
				step = time.Duration(random.Int63n(int64(30 * time.Second)))
			}
			clock.SetTime(clock.Now().Add(step))
			if random.Intn(100) == 0 { // someone deletes the signer
				_ = c.Delete(t.Context(), signerSecret())
			}
			bundle, _, err = r.RotateCertificates(t.Context(), testServing, clients)
			expect.NoError(t, err)
			for _, s := range testServing {
				if step > lateMax || random.Intn(2) == 0 {
					next := stored(t, c, s.Secret)
					if string(next.CertPEM) != string(serving[s.Secret].CertPEM) {
						renewed++
					}
					serving[s.Secret] = next
				}
				for i, trusted := range clients {
					if !accepts(trusted, serving[s.Secret].Certificate, clock.Now()) {
						t.Fatalf("seed %d: client %d refuses %s after %s", seed, i, s.Secret, clock.Now().Sub(start))
					}
				}
			}
			deliver(random, clients, bundle)
		}
		if renewed < 20 {
			t.Fatalf("seed %d: only %d renewals, the test tells nothing", seed, renewed)
		}
	}
}

// deliver gives the bundle to some of the clients.
func deliver(random *rand.Rand, clients [][]byte, bundle []byte) {
	for i := range clients {
		if random.Intn(2) == 0 {
			clients[i] = bundle
		}
	}
}

func signerSecret() client.Object {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = testNamespace, "signer-secret"
	return secret
}

func TestLeavesAreForTheirPurposeOnly(t *testing.T) {
	r, c, clock := newRotator(t)
	leaves := []Leaf{
		{Secret: "server", Hosts: []string{"a.hub.svc", "127.0.0.1"}},
		{Secret: "client", User: "admin", Groups: []string{"operators", "admins"}},
		{Secret: "member", Hosts: []string{"m.hub.svc"}, User: "member"},
	}
	if _, _, err := r.RotateCertificates(t.Context(), leaves, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]x509.ExtKeyUsage{
		"server": {x509.ExtKeyUsageServerAuth},
		"client": {x509.ExtKeyUsageClientAuth},
		"member": {x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	} {
		if got := stored(t, c, name).Certificate.ExtKeyUsage; !slices.Equal(got, want) {
			t.Errorf("%s has the usages %v, want %v", name, got, want)
		}
	}
	client := stored(t, c, "client").Certificate
	if client.Subject.CommonName != "admin" || len(client.DNSNames) > 0 {
		t.Errorf("the client's certificate is for %q and the hosts %v", client.Subject.CommonName, client.DNSNames)
	}
	if _, _, err := r.RotateCertificates(t.Context(), leaves, nil); err != nil {
		t.Fatal(err)
	}
	if !stored(t, c, "client").Certificate.Equal(client) {
		t.Error("a certificate that fits was made anew")
	}
	leaves[1].Groups = []string{"admins"}
	if _, _, err := r.RotateCertificates(t.Context(), leaves, nil); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, c, "client").Certificate.Subject.Organization; !slices.Equal(got, leaves[1].Groups) {
		t.Errorf("with other groups the certificate still has %v", got)
	}
	if _, err := NewLeaf(stored(t, c, "signer-secret"), Leaf{}, clock.Now()); err == nil {
		t.Error("a certificate for nobody was made")
	}
}

func TestSigningKeysComeWithTheirPublicKey(t *testing.T) {
	private, public, err := NewSigningKey()
	expect.NoError(t, err)
	block, _ := pem.Decode(private)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	expect.NoError(t, err)
	block, _ = pem.Decode(public)
	got, err := x509.ParsePKIXPublicKey(block.Bytes)
	expect.NoError(t, err)
	if !key.PublicKey.Equal(got) {
		t.Error("the public key is that of another one")
	}
}
