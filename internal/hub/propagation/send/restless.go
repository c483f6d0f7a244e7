// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/pace"
	"github.com/capstan-io/capstan/internal/kube/written"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

const (
	// calmWrites is how often the same is written to a work without a wait.
	calmWrites = 5
	// waitMin and waitMax bound how long to wait before it is written another time; the
	// wait doubles with each.
	waitMin = time.Second
	waitMax = 10 * time.Minute
	// calmAfter is how long nothing has to be written to a work for it to be calm again,
	// or twice its wait if that is longer.
	calmAfter = time.Minute
	// sweepMin is from how many works on the calm ones are looked for.
	sweepMin = 1000
	// repairedRate and repairedBurst are how many bytes of works of one cluster that somebody changed are written again
	// in a second, and at once: 1 MiB in a minute, after 16 MiB. Whoever changes each work less often than
	// its wait is long keeps none of them restless.
	repairedRate  = (1 << 20) / 60
	repairedBurst = 16 << 20
	// repairedAgain is after how long those are looked at that have to wait for this: 2 MiB may be written then. A look may be one at
	// all clusters, and is to be for more than a work or two.
	repairedAgain = 2 * time.Minute
	// lostFor is how long a work is remembered that somebody else has deleted.
	lostFor = 10 * time.Minute
)

// RestlessError says that a work is not written now, as somebody changes it back each time.
type RestlessError struct {
	Work types.NamespacedName
	// Again is how soon to try again.
	Again time.Duration
}

// Error says what happens, and what to do.
func (e *RestlessError) Error() string {
	return fmt.Sprintf("something keeps reverting what the hub writes to ManifestWork %q, so that it is written less and less often: "+
		"find out whether it is the agent of cluster %q, and revoke its access if so (capstan deny --revoke)", e.Work.Name, e.Work.Namespace)
}

// WaitForRestless returns how soon to try again what a RestlessError is about; false for any other error.
func WaitForRestless(err error) (again time.Duration, is bool) {
	restless := (*RestlessError)(nil)
	if !errors.As(err, &restless) {
		return 0, false
	}
	return restless.Again, true
}

// RestlessWorks remembers which works have been written lately, so that those are written ever
// more seldom which somebody changes back each time, and those of one cluster by their bytes. It is safe for concurrent use.
type RestlessWorks struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	works map[types.NamespacedName]writtenWork
	sweep int // how many there have to be for the next sweep
	// repaired is what was written again, by cluster.
	repaired *pace.ByteDebts[string]
	lost     *written.RecentWrites[types.NamespacedName, lostWork]
}

// writtenWork is what was written to a work.
type writtenWork struct {
	content uint64 // a hash of the spec
	version string // the work as it was before
	times   int
	at      time.Time
}

// lostWork is a work that is being deleted, or was.
type lostWork struct {
	uid types.UID
	// hash is of what was written into it last, "" if it is deleted here.
	hash string
}

// NewRestlessWorks returns RestlessWorks that knows no work.
func NewRestlessWorks(clk clock.PassiveClock) *RestlessWorks {
	return &RestlessWorks{
		clock: clk, works: map[types.NamespacedName]writtenWork{}, sweep: sweepMin, repaired: pace.NewByteDebts[string](repairedRate, repairedBurst),
		lost: written.NewRecentWrites[types.NamespacedName, lostWork](clk, lostFor),
	}
}

// recordDeletion notes that a work is being deleted here.
func (r *RestlessWorks) recordDeletion(work *workv1.ManifestWork) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost.RecordWrite(client.ObjectKeyFromObject(work), lostWork{uid: work.UID})
}

// ObserveDeleted takes in that a cache shows a work no more.
func (r *RestlessWorks) ObserveDeleted(work client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(work)
	if lost, known := r.lost.FindWrite(key); known && lost.uid == work.GetUID() {
		r.lost.ForgetWrite(key) // nobody else has done it
	} else if hash := deliver.WrittenHash(work); hash != "" {
		r.lost.RecordWrite(key, lostWork{uid: work.GetUID(), hash: hash})
	}
}

// IsMadeAgain reports whether a new work is the same as one that somebody else has deleted of late.
func (r *RestlessWorks) IsMadeAgain(work *workv1.ManifestWork) bool {
	_, is := r.lostBefore(work)
	return is
}

// lostBefore returns the UID of the work that somebody else has deleted of late, if a new one is the same.
func (r *RestlessWorks) lostBefore(work *workv1.ManifestWork) (uid types.UID, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost, known := r.lost.FindWrite(client.ObjectKeyFromObject(work))
	return lost.uid, known && lost.hash != "" && lost.hash == deliver.WrittenHash(work)
}

// beginCreate notes that a work is being created; a RestlessError if it must not be yet, as somebody deletes it each time.
func (r *RestlessWorks) beginCreate(work *workv1.ManifestWork) error {
	uid, again := r.lostBefore(work)
	if !again {
		return nil
	}
	return r.beginWrite(work, string(uid), 0) // deleted is also what a cluster had that goes and comes back, with all of its works
}

// beginChange notes that a work is being changed; a RestlessError if it must not be yet.
func (r *RestlessWorks) beginChange(change deliver.WorkChange) error {
	repairs := 0
	if change.IsRepair() {
		repairs = int(allowance.WorkBytes(change.Wanted))
	}
	return r.beginWrite(change.Wanted, change.Present.ResourceVersion, repairs)
}

// beginWrite notes that a work is being written in the place of a version of it, and that so many bytes are repaired for its cluster.
func (r *RestlessWorks) beginWrite(wanted *workv1.ManifestWork, version string, repairs int) error {
	content, err := workSpecHash(wanted)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(wanted)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	last, known := r.works[key]
	switch {
	case !known || last.content != content || last.isCalm(now):
		last = writtenWork{content: content}
	case last.version == version:
		return nil // the cache does not show yet what was written
	case now.Sub(last.at) < last.writeDelay():
		return &RestlessError{Work: key, Again: last.writeDelay() - now.Sub(last.at)}
	}
	if wait := r.repaired.WaitBeforeWrite(key.Namespace, now); repairs > 0 && wait > 0 {
		return &RestlessError{Work: key, Again: wait + repairedAgain}
	}
	r.repaired.CountBytes(key.Namespace, repairs, now)
	r.works[key] = writtenWork{content: content, version: version, times: last.times + 1, at: now}
	r.forgetCalm(now)
	return nil
}

// forgetCalm forgets the works that are calm, if there are many. The caller has the lock.
func (r *RestlessWorks) forgetCalm(now time.Time) {
	if len(r.works) < r.sweep {
		return
	}
	for key, one := range r.works {
		if one.isCalm(now) {
			delete(r.works, key)
		}
	}
	r.sweep = max(sweepMin, 2*len(r.works))
}

// writeDelay returns how long the same is not to be written again.
func (w writtenWork) writeDelay() time.Duration {
	if w.times < calmWrites {
		return 0
	}
	return min(waitMin<<min(w.times-calmWrites, 10), waitMax)
}

func (w writtenWork) isCalm(now time.Time) bool {
	return now.Sub(w.at) >= max(calmAfter, 2*w.writeDelay())
}

func workSpecHash(work *workv1.ManifestWork) (uint64, error) {
	text, err := json.Marshal(work.Spec)
	if err != nil {
		return 0, fmt.Errorf("encoding ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(text) // never fails
	return hash.Sum64(), nil
}
