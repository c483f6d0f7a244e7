// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"time"

	"github.com/capstan-io/capstan/internal/agent/reportlimit"
)

const (
	// reportBurst is how many bytes reports take at once: whoever may define kinds in the member
	// decides how large one is, up to a megabyte, and how often there is another.
	reportBurst = 8 << 20
	// reportRate is how many bytes in a second they take after that, as many as those of a work. One
	// of 80 KiB is never late, and one of a megabyte is written about once a minute.
	reportRate = 16 << 10
)

// reportThrottle says when the hub may be written to again. It knows no clock.
type reportThrottle struct {
	// last is when the hub was written to, and apis when it was told of other APIs.
	last, apis time.Time
	// bytes are those of reports.
	bytes *reportlimit.ReportLimit
}

func newReportThrottle() *reportThrottle {
	return &reportThrottle{bytes: reportlimit.NewReportLimit(reportRate, reportBurst)}
}

// nextWrite returns when the hub may be written to again. What tells of other APIs waits only for the
// last time that it did: clusters are chosen by their APIs. So there are as many writes at most
// as if each waited for writePause and each change of the APIs for promptPause. Both wait until
// what was written is paid for.
func (s *reportThrottle) nextWrite(apis bool) time.Time {
	next := s.last.Add(writePause)
	if apis {
		next = s.apis.Add(promptPause)
	}
	if paid := s.bytes.PaidOffTime(); paid.After(next) {
		return paid
	}
	return next
}

// countWrite says that the hub was written to, and has so many bytes.
func (s *reportThrottle) countWrite(now time.Time, apis bool, bytes int) {
	s.last = now
	if apis {
		s.apis = now
	}
	s.bytes.CountWrite(now, bytes)
}
