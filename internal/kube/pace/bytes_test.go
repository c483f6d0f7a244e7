// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"testing"
	"time"
)

// TestPaidBytesAreForgotten counts what is remembered of those who rest.
func TestPaidBytesAreForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	debts := NewByteDebts[string](64<<10, 4<<20)
	for i := range 20 * debtsMin {
		debts.CountBytes(fmt.Sprint(i), 100, now)
		now = now.Add(time.Second)
	}
	if kept := len(debts.until); kept > 2*debtsMin {
		t.Errorf("%d are remembered, of whom nearly all rest", kept)
	}
}

// TestOrdinaryObjectsDoNotWait has the first roll-out of a large fleet in one namespace, and another one write
// what is as long together in few objects.
func TestOrdinaryObjectsDoNotWait(t *testing.T) {
	const objects, writes, bytes, inASecond = 10_000, 12, 6 << 10, 300
	m := NewSpaceMeter[string]()
	begin := time.Unix(1000, 0)
	for n := range objects * writes {
		now := begin.Add(time.Duration(n) * time.Second / inASecond)
		if wait := m.WaitBeforeWrite("fleet", CauseChange, now); wait > 0 {
			t.Fatalf("write %d of objects of %d bytes waits for %s", n, bytes, wait)
		}
		m.CountWrite("fleet", CauseChange, bytes, now)
	}
	large := 0
	for now := begin; now.Before(begin.Add(10 * time.Minute)); now = now.Add(time.Second) {
		for m.WaitBeforeWrite("few", CauseChange, now) == 0 {
			m.CountWrite("few", CauseChange, 1<<20, now)
			large++
		}
	}
	if most := (largeBurst+600*largeRate)>>20 + 8; large > most || large < most/2 {
		t.Errorf("%d objects of a megabyte are written in ten minutes, want nearly %d", large, most)
	}
}

// TestSmallObjectsWaitTogether has 10,000 objects, just as long as ordinary ones, written twice for each change of
// their policy.
func TestSmallObjectsWaitTogether(t *testing.T) {
	const changes, writes, bytes = 7, 20_000, ordinaryBytes - 1
	now := time.Unix(1000, 0)
	m := NewSpaceMeter[string]()
	written := 0
	for range changes * writes {
		if m.WaitBeforeWrite("shop", CauseChange, now) == 0 {
			m.CountWrite("shop", CauseChange, bytes, now)
			written += bytes
		}
	}
	if written < ordinaryBurst || written > ordinaryBurst+bytes {
		t.Errorf("%d MiB are written at once, want %d", written>>20, ordinaryBurst>>20)
	}
}

// TestReportsLeaveHalfToChanges has a namespace written for ten minutes whenever it may be, by those who report without end
// and by those who change what there is.
func TestReportsLeaveHalfToChanges(t *testing.T) {
	const seconds = 600
	for name, bytes := range map[string]int{"large": 1 << 20, "ordinary": ordinaryBytes} {
		t.Run(name, func(t *testing.T) {
			rate, atOnce := largeRate, largeBurst
			if bytes == ordinaryBytes {
				rate, atOnce = ordinaryRate, ordinaryBurst
			}
			begin := time.Unix(1000, 0)
			m := NewSpaceMeter[string]()
			written := map[WriteCause]int{}
			write := func(cause WriteCause, now time.Time) {
				for m.WaitBeforeWrite("shop", cause, now) == 0 {
					m.CountWrite("shop", cause, bytes, now)
					written[cause] += bytes
				}
			}
			write(CauseReport, begin)
			if wait := m.WaitBeforeWrite("shop", CauseChange, begin); wait > 0 {
				t.Errorf("a change waits %v for reports", wait)
			}
			for second := range seconds {
				now := begin.Add(time.Duration(second) * time.Second)
				write(CauseReport, now)
				write(CauseChange, now)
			}
			least, most := (atOnce+seconds*rate)/changesPart, atOnce+seconds*rate
			if written[CauseChange] < least*9/10 || written[CauseReport] < atOnce*9/10 {
				t.Errorf("%d MiB of changes and %d MiB of reports are written, want at least %d and %d", written[CauseChange]>>20, written[CauseReport]>>20, least>>20, atOnce>>20)
			}
			if all := written[CauseChange] + written[CauseReport]; all > (most+least)*11/10 {
				t.Errorf("%d MiB are written, want at most %d", all>>20, (most+least)>>20)
			}
		})
	}
}
