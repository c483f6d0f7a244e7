// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/capstan-io/capstan/internal/agent/reportlimit"
)

const (
	// writesAtOnce is how many reports are written as soon as there is something to tell, and
	// writeEvery the time between two after that. Each is told to all that watch clusters, and one
	// with another condition is mirrored in the ClusterConnection, which may be larger.
	writesAtOnce = 20
	writeEvery   = 10 * time.Second
	// bytesAtOnce is how many bytes reports take at once, and bytesRate in a second after that, as
	// many as those of a work: whoever may write claims in the member decides how large they are.
	bytesAtOnce = 4 << 20
	bytesRate   = 16 << 10
	// turnsAtOnce is how often the hub is told at once that the cluster is available or not any
	// more, whatever was reported before, and turnEvery the time between two after that.
	turnsAtOnce = 4
	turnEvery   = 30 * time.Second
)

// reportThrottle says when the hub may be written to again. It knows no clock.
type reportThrottle struct {
	writes, bytes, turns *reportlimit.ReportLimit
}

func newReportThrottle() *reportThrottle {
	return &reportThrottle{
		writes: reportlimit.NewReportLimit(rate.Every(writeEvery), writesAtOnce),
		bytes:  reportlimit.NewReportLimit(bytesRate, bytesAtOnce),
		turns:  reportlimit.NewReportLimit(rate.Every(turnEvery), turnsAtOnce),
	}
}

// waitBeforeWrite returns how long a report has to wait, 0 or less if it may be written now. One of a turn,
// which is that the cluster becomes available or is not any more, waits for those of earlier turns
// only: clusters are chosen and works evicted by it.
func (s *reportThrottle) waitBeforeWrite(now time.Time, turn bool) time.Duration {
	others := max(s.writes.PaidOffTime().Sub(now), s.bytes.PaidOffTime().Sub(now))
	if turn {
		return min(others, s.turns.PaidOffTime().Sub(now))
	}
	return others
}

// countWrite counts a report with so many bytes that was written.
func (s *reportThrottle) countWrite(now time.Time, turn bool, bytes int) {
	s.writes.CountWrite(now, 1)
	s.bytes.CountWrite(now, bytes)
	if turn {
		s.turns.CountWrite(now, 1)
	}
}
