// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"net"
	"slices"
	"sync"
)

// boundedListener is a listener with a bound for the connections that are open. It never lets
// one wait for another to end: who holds all of them would keep the probes of kubelets out,
// which end the pod.
type boundedListener struct {
	net.Listener

	most int

	mu       sync.Mutex
	open     int
	accepted uint64
	// byAddress has the connections of each address, the oldest first.
	byAddress map[string][]*boundedConn
}

// boundedConn is one that counts while it is open.
type boundedConn struct {
	net.Conn

	of      *boundedListener
	address string
	number  uint64 // which grows with each that is accepted
	close   func() error
}

// BoundConnections returns the listener with a bound for the connections that are open. One more ends
// another: the oldest of the address that has most of them.
func BoundConnections(listener net.Listener, most int) net.Listener {
	return &boundedListener{Listener: listener, most: most, byAddress: map[string][]*boundedConn{}}
}

// Accept implements net.Listener.
func (c *boundedListener) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // http.Server looks at what it is
	}
	added := &boundedConn{Conn: accepted, of: c, address: hostOf(accepted.RemoteAddr())}
	added.close = sync.OnceValue(added.endConnection)
	if excess := c.addConnection(added); excess != nil {
		_ = excess.Close() // who holds it hears of that
	}
	return added, nil
}

// addConnection counts a connection, and returns the one that has to end for it, if there are too
// many: the oldest of the address that has most. An address that asks little, such as that
// of a kubelet, so loses none while another has many.
func (c *boundedListener) addConnection(added *boundedConn) (excess *boundedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		var most []*boundedConn
		for _, of := range c.byAddress {
			if len(of) > len(most) || len(of) == len(most) && of[0].number < most[0].number {
				most = of
			}
		}
		excess = most[0]
		c.dropConnection(excess)
	}
	c.accepted++
	added.number = c.accepted
	c.byAddress[added.address] = append(c.byAddress[added.address], added)
	c.open++
	return excess
}

// dropConnection counts a connection no more. The caller has the lock.
func (c *boundedListener) dropConnection(dropped *boundedConn) {
	of := c.byAddress[dropped.address]
	place := slices.Index(of, dropped)
	if place < 0 {
		return
	}
	c.open--
	if of = slices.Delete(of, place, place+1); len(of) == 0 {
		delete(c.byAddress, dropped.address)
		return
	}
	c.byAddress[dropped.address] = of
}

// Close implements net.Conn.
func (c *boundedConn) Close() error { return c.close() }

func (c *boundedConn) endConnection() error {
	c.of.mu.Lock()
	c.of.dropConnection(c)
	c.of.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // it is that connection
}

func hostOf(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}
