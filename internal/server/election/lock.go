// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/server/options"
)

// lookPeriod is how often who waits looks whether the leader's pod is there.
// These are reads of one object; the writes of an election are not more for it.
const lookPeriod = 2 * time.Second

// writeGrace is how long a write may go on when its context has ended. Nobody
// knows whether a write that is broken off takes effect: the Lease would be
// held, for as long as it lasts, by a candidate that has gone.
const writeGrace = 5 * time.Second

// LockOptions of a Lock.
type LockOptions struct {
	// Namespace and Name are those of the Lease.
	Namespace, Name string
	Times           options.LeaderElection
	// Pod is the one of this candidate. With the zero value, or one of another
	// namespace than the Lease's, the election is client-go's plain one.
	Pod CandidatePod
	// Clock defaults to the real one.
	Clock clock.Clock
}

// Lock is the Lease by which candidates agree. Get waits as long as another
// candidate leads, and returns a record without a holder when the leader can
// be replaced: the write that follows is bound to the version of the Lease that
// was looked at, so of several candidates one succeeds, and a leader that has
// renewed meanwhile stays.
//
// A Lock belongs to one elector at a time.
type Lock struct {
	lease resourcelock.LeaseLock
	pods  kubernetes.Interface
	times options.LeaderElection
	clock clock.Clock
	// waits is whether the Lock looks for the pods of leaders at all.
	waits bool
	// holder is the last one seen; held is whether this candidate ever led.
	holder string
	held   bool
	// working is that the Lease may not be given up, as the candidate has work in hand.
	working atomic.Bool
	// replaced is called when this candidate led and another one does now.
	replaced func()
}

var _ resourcelock.Interface = &Lock{}

// NewLock returns the Lock of a candidate.
func NewLock(config *rest.Config, o LockOptions) (*Lock, error) {
	// Without the limit that others share, which could hold up a renewal.
	config = options.LimitRequests(rest.AddUserAgent(rest.CopyConfig(config), "leader-election"), 0, 0)
	// One request that hangs must not cost the lead, nor keep who has lost it from ending
	// its work before another one may lead: electors end it after a last look at the Lease.
	config.Timeout = max(min(o.Times.RenewDeadline, o.Times.LeaseDuration-o.Times.RenewDeadline)/2, time.Second)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client for the election of a leader: %w", err)
	}
	return newLock(clients, o)
}

func newLock(clients kubernetes.Interface, o LockOptions) (*Lock, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	inPod := o.Pod != (CandidatePod{}) && o.Pod.Namespace == o.Namespace
	identity := o.Pod.candidateIdentity()
	if !inPod {
		var err error
		if identity, err = processIdentity(); err != nil {
			return nil, err
		}
	}
	return &Lock{
		lease: resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		pods: clients, times: o.Times, clock: o.Clock, waits: inPod, replaced: func() {},
	}, nil
}

// resetCandidate makes the Lock that of a candidate who has not led yet, and calls the function
// when the candidate has led and another one does. The Lock keeps its identity: who has
// lost the lead because nobody could be asked still has its Lease.
func (l *Lock) resetCandidate(replaced func()) {
	l.holder = ""
	l.held = false
	l.replaced = replaced
}

// Get returns what the Lease says. As long as the pod of another leader is
// there and the leader renews its Lease, it does not return before ctx ends.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var seen, gone string // what the Lease said, and said when its leader was gone
	var since time.Time
	for {
		record, raw, err := l.lease.Get(ctx)
		if err != nil {
			return nil, nil, err //nolint:wrapcheck // electors ask what kind of error of the API it is
		}
		l.holder = record.HolderIdentity
		if l.held && l.holder != "" && l.holder != l.Identity() {
			l.replaced()
		}
		leader, isPod := parseIdentity(record.HolderIdentity)
		if !l.waits || l.held || !isPod || record.HolderIdentity == l.Identity() {
			return record, raw, nil
		}
		if string(raw) == gone {
			return l.vacantRecord(record)
		}
		if string(raw) != seen {
			seen, since = string(raw), l.clock.Now()
		}
		switch l.watchLeaderPod(ctx, leader, since) {
		case leaderLives:
		case leaderGone:
			// It may have given up the Lease since that was read, and then a write
			// that is bound to what was read fails.
			gone = string(raw)
		case leaderUnknown:
			return record, raw, nil
		}
	}
}

// vacantRecord returns a record without the holder.
func (l *Lock) vacantRecord(record *resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record.HolderIdentity = ""
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the record of Lease %s: %w", l.Describe(), err)
	}
	return record, raw, nil
}

// leaderState is what becomes known of the one who leads.
type leaderState int

const (
	leaderLives   leaderState = iota // ask the Lease again
	leaderGone                       // may be replaced
	leaderUnknown                    // leave it to the plain election
)

// watchLeaderPod looks at the pod of the leader until it is gone, its Lease has run out,
// which was last renewed at since, or the Lease has to be read again.
func (l *Lock) watchLeaderPod(ctx context.Context, leading CandidatePod, since time.Time) leaderState {
	reread := l.clock.Now().Add(l.times.RetryPeriod)
	for {
		pod, err := l.pods.CoreV1().Pods(l.lease.LeaseMeta.Namespace).Get(ctx, leading.Name, metav1.GetOptions{})
		switch now := l.clock.Now(); {
		case apierrors.IsNotFound(err), err == nil && podHasEnded(pod, leading.UID):
			return leaderGone
		case apierrors.IsForbidden(err), ctx.Err() != nil:
			return leaderUnknown
		case now.Sub(since) > l.times.LeaseDuration:
			return leaderGone
		case !now.Before(reread):
			return leaderLives
		}
		select {
		case <-ctx.Done():
			return leaderUnknown
		case <-l.clock.After(lookPeriod):
		}
		if err == nil && pod.DeletionTimestamp != nil {
			return leaderLives // about to give up its Lease, so look whether it has
		}
	}
}

// Create creates the Lease.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.outlastContext(ctx)
	defer cancel()
	if err := l.lease.Create(ctx, record); err != nil {
		return err //nolint:wrapcheck // as for Get
	}
	l.recordWrite(record)
	return nil
}

// Update writes the Lease, if it is still the one that Get or Update saw last.
// It does not give up a Lease that another one has, nor one before the work has ended.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && (l.holder != l.Identity() || l.working.Load()) {
		return nil
	}
	ctx, cancel := l.outlastContext(ctx)
	defer cancel()
	if err := l.lease.Update(ctx, record); err != nil {
		return err //nolint:wrapcheck // as for Get
	}
	l.recordWrite(record)
	return nil
}

// outlastContext returns a context for a write, which ends a grace period after ctx.
func (l *Lock) outlastContext(ctx context.Context) (context.Context, context.CancelFunc) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-l.clock.After(writeGrace):
			cancel()
		case <-writing.Done():
		}
	})
	return writing, func() { stop(); cancel() }
}

func (l *Lock) recordWrite(record resourcelock.LeaderElectionRecord) {
	l.holder = record.HolderIdentity
	l.held = l.held || record.HolderIdentity == l.Identity()
}

// RecordEvent does nothing: who leads is in the Lease.
func (l *Lock) RecordEvent(string) {}

// Identity is the name of this candidate.
func (l *Lock) Identity() string { return l.lease.Identity() }

// Describe names the Lease.
func (l *Lock) Describe() string { return l.lease.Describe() }
