// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"time"
)

const (
	// paceFree is how many evaluations of a work in a row are paceWindowMin apart:
	// more than a rollout has as a rule.
	paceFree = 30
	// paceWindowMin is the least time between two evaluations of a work.
	paceWindowMin = 10 * time.Millisecond
	// paceWindowMax is the most, unless fields are only polled.
	paceWindowMax = 10 * time.Second
	// paceShare is the part of the time that the changes have lasted which goes by
	// between two later evaluations: a report is never later than a quarter of what
	// it tells about.
	paceShare = 4
	// paceRest is the time without an evaluation after which changes count anew,
	// or two windows if these are longer.
	paceRest = 5 * time.Second
)

// evaluationThrottle spaces the evaluations of a work whose objects keep changing: the first
// is at once, and if the changes do not end, each one takes more of them
// together. The zero value is a work that was never evaluated.
type evaluationThrottle struct {
	began, last time.Time
	count       int
}

// afterEvaluation returns the pace after an evaluation. The most is the longest
// window.
func (p evaluationThrottle) afterEvaluation(now time.Time, most time.Duration) evaluationThrottle {
	if p.count == 0 || now.Sub(p.last) > max(paceRest, 2*p.windowLength(most)) {
		return evaluationThrottle{began: now, last: now, count: 1}
	}
	return evaluationThrottle{began: p.began, last: now, count: p.count + 1}
}

// nextEvaluation returns when the next evaluation may be.
func (p evaluationThrottle) nextEvaluation(most time.Duration) time.Time {
	return p.last.Add(p.windowLength(most))
}

func (p evaluationThrottle) windowLength(most time.Duration) time.Duration {
	switch {
	case p.count == 0:
		return 0
	case p.count < paceFree:
		return paceWindowMin
	default:
		return min(max(p.last.Sub(p.began)/paceShare, paceWindowMin), most)
	}
}
