// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"net/http"
	"net/http/httptest"
	"testing"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestAClusterThatResetsRequestsIsToldOfInTheSameWordsEachTime(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		transport := transportTo(t, Endpoint{URL: server.URL, Insecure: true}, toLocal())
		first := transport.ProbeHealth(t.Context())
		if first.Reason != fleetv1alpha1.ClusterConnectionReasonUnreachable {
			t.Errorf("HTTP/2 %t: found %v, want Unreachable", http2, first)
		}
		for range 3 {
			if again := transport.ProbeHealth(t.Context()); again != first {
				t.Errorf("HTTP/2 %t: found %v, and before %v", http2, again, first)
			}
		}
	}
}
