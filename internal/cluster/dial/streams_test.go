// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// pipeListener has connections in memory, so that a bubble knows when nothing happens any more.
type pipeListener struct {
	connections chan net.Conn
	closed      context.Context
	close       context.CancelFunc
}

func newPipeListener() *pipeListener {
	l := &pipeListener{connections: make(chan net.Conn)}
	l.closed, l.close = context.WithCancel(context.Background())
	return l
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.connections:
		return conn, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error { l.close(); return nil }

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

// dialPipe connects to the listener.
func (l *pipeListener) dialPipe(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	l.connections <- there
	return here, nil
}

// bubbleTransport starts an API server in a bubble, and returns the transport to it.
func bubbleTransport(t *testing.T, server *httptest.Server, pace *wirePace) *Transport {
	t.Helper()
	listener := newPipeListener()
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	pace.meter = transport.limits.meter
	transport.transport.DialContext = pace.paceDial(listener.dialPipe)
	return transport
}

// TestWhatNobodyReadsIsNotTaken has a member send without end in watches that nobody reads, as those that wait for
// a turn.
func TestWhatNobodyReadsIsNotTaken(t *testing.T) {
	const watches = 40
	synctest.Test(t, func(t *testing.T) {
		piece := bytes.Repeat([]byte(" "), 16<<10)
		var sent atomic.Int64
		server := &httptest.Server{EnableHTTP2: true, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				_, _ = w.Write([]byte("{}"))
				return
			}
			for r.Context().Err() == nil {
				n, err := w.Write(piece)
				if sent.Add(int64(n)); err != nil || sent.Load() > watches*objectBytesMax {
					return
				}
				w.(http.Flusher).Flush()
			}
		})}}
		transport := bubbleTransport(t, server, newWirePace())
		url := server.URL
		for range watches {
			response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, url+watchPath, nil))
			expect.NoError(t, err)
			defer response.Body.Close() //nolint:errcheck // nothing can be done about it
			if response.ProtoMajor != 2 {
				t.Fatalf("the member answers by %s", response.Proto)
			}
		}
		synctest.Wait()
		if most := int64(2 * watches * streamBytesMax); sent.Load() > most || sent.Load() < watches*streamBytesMax/2 {
			t.Errorf("the member got rid of %d bytes, want some %d", sent.Load(), watches*streamBytesMax)
		}
		if _, err := take(t, transport, url+objectPath); err != nil { // on the same connection
			t.Errorf("what is read waits for what is not: %v", err)
		}
	})
}

// sendTimes sends a frame so many times.
func sendTimes(times int, send func() error) error {
	var err error
	for sent := 0; sent < times && err == nil; sent++ {
		err = send()
	}
	return err
}

// awaitAcks reads until so many PINGs are answered.
func awaitAcks(from *http2.Framer, pings int) error {
	for answered := 0; answered < pings; {
		frame, err := from.ReadFrame()
		if err != nil {
			return err
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			answered++
		}
	}
	return nil
}

// TestFramesThatAreNoAnswerHaveAPace has a member send what is no answer: PINGs, each of which is answered by a write, and
// large frames that nobody knows.
func TestFramesThatAreNoAnswerHaveAPace(t *testing.T) {
	const large, largeCount = 16 << 10, 16
	for name, tc := range map[string]struct{ pings, unknown int }{
		"PINGs":          {pings: writesAtOnce + 4*writesPerSecond},
		"unknown frames": {pings: 1, unknown: largeCount},
	} {
		send := func(to *http2.Framer) error {
			unknown := func() error { return to.WriteRawFrame(0xff, 0, 0, make([]byte, large)) }
			ping := func() error { return to.WritePing(false, [8]byte{}) }
			return cmp.Or(to.WriteSettings(), sendTimes(tc.unknown, unknown), sendTimes(tc.pings, ping))
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pace := newWirePace()
				if tc.unknown > 0 {
					pace.reads = rate.NewLimiter(large*largeCount/4, large*largeCount/4)
				}
				took := make(chan time.Duration, 1)
				serve := func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
					start := time.Now()
					_, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
					frames := http2.NewFramer(conn, conn)
					sent := make(chan error, 1)
					go func() { sent <- send(frames) }()
					if err = errors.Join(err, awaitAcks(frames, tc.pings), <-sent); err != nil {
						t.Error(err)
					}
					took <- time.Since(start)
					_ = conn.Close()
				}
				server := &httptest.Server{
					TLS:    &tls.Config{NextProtos: []string{http2.NextProtoTLS}},
					Config: &http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){http2.NextProtoTLS: serve}},
				}
				transport := bubbleTransport(t, server, pace)
				if _, err := take(t, transport, server.URL+objectPath); err == nil {
					t.Error("it is answered")
				}
				if elapsed := <-took; elapsed < 2*time.Second {
					t.Errorf("the connection deals with all of it within %s", elapsed)
				}
				time.Sleep(time.Minute) // in which what it still has to write has its turn
			})
		})
	}
}

// TestConnectionsHaveAPace has a member end each watch after one event, and its connection: clients ask again at once.
func TestConnectionsHaveAPace(t *testing.T) {
	const clients, watches, atOnce = 20, 10, 50
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		server := &httptest.Server{Config: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Connection", "close")
				_, _ = io.WriteString(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}`)
			}),
			ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					dials.Add(1)
				}
			},
		}}
		transport := bubbleTransport(t, server, newWirePace())
		transport.limits.meter.limit = rate.NewLimiter(decodedRate, atOnce*dialBytes)
		start := time.Now()
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for range watches {
					if _, err := take(t, transport, server.URL+pathOf(i)+"?watch=true&resourceVersion=1"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		// What is owed is paid for, but for what those cost that were let in before.
		paid := (clients*watches - clients - atOnce) * dialBytes * time.Second / decodedRate
		if dials.Load() < clients*watches || time.Since(start) < paid {
			t.Errorf("%d connections are made within %s, want that they take %s", dials.Load(), time.Since(start), paid)
		}
	})
}
