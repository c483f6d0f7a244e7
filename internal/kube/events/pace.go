// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/pace"
)

const (
	// AtOnceMax is how many events are told at once of all objects together, and inASecond how
	// many in a second after that: an API server keeps each for an hour.
	AtOnceMax = 20_000
	inASecond = 20
	// namespaceAtOnce and namespaceInASecond are for objects of one namespace: of 1,000 objects
	// that are sent to three clusters about 10,000 events are told.
	namespaceAtOnce    = 10_000
	namespaceInASecond = 2
)

// EventPace is how many events are told: so many of the objects of each namespace, and of those without one, and so many of
// all. Who has too much to tell does not wait. It is safe for concurrent use.
type EventPace struct {
	clock      clock.PassiveClock
	namespaces *pace.WriteThrottle
	together   *pace.WriteThrottle
}

// NewEventPace returns the pace of who has told nothing yet.
func NewEventPace(clk clock.PassiveClock) *EventPace {
	return &EventPace{
		clock:      clk,
		namespaces: pace.NewWriteThrottle(namespaceAtOnce, namespaceInASecond),
		together:   pace.NewWriteThrottle(AtOnceMax, inASecond),
	}
}

// AdmitEvent reports whether one more event may be told of an object of the namespace, which counts
// then. Those without a namespace, such as clusters, count together as those of one.
func (p *EventPace) AdmitEvent(namespace string) bool {
	now := p.clock.Now()
	if p.namespaces.Take(namespace, 1, now) > 0 {
		return false // and takes nothing from others
	}
	return p.together.Take("", 1, now) == 0
}

// NewDropCounter returns the metric of the events that Recorders do not tell.
func NewDropCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_events_dropped_total",
		Help: "Number of Events, and lines of the log with the same text, that were not recorded because there were too many of the objects of their namespace, or of all.",
	})
}
