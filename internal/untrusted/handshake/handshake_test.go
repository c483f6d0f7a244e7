// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const address = "192.0.2.1"

// issued is a certificate with its key.
type issued struct {
	*x509.Certificate

	key crypto.Signer
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(t, err)
	return key
}

// issue issues a certificate for a key, by itself if there is no issuer.
func issue(t *testing.T, template x509.Certificate, key crypto.Signer, by *issued) *issued {
	t.Helper()
	template.SerialNumber = big.NewInt(1)
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(time.Hour)
	if by == nil {
		by = &issued{&template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, by.Certificate, key.Public(), by.key)
	expect.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	expect.NoError(t, err)
	return &issued{parsed, key}
}

func authority(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"An organization"}}, IsCA: true, BasicConstraintsValid: true}
}

func server() x509.Certificate {
	return x509.Certificate{IPAddresses: []net.IP{net.ParseIP(address)}, DNSNames: []string{"member.example.com"}}
}

// shows is the configuration of a server that shows certificates, the first of which is its own.
func shows(chain ...*issued) *tls.Config {
	shown := tls.Certificate{PrivateKey: chain[0].key}
	for _, one := range chain {
		shown.Certificate = append(shown.Certificate, one.Raw)
	}
	return &tls.Config{Certificates: []tls.Certificate{shown}}
}

func trusts(root *issued) ServerTrust {
	pool := x509.NewCertPool()
	pool.AddCert(root.Certificate)
	return ServerTrust{Host: address, Authorities: pool}
}

// agree has a client agree with a server, which sends some data then.
func agree(t *testing.T, turns *DecodeTurns, client, server *tls.Config) error {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	here, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	expect.NoError(t, err)
	data := make([]byte, 4*bytesMax)
	var serving sync.WaitGroup
	serving.Go(func() {
		defer listener.Close() //nolint:errcheck // nothing can be done about it
		there, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close() //nolint:errcheck // nothing can be done about it
		conn := tls.Server(there, server)
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return
		}
		_, _ = conn.Write(data)
		_, _ = conn.Read(data) // until the client has gone
	})
	bounded := turns.BoundConn(here)
	t.Cleanup(func() { _ = bounded.Close(); serving.Wait() })
	client = client.Clone()
	if client.ServerName == "" {
		client.ServerName = address
	}
	conn := tls.Client(bounded, client)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		_ = bounded.Close()
		return err
	}
	if _, err := conn.Write([]byte{0}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, len(data)))
	return err
}

// joined returns certificates one after the other.
func joined(first *issued, others ...[]*issued) []*issued {
	return slices.Concat(append([][]*issued{{first}}, others...)...)
}

// TestOrdinaryServersAreAgreedWith has servers as they are in the field, after which no connection has a turn.
func TestOrdinaryServersAreAgreedWith(t *testing.T) {
	t.Parallel()
	long, err := rsa.GenerateKey(rand.Reader, 4096)
	expect.NoError(t, err)
	root := issue(t, authority("root"), long, nil)
	by := root
	var chain []*issued // from the server's own authority on
	for i := range 7 {
		by = issue(t, authority(fmt.Sprint("authority of a department ", i)), long, by)
		chain = joined(by, chain)
	}
	named := server()
	for i := range 400 {
		named.DNSNames = append(named.DNSNames, fmt.Sprintf("member-%03d.clusters.department.example.com", i))
	}
	workload := server()
	workload.URIs = []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/ns/kube-system/sa/apiserver"}}
	plain := issue(t, server(), newKey(t), by)
	other := issue(t, authority("other root"), newKey(t), nil)
	former := issue(t, authority(chain[5].Subject.CommonName), newKey(t), chain[6])
	crossed := issue(t, authority(chain[6].Subject.CommonName), long, other)
	reversed := slices.Clone(chain)
	slices.Reverse(reversed)
	clients := x509.NewCertPool()
	for i := range 100 {
		clients.AddCert(issue(t, authority(fmt.Sprint("authority of clients ", i)), other.key, nil).Certificate)
	}
	for name, chain := range map[string][]*issued{
		"a long chain":            joined(plain, chain),
		"a long chain of RSA":     joined(issue(t, server(), long, by), chain),
		"its root as well":        joined(plain, chain, joined(root)),
		"hundreds of names":       joined(issue(t, named, long, by), chain),
		"a SPIFFE ID":             joined(issue(t, workload, newKey(t), by), chain),
		"another order":           joined(plain, joined(other), reversed),
		"each of them twice":      joined(plain, chain, joined(plain, chain)),
		"former and crossed ones": joined(plain, chain, joined(former, []*issued{crossed, other})),
	} {
		for version, change := range map[string]func(*tls.Config){
			"TLS 1.3":       func(*tls.Config) {},
			"TLS 1.2":       func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
			"another curve": func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} },
			"a client's":    func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAnyClientCert, clients },
			"a client's, TLS 1.2": func(c *tls.Config) {
				c.ClientAuth, c.ClientCAs, c.MaxVersion = tls.RequireAnyClientCert, clients, tls.VersionTLS12
			},
			"HTTP/2": func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} },
		} {
			t.Run(name+", "+version, func(t *testing.T) {
				t.Parallel()
				turns := NewDecodeTurns()
				client, serving := trusts(root).ClientConfig(), shows(chain...)
				change(serving)
				client.NextProtos = []string{"h2", "http/1.1"}
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shows(plain).Certificates[0], nil }
				if err := agree(t, turns, client, serving); err != nil {
					t.Error(err)
				}
				if len(turns.taken) > 0 {
					t.Errorf("%d turns are taken", len(turns.taken))
				}
			})
		}
	}
}

// TestAServerIsWhoItsCertificateIsFor has clients ask for other hosts, and trust other authorities.
func TestAServerIsWhoItsCertificateIsFor(t *testing.T) {
	t.Parallel()
	root, other := issue(t, authority("root"), newKey(t), nil), issue(t, authority("root"), newKey(t), nil)
	serving := shows(issue(t, server(), newKey(t), root))
	for name, tc := range map[string]struct {
		by     *issued
		host   string
		anyone bool
		why    string
	}{
		"its address":       {by: root, host: address},
		"its name":          {by: root, host: "member.example.com"},
		"another address":   {by: root, host: "192.0.2.2", why: "x509: certificate is valid for 192.0.2.1, not 192.0.2.2"},
		"another name":      {by: root, host: "other.example.com", why: "x509: certificate is valid for member.example.com, not other.example.com"},
		"another authority": {by: other, host: address, why: "x509: certificate signed by unknown authority"},
		"anyone":            {by: other, host: "192.0.2.2", anyone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trust := trusts(tc.by)
			trust.Host, trust.Anyone = tc.host, tc.anyone
			client := trust.ClientConfig()
			client.ServerName = tc.host
			err := agree(t, NewDecodeTurns(), client, serving)
			var untrusted *tls.CertificateVerificationError
			if errors.As(err, &untrusted) != (tc.why != "") || (err == nil) != (tc.why == "") || err != nil && !strings.HasPrefix(untrusted.Err.Error(), tc.why) {
				t.Fatalf("got error %v, want %q", err, tc.why)
			}
			var authority x509.UnknownAuthorityError
			var host x509.HostnameError
			if err != nil && (len(untrusted.UnverifiedCertificates) > 0 || errors.As(err, &authority) || errors.As(err, &host)) {
				t.Errorf("the error %v has the certificates", err)
			}
		})
	}
}

// TestWhatIsQuotedOfACertificateIsShort has a server show a name of 30 KiB.
func TestWhatIsQuotedOfACertificateIsShort(t *testing.T) {
	t.Parallel()
	long := server()
	long.DNSNames = []string{strings.Repeat("a", 30<<10)}
	trust := trusts(issue(t, authority("root"), newKey(t), nil))
	trust.Host = "other.example.com"
	client := trust.ClientConfig()
	client.ServerName = trust.Host
	if err := agree(t, NewDecodeTurns(), client, shows(issue(t, long, newKey(t), nil))); err == nil || len(err.Error()) > 2*reasonRunesMax {
		t.Errorf("the error has %d bytes: %.100s", len(fmt.Sprint(err)), fmt.Sprint(err))
	}
}

// manyOf returns an extension whose value is so many times the same.
func manyOf(t *testing.T, id asn1.ObjectIdentifier, element []byte, times int) pkix.Extension {
	t.Helper()
	value, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: slices.Repeat(element, times)})
	expect.NoError(t, err)
	return pkix.Extension{Id: id, Value: value}
}

// extended is the template of a server with extensions.
func extended(extensions ...pkix.Extension) x509.Certificate {
	return x509.Certificate{ExtraExtensions: extensions}
}

// dense are certificates that become many times their length, each with so many elements.
func dense(t *testing.T, times int) map[string]x509.Certificate {
	t.Helper()
	names := asn1.ObjectIdentifier{2, 5, 29, 17}
	long := x509.Certificate{}
	for range times / 10 {
		long.Subject.ExtraNames = append(long.Subject.ExtraNames, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{1, 2}, Value: ""})
	}
	return map[string]x509.Certificate{
		"URIs":        extended(manyOf(t, names, []byte{0x86, 0}, times)),
		"DNS names":   extended(manyOf(t, names, []byte{0x82, 0}, times)),
		"usages":      extended(manyOf(t, asn1.ObjectIdentifier{2, 5, 29, 37}, []byte{6, 1, 42}, times)),
		"long usages": extended(manyOf(t, asn1.ObjectIdentifier{2, 5, 29, 37}, append([]byte{6, 100}, make([]byte, 100)...), times/40)),
		"names":       long,
	}
}

// TestWhatTakesTooMuchIsRefused has servers show what takes a lot of memory or time, whether that is verified or not.
func TestWhatTakesTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	const decoded, signatures, early = "once they are decoded", "signatures that are verified", "before TLS is agreed on"
	key := newKey(t)
	root := issue(t, authority("root"), key, nil)
	plain := issue(t, server(), key, root)
	servers := map[string]*tls.Config{}
	want := map[string]string{}
	add := func(name, why string, chain ...*issued) *tls.Config {
		servers[name] = shows(chain...)
		want[name] = why
		return servers[name]
	}
	for name, template := range dense(t, 15_000) {
		add(name, decoded, issue(t, template, key, root))
		add(name+" of another", decoded, plain, issue(t, template, key, root))
	}
	many := issue(t, dense(t, 120_000)["URIs"], key, root)
	add("more than is read", early, plain, many)
	add("more than is read, TLS 1.2", early, plain, many).MaxVersion = tls.VersionTLS12
	add("more than is read, another curve", early, plain, many).CurvePreferences = []tls.CurveID{tls.CurveP384}
	add("timestamps", decoded, plain).Certificates[0].SignedCertificateTimestamps = slices.Repeat([][]byte{{0}}, 15_000)
	alike := []*issued{issue(t, server(), key, &issued{&x509.Certificate{Subject: pkix.Name{CommonName: "a"}}, key})}
	var line []*issued
	by := root
	for i := range 20 {
		one := x509.Certificate{Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{fmt.Sprint(i)}, IsCA: true, BasicConstraintsValid: true}
		alike = append(alike, issue(t, one, key, &issued{&x509.Certificate{Subject: one.Subject}, key}))
		by = issue(t, authority(fmt.Sprint(i)), key, by)
		line = joined(by, line)
	}
	add("issued by each other", signatures, alike...)
	add("too long a chain", signatures, joined(issue(t, server(), key, by), line)...)
	public := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 4095, 1), E: 1<<31 - 1}
	template, parent := authority("slow"), root
	template.SerialNumber, template.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, parent.Certificate, public, parent.key)
	expect.NoError(t, err)
	add("a large exponent", "exponent", plain, &issued{&x509.Certificate{Raw: der}, nil})
	for name, serving := range servers {
		for _, anyone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, anyone=%t", name, anyone), func(t *testing.T) {
				t.Parallel()
				turns, trust := NewDecodeTurns(), trusts(root)
				trust.Anyone = anyone
				if err := agree(t, turns, trust.ClientConfig(), serving); err == nil || !strings.Contains(err.Error(), want[name]) {
					t.Errorf("got error %v, want one with %q", err, want[name])
				}
				if len(turns.taken) > 0 {
					t.Errorf("%d turns are taken", len(turns.taken))
				}
			})
		}
	}
}

// TestWhatIsKeptIsBounded has certificates as dense as they may be, each in bytes of its own as on a connection, and
// measures what they take.
func TestWhatIsKeptIsBounded(t *testing.T) {
	const copies = 20
	key := newKey(t)
	for name := range dense(t, 100) {
		taken := 100
		for times := 100; times <= 15_000; times += times / 10 {
			if decodedBytes(issue(t, dense(t, times)[name], key, nil).Raw, decodedBytesMax) <= decodedBytesMax {
				taken = times
			}
		}
		raw := issue(t, dense(t, taken)[name], key, nil).Raw
		kept := make([]*x509.Certificate, 0, copies)
		before := heldNow()
		for range copies {
			certificate, err := x509.ParseCertificate(slices.Clone(raw))
			expect.NoError(t, err)
			kept = append(kept, certificate)
		}
		held := (heldNow() - before) / copies
		if held > decodedBytesMax {
			t.Errorf("a certificate with %d %s takes %d bytes, want %d at most", taken, name, held, decodedBytesMax)
		}
		t.Logf("a certificate with %d %s of %d bytes takes %d bytes", taken, name, len(raw), held)
		runtime.KeepAlive(kept)
	}
}

// heldNow returns how much memory is in use.
func heldNow() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// TestFewConnectionsDecodeAtATime has a server send the ends of all that it shows at once, and connections be closed that
// have a turn, or wait for one.
func TestFewConnectionsDecodeAtATime(t *testing.T) {
	const connections = 5 * turnsMax
	root := issue(t, authority("root"), newKey(t), nil)
	serving := shows(issue(t, server(), newKey(t), root))
	synctest.Test(t, func(t *testing.T) {
		turns := NewDecodeTurns()
		serving.SessionTicketsDisabled = true // nobody reads them
		client := ServerTrust{Anyone: true}.ClientConfig()
		client.ServerName = address
		var decoding, agreed atomic.Int64
		goOn := make(chan struct{})
		client.VerifyConnection = func(tls.ConnectionState) error {
			decoding.Add(1)
			<-goOn
			return nil
		}
		var all sync.WaitGroup
		var open []*BoundedConn
		for range connections {
			here, there := net.Pipe()
			all.Go(func() {
				defer there.Close() //nolint:errcheck // nothing can be done about it
				_ = tls.Server(there, serving).Handshake()
			})
			conn := turns.BoundConn(here)
			open = append(open, conn)
			all.Go(func() {
				if tls.Client(conn, client).Handshake() == nil {
					agreed.Add(1)
				}
				_ = conn.Close()
			})
		}
		synctest.Wait()
		if decoding.Load() != turnsMax {
			t.Errorf("%d connections decode at a time, want %d", decoding.Load(), turnsMax)
		}
		for _, conn := range open[:connections/2] { // some of each kind
			_ = conn.Close()
		}
		close(goOn)
		all.Wait()
		if agreed.Load() != connections-connections/2 || len(turns.taken) > 0 {
			t.Errorf("%d connections are agreed on, want %d, and %d turns are taken", agreed.Load(), connections-connections/2, len(turns.taken))
		}
	})
}
