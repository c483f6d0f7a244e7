// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestBytes counts values, of which texts have none.
func TestBytes(t *testing.T) {
	for text, values := range map[string]int64{
		``: 0, `{}`: 1, `{"a":[0,0,{}]}`: 5, `{"a":"[,{\"[,{","b":"\\"}`: 2,
	} {
		want := int64(len(text)) + values*valueBytes
		if got := DecodedBytes([]byte(text)); got != want {
			t.Errorf("%s takes %d bytes, want %d", text, got, want)
		}
		var c byteCounter
		for i := range len(text) { // as it may come
			c.addPiece([]byte{text[i]})
		}
		if got := c.decodedBytes(); got != want {
			t.Errorf("%s takes %d bytes if it comes in pieces, want %d", text, got, want)
		}
	}
	const stored = 1536 << 10
	if most := DecodedBytes([]byte(strings.Repeat("{},", stored/3))); most > shareMax {
		t.Errorf("an object that can be stored takes up to %d bytes, more than the %d of a namespace", most, shareMax)
	}
}

// serves answers requests with a text.
type serves string

func (s serves) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

// read reads an object as clients do that decode it then.
func read(ctx context.Context, object string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub", http.NoBody)
	if err != nil {
		return err
	}
	response, err := NewTransport(serves(object)).RoundTrip(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err == nil && string(text) != object {
		err = fmt.Errorf("read %d bytes of %d", len(text), len(object))
	}
	return errors.Join(err, response.Body.Close())
}

// waitFor waits until so many wait for room, and so many have some.
func (m *Memory) waitFor(t *testing.T, all int, in *atomic.Int64) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); m.room.WaitingCount()+int(in.Load()) != all; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d have room and %d wait, want %d together", in.Load(), m.room.WaitingCount(), all)
		}
	}
}

// TestDenseObjectsWaitForRoom has the workers read objects of 300 KB that become 25 MB.
func TestDenseObjectsWaitForRoom(t *testing.T) {
	const workers = 40
	dense := `{"items":[` + strings.Repeat("{},", 100_000/2) + `{}]}`
	m := NewMemory(clock.RealClock{})
	var has, of atomic.Int64
	finish := make(chan struct{})
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			namespace := "one"
			if worker%4 == 0 {
				namespace = "two"
			}
			ctx, end := m.BeginReservation(t.Context(), namespace)
			defer end()
			if err := read(ctx, dense); err != nil {
				t.Error(err)
			}
			has.Add(1)
			if namespace == "one" {
				of.Add(1)
			}
			<-finish
			if err := read(ctx, dense); err != nil { // which has the place of the first one
				t.Error(err)
			}
		})
	}
	m.waitFor(t, workers, &has)
	each := DecodedBytes([]byte(dense))
	if takes := has.Load() * each; takes > memoryMax || has.Load() < 2 {
		t.Errorf("%d objects are decoded, which take %d bytes, want at most %d", has.Load(), takes, memoryMax)
	}
	if takes := of.Load() * each; takes > shareMax || of.Load() == has.Load() {
		t.Errorf("of %d objects, a namespace has %d, want at most %d bytes", has.Load(), of.Load(), shareMax)
	}
	ctx, end := m.BeginReservation(t.Context(), "one")
	if err := read(ctx, `{"data":{"text":"`+strings.Repeat("[{,", 500_000)+`"}}`); err != nil {
		t.Errorf("a small object is not read: %v", err)
	}
	end()
	close(finish)
	all.Wait()
	if !m.room.IsEmpty() {
		t.Error("what is no longer there still counts")
	}
}

// TestWhoNeedsMoreDoesNotWaitForOthers has all who have some of the memory need more of it, one
// of them more than once.
func TestWhoNeedsMoreDoesNotWaitForOthers(t *testing.T) {
	const first, workers = memoryMax / 8, 8
	m := NewMemory(clock.RealClock{})
	var more atomic.Int64
	var here, all sync.WaitGroup
	here.Add(workers)
	for worker := range workers {
		all.Go(func() {
			ctx, end := m.BeginReservation(t.Context(), fmt.Sprint("namespace ", worker))
			defer end()
			err := TakeMemory(ctx, first)
			here.Done()
			here.Wait()
			for bytes := int64(2 * first); bytes <= 4*shareMax && err == nil; bytes *= 2 {
				if err = TakeMemory(ctx, bytes); bytes == 2*first && more.Add(1) != 1 {
					t.Error("two have more than the room at a time")
				}
			}
			more.Add(-1)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if !m.room.IsEmpty() || len(m.further) > 0 {
		t.Error("what is no longer there still counts")
	}
}

// TestWhoWaitsNoLonger ends what waits.
func TestWhoWaitsNoLonger(t *testing.T) {
	m := NewMemory(clock.RealClock{})
	for _, namespace := range []string{"one", "two"} {
		ctx, end := m.BeginReservation(t.Context(), namespace)
		defer end()
		expect.NoError(t, TakeMemory(ctx, memoryMax/2))
	}
	dense := strings.Repeat("{},", 100_000)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx, end := m.BeginReservation(ended, "three")
	defer end()
	if err := read(ctx, dense); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it waits until the context ends", err)
	}
	if err := read(t.Context(), dense); err != nil {
		t.Errorf("who has not begun waits: %v", err)
	}
	var none *Memory
	ctx, end = none.BeginReservation(t.Context(), "three")
	defer end()
	if err := read(ctx, dense); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// TestEnd has one go on to something that has a limit of its own.
func TestEnd(t *testing.T) {
	m := NewMemory(clock.RealClock{})
	ctx, end := m.BeginReservation(t.Context(), "one")
	for _, bytes := range []int64{shareMax / 2, shareMax} {
		expect.NoError(t, TakeMemory(ctx, bytes))
	}
	m.EndReservation(ctx)
	if !m.room.IsEmpty() || len(m.further) > 0 {
		t.Error("it still has some of the memory")
	}
	if err := TakeMemory(ctx, shareMax); err != nil || m.room.IsEmpty() {
		t.Errorf("what it decodes after that does not count: %v", err)
	}
	end()
	if !m.room.IsEmpty() {
		t.Error("it still has some of the memory at its end")
	}
}

// TestWhatIsKeptOutlivesRequests has one go on to something else while it uses what it has decoded.
func TestWhatIsKeptOutlivesRequests(t *testing.T) {
	m := NewMemory(clock.RealClock{})
	ctx, end := m.BeginReservation(t.Context(), "one")
	if kept, err := KeepMemory(ctx, smallMax); kept || err != nil || !m.room.IsEmpty() {
		t.Errorf("what is small is kept: %t, %v", kept, err)
	}
	expect.NoError(t, TakeMemory(ctx, shareMax/2))
	for range 2 { // which replaces what it had before
		if kept, err := KeepMemory(ctx, shareMax); !kept || err != nil {
			t.Errorf("what is large is not kept: %t, %v", kept, err)
		}
		expect.NoError(t, TakeMemory(ctx, shareMax))
		m.EndReservation(ctx)
		if left := m.room.FreeBytes(); left != memoryMax-shareMax || len(m.further) > 0 {
			t.Errorf("there are %d bytes left while it keeps %d of %d", left, shareMax, memoryMax)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	others, leave := m.BeginReservation(ended, "two")
	defer leave()
	if kept, err := KeepMemory(others, shareMax); kept || !errors.Is(err, context.Canceled) {
		t.Errorf("got %t and %v, want that it waits", kept, err)
	}
	end()
	expect.NoError(t, TakeMemory(ctx, shareMax))
	m.EndReservation(ctx)
	if !m.room.IsEmpty() {
		t.Error("what was kept is after its end")
	}
	if kept, err := KeepMemory(t.Context(), shareMax); kept || err != nil {
		t.Errorf("without a reservation: %t, %v", kept, err)
	}
}
