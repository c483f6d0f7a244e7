// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"net"
	"slices"
	"sync"
)

// connections is a listener with a bound for the connections that are open. It never lets
// one wait for another to end: who holds all of them would keep the probes of kubelets out,
// which end the pod.
type connections struct {
	net.Listener

	most int

	mu       sync.Mutex
	open     int
	accepted uint64
	// byAddress has the connections of each address, the oldest first.
	byAddress map[string][]*connection
}

// connection is one that counts while it is open.
type connection struct {
	net.Conn

	of      *connections
	address string
	number  uint64 // which grows with each that is accepted
	close   func() error
}

// Bound returns the listener with a bound for the connections that are open. One more ends
// another: the oldest of the address that has most of them.
func Bound(listener net.Listener, most int) net.Listener {
	return &connections{Listener: listener, most: most, byAddress: map[string][]*connection{}}
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	accepted, err := c.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // http.Server looks at what it is
	}
	added := &connection{Conn: accepted, of: c, address: hostOf(accepted.RemoteAddr())}
	added.close = sync.OnceValue(added.end)
	if excess := c.add(added); excess != nil {
		_ = excess.Close() // who holds it hears of that
	}
	return added, nil
}

// add counts a connection, and returns the one that has to end for it, if there are too
// many: the oldest of the address that has most. An address that asks little, such as that
// of a kubelet, so loses none while another has many.
func (c *connections) add(added *connection) (excess *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		var most []*connection
		for _, of := range c.byAddress {
			if len(of) > len(most) || len(of) == len(most) && of[0].number < most[0].number {
				most = of
			}
		}
		excess = most[0]
		c.drop(excess)
	}
	c.accepted++
	added.number = c.accepted
	c.byAddress[added.address] = append(c.byAddress[added.address], added)
	c.open++
	return excess
}

// drop counts a connection no more. The caller has the lock.
func (c *connections) drop(dropped *connection) {
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
func (c *connection) Close() error { return c.close() }

func (c *connection) end() error {
	c.of.mu.Lock()
	c.of.drop(c)
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
