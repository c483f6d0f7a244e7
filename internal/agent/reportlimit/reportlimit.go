// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reportlimit limits what an agent reports about its cluster, as the member decides
// how often that changes and how large it is.
//
// It writes nothing, knows no clock, and does not know what is reported. What all works of a
// cluster share is limited by package throttle.
package reportlimit

import (
	"time"

	"golang.org/x/time/rate"
)

// ReportLimit is how much may be reported at once, and in a second after that, in bytes or whatever
// else is counted. A report is paid for after it was written, by the time that passes: the first
// one after a rest is never late.
type ReportLimit struct {
	limiter *rate.Limiter
	paid    time.Time
}

// NewReportLimit returns the limit of a cluster about which nothing was reported.
func NewReportLimit(inASecond rate.Limit, atOnce int) *ReportLimit {
	return &ReportLimit{limiter: rate.NewLimiter(inASecond, atOnce)}
}

// PaidOffTime returns when all that was written is paid for.
func (l *ReportLimit) PaidOffTime() time.Time { return l.paid }

// CountWrite counts a report that was written.
func (l *ReportLimit) CountWrite(now time.Time, count int) {
	l.paid = now.Add(l.limiter.ReserveN(now, min(count, l.limiter.Burst())).DelayFrom(now))
}
