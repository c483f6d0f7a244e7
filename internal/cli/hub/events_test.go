// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(seconds int64) time.Time { return time.Unix(seconds, 0) }

// TestWhenAnEventLastHappened: a series says it best, and its own times say it better than
// when it was written.
func TestWhenAnEventLastHappened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		series, last, event, created int64
		want                         time.Time
	}{
		"a series":                     {series: 1, last: 2, event: 3, created: 4, want: at(1)},
		"an Event of Kubernetes' core": {last: 2, event: 3, created: 4, want: at(2)},
		"one of events.k8s.io":         {event: 3, created: 4, want: at(3)},
		"one without times":            {created: 4, want: at(4)},
		"nothing":                      {},
	} {
		time := func(seconds int64) (t metav1.Time) {
			if seconds > 0 {
				t.Time = at(seconds)
			}
			return t
		}
		e := &corev1.Event{LastTimestamp: time(c.last), EventTime: metav1.MicroTime(time(c.event)), ObjectMeta: metav1.ObjectMeta{CreationTimestamp: time(c.created)}}
		if c.series > 0 {
			e.Series = &corev1.EventSeries{LastObservedTime: metav1.MicroTime(time(c.series))}
		}
		if got := LastSeen(e); !got.Equal(c.want) {
			t.Errorf("%s: it last happened at %v, not at %v", name, got, c.want)
		}
		e.Series = &corev1.EventSeries{} // that says nothing
		if c.series == 0 && !LastSeen(e).Equal(c.want) {
			t.Errorf("%s, and a series without a time: it last happened at %v, not at %v", name, LastSeen(e), c.want)
		}
	}
}
