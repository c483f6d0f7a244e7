// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func dialing(address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) }
}

// clientFor returns a client with a certificate that the signer has made.
func clientFor(t *testing.T, address string, authority, signer *certs.CertificatePair) *MemberClient {
	t.Helper()
	leaf, err := certs.NewLeaf(signer, certs.Leaf{User: "backup", Lifetime: time.Minute}, time.Now())
	expect.NoError(t, err)
	certificate, err := tls.X509KeyPair(leaf.CertPEM, leaf.KeyPEM)
	expect.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate)
	c := NewMemberClient("localhost", dialing(address), &tls.Config{ServerName: "localhost", RootCAs: roots, Certificates: []tls.Certificate{certificate}})
	t.Cleanup(c.Close)
	return c
}

// put stores a value, and returns the revision of the change.
func put(t *testing.T, c *MemberClient, key string, value []byte) int64 {
	t.Helper()
	encode := base64.StdEncoding.EncodeToString
	body, err := c.postRequest(t.Context(), "/v3/kv/put", fmt.Sprintf(`{"key":%q,"value":%q}`, encode([]byte(key)), encode(value)))
	expect.NoError(t, err)
	expect.NoError(t, body.Close())
	revision, err := c.CurrentRevision(t.Context())
	expect.NoError(t, err)
	return revision
}

func TestASnapshotHasWhatIsStored(t *testing.T) {
	address, authority := env.StartEtcd(t)
	c := clientFor(t, address, authority, authority)
	random := make([]byte, 1<<20) // of more than one message
	rand.New(rand.NewSource(1)).Read(random)
	first := put(t, c, "first", []byte("one"))
	if second := put(t, c, "second", random); second != first+1 {
		t.Errorf("after revision %d comes %d", first, second)
	}
	snapshot, err := c.OpenSnapshot(t.Context())
	expect.NoError(t, err)
	defer func() { _ = snapshot.Close() }()
	content, err := io.ReadAll(snapshot)
	expect.NoError(t, err)
	if int64(len(content)) != snapshot.Size {
		t.Errorf("%d bytes have come, and %d were announced", len(content), snapshot.Size)
	}
	database, sum := content[:len(content)-sha256.Size], content[len(content)-sha256.Size:]
	if want := sha256.Sum256(database); !bytes.Equal(sum, want[:]) {
		t.Error("the snapshot does not end with its checksum, which etcdutl expects")
	}
	if !bytes.Contains(database, random[:512]) {
		t.Error("what was stored is not in the snapshot")
	}
}

func TestEtcdTakesNoCertificateOfOthers(t *testing.T) {
	address, authority := env.StartEtcd(t)
	stranger, err := certs.NewAuthority("etcd", time.Now())
	expect.NoError(t, err)
	if _, err := clientFor(t, address, authority, stranger).CurrentRevision(t.Context()); err == nil {
		t.Error("a client of another authority got an answer")
	}
	if _, err := clientFor(t, address, stranger, authority).CurrentRevision(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an etcd of another authority was asked: %v", err)
	}
}

func TestASnapshotThatIsNotWholeIsAnError(t *testing.T) {
	database := []byte("some pages of a database")
	sum := sha256.Sum256(database)
	part := func(remaining int, blob []byte) string {
		return fmt.Sprintf(`{"result":{"remaining_bytes":"%d","blob":%q}}`+"\n", remaining, base64.StdEncoding.EncodeToString(blob))
	}
	whole := part(14, database[:10]) + part(0, database[10:])
	cases := map[string]struct {
		status int
		answer string
		want   string // empty if it is whole
	}{
		"whole":                {200, whole + part(0, sum[:]), ""},
		"an empty message":     {200, part(14, database[:10]) + part(14, nil) + part(0, database[10:]) + part(0, sum[:]), ""},
		"without its checksum": {200, whole, "it ended after 24 of 56 bytes"},
		"cut off":              {200, part(14, database[:10]), "it ended after 10 of 56 bytes"},
		"cut off in a message": {200, whole + `{"result":{"blo`, "of which 24 of 56 bytes have come"},
		"altered":              {200, part(14, database[:10]) + part(0, database[:14]) + part(0, sum[:]), "checksums differ"},
		"more than announced":  {200, whole + part(0, sum[:]) + part(0, sum[:]), "more than 56 bytes"},
		"an error on the way":  {200, part(14, database[:10]) + `{"error":{"code":2,"message":"disk failed"}}`, "disk failed"},
		"an error at once":     {200, `{"error":{"code":2,"message":"disk failed"}}`, "beginning a snapshot of etcd: disk failed"},
		"nothing":              {200, "", "beginning a snapshot of etcd"},
		"a refusal":            {403, "not you", "403 Forbidden: not you"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer) // the client notices
			}))
			defer server.Close()
			asking := NewMemberClient("example.com", dialing(server.Listener.Addr().String()), server.Client().Transport.(*http.Transport).TLSClientConfig)
			defer asking.Close()
			content, err := copied(t, asking)
			switch {
			case c.want == "" && (err != nil || !bytes.Equal(content, append(database, sum[:]...))):
				t.Errorf("got %q and the error %v", content, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func copied(t *testing.T, c *MemberClient) ([]byte, error) {
	t.Helper()
	snapshot, err := c.OpenSnapshot(t.Context())
	if err != nil {
		return nil, err
	}
	defer func() { _ = snapshot.Close() }()
	return io.ReadAll(snapshot)
}
