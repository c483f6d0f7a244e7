// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package handshake

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

const (
	// bytesMax is how many bytes a server may send until TLS is agreed on: its certificates, those of the authorities
	// whose clients it knows, and what a proxy says before. A connection keeps some of it three times.
	bytesMax = 64 << 10
	// turnsMax is how many connections to one server decode at a time what it sent: it may send the ends of all of it
	// at once.
	turnsMax = 8
	// recordHeaderBytes is the length of what begins a record of TLS, whose first byte is its type.
	recordHeaderBytes = 5
	// dataRecord is the type of the records that a client writes when it has agreed, and not before.
	dataRecord = 23
)

// DecodeTurns are what the connections to one server share while they agree on TLS. It is safe for concurrent use.
type DecodeTurns struct{ taken chan struct{} }

// NewDecodeTurns returns the turns of a server that has no connection.
func NewDecodeTurns() *DecodeTurns { return &DecodeTurns{taken: make(chan struct{}, turnsMax)} }

// DialFunc connects to an address.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// BoundDial returns dial with connections as BoundConn has them.
func (t *DecodeTurns) BoundDial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return t.BoundConn(conn), nil
	}
}

// BoundConn returns a connection to the server that ends if too much comes of it before TLS is agreed on. What comes until
// then is looked at when it is the turn of the connection.
func (t *DecodeTurns) BoundConn(conn net.Conn) *BoundedConn {
	return &BoundedConn{Conn: conn, turns: t.taken, closed: make(chan struct{})}
}

// BoundedConn is a connection on which a client of TLS agrees with a server.
type BoundedConn struct {
	net.Conn

	turns chan struct{}
	// received is how many bytes came until it was agreed.
	received        int
	agreed, hasTurn atomic.Bool
	closed          chan struct{}
	close           sync.Once
}

// IsAgreed reports whether TLS is agreed on: the client has written what only a server can read that it has agreed with.
func (c *BoundedConn) IsAgreed() bool { return c.agreed.Load() }

// Read implements net.Conn. It gives up the turn in which the client looked at what was read before, and returns in another.
func (c *BoundedConn) Read(into []byte) (int, error) {
	c.endTurn()
	n, err := c.Conn.Read(into)
	if c.IsAgreed() {
		return n, err
	}
	if c.received += n; c.received > bytesMax {
		return 0, fmt.Errorf("it sends more than %d bytes before TLS is agreed on; have it send fewer certificates, or names of authorities", bytesMax)
	}
	if n > 0 && !c.takeTurn() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn.
func (c *BoundedConn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	if !c.IsAgreed() && hasDataRecord(data) {
		c.agreed.Store(true)
		c.endTurn()
	}
	return n, err
}

// Close implements net.Conn.
func (c *BoundedConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	c.endTurn()
	return c.Conn.Close()
}

// takeTurn waits for a turn. It reports false if the connection is closed instead.
func (c *BoundedConn) takeTurn() bool {
	select {
	case c.turns <- struct{}{}:
		c.hasTurn.Store(true)
	case <-c.closed:
		return false
	}
	select {
	case <-c.closed: // by who may have found no turn to end
		c.endTurn()
		return false
	default:
	}
	if c.IsAgreed() { // by a write meanwhile, which may not have found it either
		c.endTurn()
	}
	return true
}

func (c *BoundedConn) endTurn() {
	if c.hasTurn.Swap(false) {
		<-c.turns
	}
}

// hasDataRecord reports whether one of the records that a client writes at once is of data.
func hasDataRecord(data []byte) bool {
	for len(data) >= recordHeaderBytes {
		if data[0] == dataRecord {
			return true
		}
		length := int(binary.BigEndian.Uint16(data[recordHeaderBytes-2:]))
		data = data[min(recordHeaderBytes+length, len(data)):]
	}
	return false
}
