// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// door is an address of an API server that can be closed, as if the API server
// were down.
type door struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

// openDoor opens a door to the API server at the URL.
func openDoor(t testing.TB, server string) *door {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: listener, target: target.Host, open: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			inside, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			serving.Go(func() { d.serve(inside) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		d.ShutDoor()
		serving.Wait()
	})
	return d
}

func (d *door) url() string { return "https://" + d.listener.Addr().String() }

func (d *door) serve(from net.Conn) {
	to, err := net.Dial("tcp", d.target)
	if err != nil {
		_ = from.Close()
		return
	}
	if !d.admit(from, to) {
		return
	}
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		copying.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // an error is an end, too
			d.dismiss(from, to)
		})
	}
	copying.Wait()
}

// admit reports whether the door is open, and notes who goes through.
func (d *door) admit(connections ...net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range connections {
		if d.closed {
			_ = c.Close()
		} else {
			d.open[c] = true
		}
	}
	return !d.closed
}

func (d *door) dismiss(connections ...net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range connections {
		_ = c.Close()
		delete(d.open, c)
	}
}

// ShutDoor ends all connections and refuses new ones until reopen.
func (d *door) ShutDoor() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for c := range d.open {
		_ = c.Close()
	}
}

// ReopenDoor lets everybody in again.
func (d *door) ReopenDoor() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = false
}
