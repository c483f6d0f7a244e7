// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// manyFields returns a header of so many bytes, each of whose fields has another name.
func manyFields(bytes int) string {
	var text strings.Builder
	text.WriteString("Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n")
	for i := 0; text.Len() < bytes; i++ {
		fmt.Fprintf(&text, "%04x:\r\n", i)
	}
	return text.String()
}

// TestHeadersAreNotKept has a member begin watches with headers of nothing but names, each of which is a string and
// a place in a map for as long as somebody keeps it.
func TestHeadersAreNotKept(t *testing.T) {
	const watches = 100
	header := "HTTP/1.1 200 OK\r\n" + manyFields(headerBytesMax-1<<10) + "\r\n"
	server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, header)
		_, _ = conn.Read(make([]byte, 1)) // until the client has gone
		_ = conn.Close()
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	before := heldNow()
	var names []string
	for range watches {
		response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+watchPath, nil))
		expect.NoError(t, err)
		t.Cleanup(func() { _ = response.Body.Close() }) // until then it is open
		names = slices.Sorted(maps.Keys(response.Header))
	}
	held := heldNow() - before
	if held > watches*128<<10 {
		t.Errorf("%d responses with headers of %d bytes take %d KiB", watches, len(header), held>>10)
	}
	t.Logf("%d responses with headers of %d bytes take %d KiB", watches, len(header), held>>10)
	if !slices.Equal(names, []string{"Content-Type"}) {
		t.Errorf("of the header, %d fields are kept", len(names))
	}
}

// TestALongHeaderIsNotTaken has a member answer with more than a header may have.
func TestALongHeaderIsNotTaken(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("a", headerBytesMax))
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	if _, err := take(t, transport, server.URL+objectPath); err == nil {
		t.Error("it is taken")
	}
}

// TestHeadersArePaidFor has a member answer with nothing but headers, which are taken or refused.
func TestHeadersArePaidFor(t *testing.T) {
	const fields, text = 1000, "x"
	for name, status := range map[string]int{"taken": http.StatusOK, "refused": http.StatusFound} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
			limits := newLimiter(func(*http.Request) (*http.Response, error) {
				header := http.Header{}
				for i := range fields {
					header.Add(fmt.Sprintf("%04d", i), text)
				}
				return &http.Response{StatusCode: status, Header: header, Body: http.NoBody}, nil
			}, func(err *LimitError) { t.Errorf("refused: %v", err) })
			limits.meter = newMeter(clk)
			before := limits.meter.limit.TokensAt(clk.Now())
			response, err := (&limitedTransport{limits: limits}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://member"+objectPath, nil))
			if err == nil {
				_ = response.Body.Close()
			}
			if errors.Is(err, errRedirect) != (status == http.StatusFound) {
				t.Errorf("got error %v", err)
			}
			if paid := before - limits.meter.limit.TokensAt(clk.Now()); paid < fields*(fieldBytes+5) {
				t.Errorf("%.0f bytes are paid for", paid)
			}
		})
	}
}
