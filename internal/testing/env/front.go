// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"io"
	"net"
	"sync"
)

// testFront is the address by which one test reaches an API server that others use after
// it. Once it is closed, whatever the test has left running reaches the server no more.
type testFront struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	connections map[net.Conn]bool
}

// openFront passes on what comes to a new address of this machine to the server at
// an address.
func openFront(ctx context.Context, server string) (*testFront, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it could not listen on
	}
	f := &testFront{listener: listener, server: server, connections: map[net.Conn]bool{}}
	f.running.Go(f.acceptClients)
	return f, nil
}

// listenPort returns the port of the front.
func (f *testFront) listenPort() string {
	_, port, _ := net.SplitHostPort(f.listener.Addr().String()) // of a listener, it has one
	return port
}

func (f *testFront) acceptClients() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return // it is closed
		}
		f.running.Go(func() { f.passThrough(client) })
	}
}

// passThrough connects a client with the server until either has ended.
func (f *testFront) passThrough(client net.Conn) {
	server, err := net.Dial("tcp", f.server) //nolint:noctx // of this machine: it answers at once
	if err != nil {
		_ = client.Close()
		return
	}
	if !f.trackConnections(client, server) {
		return
	}
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // until one of them is closed
			_ = client.Close()
			_ = server.Close()
		})
	}
	copying.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.connections, client)
	delete(f.connections, server)
}

// trackConnections remembers connections, or closes them if the front is closed.
func (f *testFront) trackConnections(connections ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range connections {
		if f.closed {
			_ = c.Close()
			continue
		}
		f.connections[c] = true
	}
	return !f.closed
}

// closeAll ends all connections, and waits until that is done.
func (f *testFront) closeAll() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for c := range f.connections {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}
