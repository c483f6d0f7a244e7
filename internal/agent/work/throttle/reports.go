// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/report"
)

const (
	// workRate is how many bytes in a second the reports of a work take that never rests.
	// One of a megabyte is then written about once a minute.
	workRate = 16 << 10
	// workBurst is how many bytes the reports of a work take at once: a rollout of a work of
	// 10 KiB has 26 of them.
	workBurst = 256 << 10
	// clusterRate is how many bytes in a second the reports of all works of a cluster take.
	// They have equal parts of it, whatever their sizes are.
	clusterRate = 128 << 10
	// clusterBurst is how many bytes they take at once. Beyond, a work whose last reports are
	// not paid for has no burst of its own.
	clusterBurst = 64 << 20
	// drainEvery is how often what has been paid is worked out.
	drainEvery = time.Second
	// waitMax is the longest time after which a work is to be looked at again: it may be its
	// turn earlier than expected, when others come to rest.
	waitMax = time.Minute
	// unusedMax is how long a work is remembered that no connection looks at: it may be gone.
	unusedMax = time.Hour
)

// ReportThrottle limits the reports about the works of one cluster. A report is paid for after it
// was written, with the time that passes then: what rests for long enough is reported at
// once, whatever its size is and whatever others do. It outlives the connections of the cluster,
// which would have as many bursts otherwise as the member has connections. It is safe for
// concurrent use.
type ReportThrottle struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// granted is how many bytes a work that owes some has paid since the beginning, until at.
	granted float64
	at      time.Time
	// owing are the works that have not paid for all of their reports, and owed is how many
	// bytes these are.
	owing map[*ReportMemory]struct{}
	owed  float64
	// memories are those of works, by name.
	memories map[string]*ReportMemory
}

// ReportMemory is what is remembered of a work from report to report. The zero value is that of
// a work about which nothing was reported. It belongs to its ReportThrottle, whose lock it is under.
type ReportMemory struct {
	// The hub has an answer to this generation of this work, which takes so many bytes
	// without its status.
	uid        types.UID
	generation int64
	bytes      int
	// until is what Reports.granted is when all reports are paid for.
	until float64
	// used is when somebody looked at it.
	used time.Time
}

// NewReportThrottle returns the limits of a cluster about whose works nothing was reported.
func NewReportThrottle(clk clock.PassiveClock) *ReportThrottle {
	return &ReportThrottle{clock: clk, at: clk.Now(), owing: map[*ReportMemory]struct{}{}, memories: map[string]*ReportMemory{}}
}

// MemoryOf returns what is remembered of a work, which is the same for all connections.
func (r *ReportThrottle) MemoryOf(work string) *ReportMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memories[work]
	if m == nil {
		m = &ReportMemory{}
		r.memories[work] = m
	}
	m.used = r.clock.Now()
	return m
}

// ForgetWork drops what is remembered of a work that is gone.
func (r *ReportThrottle) ForgetWork(work string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memories, work)
}

// ForgetUnused drops what is remembered of works that have gone while nothing was connected. Call
// it when a connection begins.
func (r *ReportThrottle) ForgetUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for work, m := range r.memories {
		if r.clock.Since(m.used) > unusedMax {
			delete(r.memories, work)
		}
	}
}

// WaitBeforeReport returns how long a report about a work has to wait, 0 if it may be written now. The
// answer to a change on the hub does not wait. To ask costs nothing.
func (r *ReportThrottle) WaitBeforeReport(m *ReportMemory, work *workv1.ManifestWork) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	m.used = now
	if !m.isAnswered(work) {
		return 0
	}
	r.drainDebts(now)
	burst := float64(workBurst)
	if r.owed > clusterBurst {
		burst = 0
	}
	if _, owes := r.owing[m]; !owes || m.until-r.granted <= burst {
		return 0
	}
	seconds := (m.until - r.granted - burst) / rateShare(len(r.owing))
	return time.Duration(min(max(seconds, drainEvery.Seconds()), waitMax.Seconds()) * float64(time.Second))
}

// CountReport counts a report that was written, with the bytes that the work takes on the hub since
// then. The answer to a change on the hub is not counted: the hub has limits for
// what it changes.
func (r *ReportThrottle) CountReport(m *ReportMemory, work *workv1.ManifestWork, status *workv1.ManifestWorkStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !m.isAnswered(work) {
		m.uid, m.generation, m.bytes = work.UID, work.Generation, report.BytesWithoutStatus(work)
		return
	}
	bytes := float64(m.bytes + report.StatusBytes(status))
	r.drainDebts(r.clock.Now())
	m.until = max(m.until, r.granted) + bytes
	r.owing[m] = struct{}{}
	r.owed += bytes
}

// isAnswered reports whether the hub has a report about this generation of the work.
func (m *ReportMemory) isAnswered(work *workv1.ManifestWork) bool {
	return m.uid == work.UID && m.generation == work.Generation
}

// rateShare returns how many bytes in a second each of so many works pays.
func rateShare(works int) float64 { return min(workRate, clusterRate/float64(works)) }

// drainDebts lets the works pay for the time until now. Those that have paid all leave a greater
// part to the others from then on. The caller has the lock.
func (r *ReportThrottle) drainDebts(now time.Time) {
	left := now.Sub(r.at).Seconds()
	if left < drainEvery.Seconds() {
		return
	}
	r.at = now
	byDebt := slices.SortedFunc(maps.Keys(r.owing), func(a, b *ReportMemory) int { return cmp.Compare(a.until, b.until) })
	for i, m := range byDebt {
		rate := rateShare(len(byDebt) - i)
		needs := (m.until - r.granted) / rate
		if needs > left {
			r.granted += left * rate
			break
		}
		r.granted = m.until
		left -= needs
		delete(r.owing, m)
	}
	r.owed = 0
	for m := range r.owing {
		r.owed += m.until - r.granted
	}
}
