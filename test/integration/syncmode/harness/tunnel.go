// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	// chunkBytes is how much is read at once, and chunksMax how many chunks may be
	// on their way: enough that only the delay is felt.
	chunkBytes = 32 << 10
	chunksMax  = 1024
)

// chunk is what was read at once, and when it arrives.
type chunk struct {
	due  time.Time
	data []byte
}

// FarAway returns an address by which the API server at the URL is reached, with
// a delay for each direction, as if it were on another continent.
func FarAway(t testing.TB, server string, delay time.Duration) string {
	t.Helper()
	target, err := url.Parse(server)
	expect.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	note := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open[c] = true
	}
	serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			note(near)
			serving.Go(func() {
				defer func() { _ = near.Close() }()
				far, err := net.Dial("tcp", target.Host)
				if err != nil {
					return // as if nobody listened
				}
				defer func() { _ = far.Close() }()
				note(far)
				var both sync.WaitGroup
				both.Go(func() { carry(far, near, delay) })
				both.Go(func() { carry(near, far, delay) })
				both.Wait()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return "https://" + listener.Addr().String()
}

// carry copies what comes from one side to the other, later, until either ends.
func carry(to, from net.Conn, delay time.Duration) {
	under := make(chan chunk, chunksMax)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer func() { _ = to.Close() }()
		for c := range under {
			timer := time.NewTimer(time.Until(c.due))
			<-timer.C
			if _, err := to.Write(c.data); err != nil {
				_ = from.Close()
			}
		}
	})
	for {
		data := make([]byte, chunkBytes)
		n, err := from.Read(data)
		if n > 0 {
			under <- chunk{due: time.Now().Add(delay), data: data[:n]}
		}
		if err != nil {
			break
		}
	}
	close(under)
	writing.Wait()
}
