// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	kilobyte = 1 << 10
	megabyte = 1 << 20
)

// member is a cluster whose works are reported about.
type member struct {
	*ReportThrottle

	clock *clocktesting.FakePassiveClock
}

func newMember() *member {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	return &member{ReportThrottle: NewReportThrottle(clk), clock: clk}
}

func (m *member) after(d time.Duration) { m.clock.SetTime(m.clock.Now().Add(d)) }

// reported is a work with what was written about it.
type reported struct {
	ReportMemory

	work   *workv1.ManifestWork
	status workv1.ManifestWorkStatus
	next   time.Time
	times  int
}

// newReported returns a work with so many bytes of manifests and of status, whose first
// generation the hub has an answer to.
func (m *member) newReported(manifests, status int) *reported {
	w := &reported{work: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 1}}}
	w.work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: make([]byte, manifests)}}}
	w.status.Conditions = []metav1.Condition{{Type: "Applied", Message: strings.Repeat("x", status)}}
	m.CountReport(&w.ReportMemory, w.work, &w.status)
	return w
}

// report reports about a work unless it has to wait.
func (m *member) report(w *reported) bool {
	if m.clock.Now().Before(w.next) {
		return false
	}
	if wait := m.WaitBeforeReport(&w.ReportMemory, w.work); wait > 0 {
		w.next = m.clock.Now().Add(wait)
		return false
	}
	m.CountReport(&w.ReportMemory, w.work, &w.status)
	w.times++
	return true
}

// flap has the works change without end for a time.
func (m *member) flap(last time.Duration, works ...*reported) {
	const interval = 250 * time.Millisecond
	for end := m.clock.Now().Add(last); m.clock.Now().Before(end); m.after(interval) {
		for _, w := range works {
			m.report(w)
		}
	}
}

func TestAWorkIsReportedByItsBytes(t *testing.T) {
	for _, test := range []struct {
		reason            string
		manifests, status int
		atLeast, atMost   int // in an hour, with a change every 250 ms
	}{
		{"a kilobyte is written as often as it changes", kilobyte, 100, 4 * 3600, 4 * 3600},
		{"a megabyte is written once a minute", megabyte, 100, 50, 58},
		{"a status of half a megabyte counts as well", kilobyte, megabyte / 2, 100, 120},
		{"a status counts beside the manifests", megabyte / 2, megabyte / 2, 50, 58},
	} {
		t.Run(test.reason, func(t *testing.T) {
			m := newMember()
			w := m.newReported(test.manifests, test.status)
			m.flap(time.Hour, w)
			if w.times < test.atLeast || w.times > test.atMost {
				t.Errorf("it is reported %d times in an hour, want %d to %d", w.times, test.atLeast, test.atMost)
			}
		})
	}
}

// TestAllWorksOfAClusterShareTheirReports has so many works change without end that the
// cluster may not write all of it.
func TestAllWorksOfAClusterShareTheirReports(t *testing.T) {
	m := newMember()
	const large, small = 300, 20
	var all []*reported
	for range large {
		all = append(all, m.newReported(megabyte, 100))
	}
	for range small {
		all = append(all, m.newReported(20*kilobyte, 100))
	}
	quiet := m.newReported(megabyte, 100)
	m.flap(time.Hour, all...)
	sum, perHour := 0, clusterRate*3600
	each := perHour / len(all)
	for i, w := range all {
		bytes := w.times * (w.bytes + 300)
		sum += bytes
		if i >= large && bytes < each*3/4 {
			t.Errorf("a small work writes %d KiB in an hour, want its part, which is %d", bytes/kilobyte, each/kilobyte)
		}
		if w.times == 0 {
			t.Errorf("work %d is never reported", i)
		}
	}
	if most := perHour + clusterBurst + (large+1)*megabyte*11/10; sum > most {
		t.Errorf("%d MiB are written in an hour, want at most %d", sum/megabyte, most/megabyte)
	}
	if !m.report(quiet) {
		t.Error("a work that had rested waits for those that do not")
	}
	for end := m.clock.Now().Add(24 * time.Hour); len(m.owing) > 0 && m.clock.Now().Before(end); m.after(time.Minute) {
		m.WaitBeforeReport(&quiet.ReportMemory, quiet.work)
	}
	if len(m.owing) > 0 || m.owed != 0 {
		t.Errorf("%d works owe %v bytes after a day", len(m.owing), m.owed)
	}
}

// TestWhatHasRestedIsReportedAtOnce has many works change once, all at the same time.
func TestWhatHasRestedIsReportedAtOnce(t *testing.T) {
	m := newMember()
	var all []*reported
	for range 500 {
		all = append(all, m.newReported(megabyte, 100))
	}
	for _, w := range all {
		if !m.report(w) {
			t.Fatal("a single change waits")
		}
	}
	m.after(2 * time.Hour) // 500 MiB are paid for
	for _, w := range all {
		if !m.report(w) {
			t.Fatal("a single change waits after a rest of two hours")
		}
	}
}

// TestLooksCostNothing asks again and again whether a work may be reported.
func TestLooksCostNothing(t *testing.T) {
	m := newMember()
	w := m.newReported(megabyte, 100)
	for range 10_000 {
		if wait := m.WaitBeforeReport(&w.ReportMemory, w.work); wait > 0 {
			t.Fatalf("a work about which nothing is written waits %s", wait)
		}
	}
	m.report(w)
	wait := m.WaitBeforeReport(&w.ReportMemory, w.work)
	for range 10_000 {
		if again := m.WaitBeforeReport(&w.ReportMemory, w.work); again != wait {
			t.Fatalf("it waits %s after a look, want %s", again, wait)
		}
	}
	m.after(wait)
	if wait := m.WaitBeforeReport(&w.ReportMemory, w.work); wait > time.Second {
		t.Errorf("it has to wait %s more than was said", wait)
	}
}

// TestAChangeOnTheHubIsAnsweredAtOnce has a work changed on the hub whose objects change
// without end in the cluster.
func TestAChangeOnTheHubIsAnsweredAtOnce(t *testing.T) {
	for reason, change := range map[string]func(*workv1.ManifestWork){
		"a generation":              func(work *workv1.ManifestWork) { work.Generation++ },
		"another work of this name": func(work *workv1.ManifestWork) { work.UID = types.UID(fmt.Sprint(work.UID, "b")) },
	} {
		t.Run(reason, func(t *testing.T) {
			m := newMember()
			w := m.newReported(megabyte, 100)
			m.flap(time.Minute, w)
			if m.report(w) {
				t.Fatal("what changes without end does not wait")
			}
			owed := m.owed
			for range 10 {
				w.next = time.Time{}
				change(w.work)
				if !m.report(w) {
					t.Fatal("the answer waits")
				}
			}
			if m.owed != owed {
				t.Errorf("answers count %v bytes", m.owed-owed)
			}
			if m.report(w) {
				t.Error("an answer lets what changes without end be reported")
			}
		})
	}
}

// TestConnectionsShareWhatIsRemembered has connections of a cluster come and go.
func TestConnectionsShareWhatIsRemembered(t *testing.T) {
	m := newMember()
	w := m.newReported(megabyte, 100)
	m.CountReport(m.MemoryOf("a"), w.work, &w.status)
	for range 3 {
		m.CountReport(m.MemoryOf("a"), w.work, &w.status)
	}
	m.ForgetUnused()
	if wait := m.WaitBeforeReport(m.MemoryOf("a"), w.work); wait == 0 {
		t.Error("a report waits for nothing after a reconnect")
	}
	if wait := m.WaitBeforeReport(m.MemoryOf("b"), w.work); wait > 0 {
		t.Errorf("the answer about another work waits %s", wait)
	}
	m.after(unusedMax / 2)
	m.WaitBeforeReport(m.MemoryOf("a"), w.work)
	m.after(unusedMax/2 + time.Second)
	m.ForgetUnused()
	if _, ok := m.memories["a"]; !ok || len(m.memories) != 1 {
		t.Errorf("%d works are remembered, want the one that was looked at", len(m.memories))
	}
	m.ForgetWork("a")
	if len(m.memories) != 0 {
		t.Error("a work that is gone is remembered")
	}
}
