// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
	"github.com/capstan-io/capstan/internal/untrusted/handshake"
)

const (
	// dialTimeout is how long it may take to reach a cluster, and handshakeTimeout
	// how long TLS may take.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// answerTimeout is how long a request may wait for the beginning of its answer.
	// The slowest are writes that webhooks of the cluster look at, for 30 s each at most.
	answerTimeout = 35 * time.Second
	keepAlive     = 30 * time.Second

	// streamBytesMax is how much of an answer an HTTP/2 connection takes before a client reads it: a list of
	// 64 MiB comes in time at 250 ms of round trip. A thousand watches that stand still are 128 MiB.
	streamBytesMax = 128 << 10
	// connectionBytesMax is how much of all of its answers: of 256, so that those that nobody reads keep no
	// other waiting. API servers allow 100 or 250 on a connection.
	connectionBytesMax = 256 * streamBytesMax

	// writesPerSecond is how many writes all connections to one cluster have after writesAtOnce, beside one for each
	// bytesPerWrite that are read: requests are hundreds, and what is read of an answer is told once for as much.
	writesPerSecond = 4000
	writesAtOnce    = 20_000
	bytesPerWrite   = 4 << 10
	// readPerSecond is how many bytes of all of them are read after decodedBurst: what nobody decodes is as much
	// as what is decoded, at most.
	readPerSecond = 2 * decodedRate
)

// Transport leads to one cluster with a token that can be replaced at any time.
// It is safe for concurrent use.
type Transport struct {
	base      *url.URL
	transport *http.Transport
	token     atomic.Pointer[string]
	// blocked is why no request is sent; nil if requests are.
	blocked atomic.Pointer[error]
	// refusal is the latest answer that was not taken, or not at once, unless someone asked for it.
	refusal atomic.Pointer[LimitError]
	limits  *limiter

	userAgent      string
	doubt, delayed func()
}

// TransportOptions of a Transport.
type TransportOptions struct {
	Guard AddressGuard
	// UserAgent is who the API server is told to be asked by.
	UserAgent string
	// Doubt is called when a request failed in a way that makes the cluster or the
	// token suspicious. It has to return at once.
	Doubt func()
	// Delayed is called when a request waits, or its answer does, as so much of the cluster was
	// decoded. It has to return at once. May be nil.
	Delayed func()
	// Pace is what all members share of which the process decodes answers. May be nil.
	Pace *decoding.SharedPace
}

// NewTransport returns a Transport without dialling. It has no token.
func NewTransport(endpoint Endpoint, o TransportOptions) (*Transport, error) {
	base, err := endpoint.baseURL(o.Guard)
	if err != nil {
		return nil, err
	}
	trust, err := endpoint.trustFor(base.Hostname())
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: o.Guard.ControlDial}
	transport := &http.Transport{
		TLSClientConfig: trust.ClientConfig(), TLSHandshakeTimeout: handshakeTimeout,
		ResponseHeaderTimeout: answerTimeout, MaxIdleConnsPerHost: 2,
		MaxResponseHeaderBytes: headerBytesMax, DisableCompression: true, // see answer
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: streamBytesMax, MaxReceiveBufferPerConnection: connectionBytesMax},
	}
	pace := newWirePace()
	transport.DialContext = pace.paceDial(dialer.DialContext)
	if err := endpoint.useProxy(transport, pace.turns); err != nil {
		return nil, err
	}
	utilnet.SetTransportDefaults(transport) // HTTP/2 with pings, so that a dead connection is noticed
	t := &Transport{base: base, transport: transport, userAgent: o.UserAgent, doubt: o.Doubt, delayed: o.Delayed}
	t.limits = newLimiter(t.sendWithToken, t.recordRefusal)
	t.limits.meter.delayed = t.recordDelay
	pace.meter = t.limits.meter
	if o.Pace != nil {
		t.limits.meter.sender = o.Pace.AddSender()
	}
	t.SetToken("")
	return t, nil
}

// SetToken makes requests go with the token from now on.
func (t *Transport) SetToken(token string) { t.token.Store(&token) }

// BlockRequests makes all requests fail with the error, but those of ProbeHealth, IdentifyCluster and
// RequestToken; nil ends that.
func (t *Transport) BlockRequests(why error) {
	if why == nil {
		t.blocked.Store(nil)
		return
	}
	t.blocked.Store(&why)
}

// IsBlocked reports whether requests fail because of BlockRequests.
func (t *Transport) IsBlocked() bool { return t.blocked.Load() != nil }

// TakeRefusal returns which answer was not taken since it was called last, or not at once, nil if all
// were: one that had more bytes or objects than those of an API server have.
func (t *Transport) TakeRefusal() *LimitError { return t.refusal.Swap(nil) }

// recordRefusal notes an answer that is not taken.
func (t *Transport) recordRefusal(err *LimitError) {
	t.refusal.Store(err)
	t.doubt()
}

// recordDelay notes an answer that is taken later.
func (t *Transport) recordDelay(err *LimitError) {
	t.refusal.Store(err)
	if t.delayed != nil {
		t.delayed()
	}
}

// ClientConfig returns a configuration for clients that use this transport. It has no
// limit on requests.
func (t *Transport) ClientConfig() *rest.Config {
	return &rest.Config{Host: t.base.String(), Transport: t, QPS: -1, UserAgent: t.userAgent}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	end := t.limits.followRequest(request) // whatever becomes of it: clients that ask again hold what they have
	if why := t.blocked.Load(); why != nil {
		end()
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read of it
		}
		return nil, *why
	}
	response, err := t.limits.sendLimited(request, end)
	if err != nil {
		end()
	}
	switch {
	case err != nil && request.Context().Err() == nil, err == nil && response.StatusCode == http.StatusUnauthorized:
		t.doubt()
	}
	return response, err
}

// errElsewhere says that a request is for another host, which would be dialled by
// the hub and get the token.
var errElsewhere = errors.New("the request is for another host than that of the cluster")

// sendWithToken sends a request with the token, which it adds to it, and to the cluster
// only.
func (t *Transport) sendWithToken(request *http.Request) (*http.Response, error) {
	if request.URL.Host != t.base.Host || request.URL.Scheme != t.base.Scheme {
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read of it
		}
		return nil, errElsewhere
	}
	request.Header.Set("Authorization", "Bearer "+*t.token.Load())
	return t.transport.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.transport }

// Close closes the connections that nothing uses.
func (t *Transport) Close() { t.transport.CloseIdleConnections() }

// wirePace spreads over time what the connections to one cluster have to do beside answers: frames of HTTP/2 that are
// none of a body take time, and some have to be answered, such as a PING. It is safe for concurrent use.
type wirePace struct {
	turns         *handshake.DecodeTurns
	reads, writes *rate.Limiter
	// meter is what each connection costs something of.
	meter *decodeMeter
	// unwritten are the bytes that were read and for which no write was free.
	unwritten atomic.Int64
}

func newWirePace() *wirePace {
	return &wirePace{turns: handshake.NewDecodeTurns(), reads: rate.NewLimiter(readPerSecond, decodedBurst), writes: rate.NewLimiter(writesPerSecond, writesAtOnce)}
}

// paceDial returns dial with connections that share the pace.
func (p *wirePace) paceDial(dial handshake.DialFunc) handshake.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := p.meter.spendBytes(ctx, dialBytes); err != nil {
			_ = conn.Close()
			return nil, err
		}
		open, end := context.WithCancel(context.WithoutCancel(ctx))
		return &pacedConn{BoundedConn: p.turns.BoundConn(conn), pace: p, open: open, end: end}, nil
	}
}

// pacedConn is a connection that waits for its pace.
type pacedConn struct {
	*handshake.BoundedConn

	pace *wirePace
	open context.Context
	end  context.CancelFunc
}

// Read implements net.Conn.
func (c *pacedConn) Read(into []byte) (int, error) {
	n, err := c.BoundedConn.Read(into)
	if c.IsAgreed() { // what comes before is read for a few writes
		c.pace.unwritten.Add(int64(n))
	}
	if n > 0 && c.pace.reads.WaitN(c.open, n) != nil {
		return n, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn.
func (c *pacedConn) Write(data []byte) (int, error) {
	if c.pace.unwritten.Add(-bytesPerWrite) < 0 {
		c.pace.unwritten.Add(bytesPerWrite)
		if c.pace.writes.Wait(c.open) != nil {
			return 0, net.ErrClosed
		}
	}
	return c.BoundedConn.Write(data)
}

// Close implements net.Conn.
func (c *pacedConn) Close() error {
	c.end()
	return c.BoundedConn.Close()
}
