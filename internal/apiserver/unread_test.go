// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/path"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	clientrest "k8s.io/client-go/rest"
)

// TestAnswersThatNobodyReadsTakeNoPlaces has a pod of the network, without a credential,
// ask for probes, and read no byte of the answers. They would be longer than what a server
// keeps for a client, as they would repeat what was asked.
func TestAnswersThatNobodyReadsTakeNoPlaces(t *testing.T) {
	const asked = 500 // more than the server's library has places for
	var begun atomic.Int64
	api := probes(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun.Add(1)
		api.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streamsPerConnection}
	server.StartTLS()
	defer server.Close()
	// A connection without a credential takes no new requests after its first answer.
	for begun.Load() < asked {
		connection := askWithoutReading(t, server, "/readyz?verbose&exclude="+strings.Repeat("a", 4000), 200)
		defer connection.Close() //nolint:errcheck // the test is over
		for last := int64(-1); last != begun.Load(); time.Sleep(100 * time.Millisecond) {
			last = begun.Load()
		}
	}
	response, err := server.Client().Get(server.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("with %d answers that nobody reads, a kubelet is answered %s", begun.Load(), response.Status)
	}
}

// probes are what the aggregated API server answers without a credential.
func probes(t testing.TB) http.Handler {
	t.Helper()
	scheme := runtime.NewScheme()
	config := genericserver.NewConfig(serializer.NewCodecFactory(scheme))
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &clientrest.Config{}
	config.SkipOpenAPIInstallation = true
	config.Authentication.Authenticator = refuseAnonymous(anonymous.NewAuthenticator([]apiserver.AnonymousAuthCondition(nil)))
	authorizer, err := path.NewAuthorizer(probePaths())
	if err != nil {
		t.Fatal(err)
	}
	config.Authorization.Authorizer = authorizer
	b, err := newBodyChecker(scheme)
	if err != nil {
		t.Fatal(err)
	}
	config.BuildHandlerChainFunc = limitedHandlerChain(newUserRequestLimiter(defaultRequestsPerUser), b)
	server, err := config.Complete(nil).New("test", genericserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	server.PrepareRun()
	server.RunPostStartHooks(t.Context())
	return server.Handler
}

// askWithoutReading sends requests over one connection of HTTP/2 that takes no byte of an
// answer.
func askWithoutReading(t testing.TB, server *httptest.Server, url string, requests int) *tls.Conn {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	connection, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(connection, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for acknowledged := false; !acknowledged; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if settings, is := frame.(*http2.SettingsFrame); is && !settings.IsAck() {
			if err := framer.WriteSettingsAck(); err != nil {
				t.Fatal(err)
			}
			acknowledged = true
		}
	}
	var all, headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	writer := http2.NewFramer(&all, nil)
	for i := range requests {
		headers.Reset()
		for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "example.com"}, {":path", url}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		if err := writer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: headers.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := connection.Write(all.Bytes()); err != nil {
		t.Fatal(err)
	}
	return connection
}
