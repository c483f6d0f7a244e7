// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

const (
	// DefaultShared is what the works of all namespaces without a limit of their own take up
	// together, in bytes: half of the 2 GiB that etcd stores by default.
	DefaultShared = 1 << 30
	// shareOf and sharesMade are how much of that a namespace may have, without what others have:
	// three quarters. One alone has 768 MiB, two have 3/7 of all each, and whoever comes later
	// finds room: it is never all taken.
	shareOf, sharesMade = 3, 4
	// limitMax is more than any etcd stores, and less than what sums of limits overflow with.
	limitMax = 1 << 50
	// reservedPart is which part of that ClusterPropagationPolicies may have on top of it, one of so
	// many: however many namespaces are full, what an administrator sends finds room.
	reservedPart = 16
	// burstPart is which part of a limit is written without a wait: one of so many. A first
	// roll-out of 100,000 works of 2.5 KiB is within the default.
	burstPart = 4
	// secondsFull is in how many seconds as much is written after that as the limit is: for the
	// default 1 MiB/s. API servers have etcd forget what was overwritten every five minutes, after
	// twice as long at most: with what all namespaces share, what is reserved, and a burst of each,
	// that is less than 2 GiB at any time: two programs that write have half of the time each. It is so whether works are changed or deleted: each
	// deletion is one of these writes, and what was deleted is stored as long as what was overwritten.
	secondsFull = 1024
	// fullWait is how soon to look again for room.
	fullWait = time.Minute
	// clustersTold is how many clusters a message names.
	clustersTold = 5
)

// HoldReason is why a work is not written now.
type HoldReason string

// The reasons, as conditions have them.
const (
	Full      HoldReason = workv1alpha2.BindingReasonNamespaceFull
	HubFull   HoldReason = workv1alpha2.BindingReasonHubFull
	Throttled HoldReason = workv1alpha2.BindingReasonNamespaceThrottled
)

// reasonGravity orders the reasons: the one that lasts longest is told.
func (r HoldReason) reasonGravity() int {
	return slices.Index([]HoldReason{Throttled, HubFull, Full}, r)
}

var (
	errFull      = errors.New("the works of the namespace take up all that they may on the hub")
	errHubFull   = errors.New("the works of all namespaces take up so much on the hub that this one may have no more now")
	errThrottled = errors.New("much was written to works of the namespace, and this has to wait for its turn")
)

// LimitOf returns the limit that a Namespace sets for an owner of works in it, in bytes, nil without
// one. With an annotation that says no number of bytes it returns nil and what is wrong with it.
func LimitOf(namespace metav1.Object, owner WorkOwner) (*int64, error) {
	text, set := namespace.GetAnnotations()[owner.limitAnnotation()]
	if !set {
		return nil, nil //nolint:nilnil // documented
	}
	limit, err := bytesOf(text)
	if err != nil {
		return nil, fmt.Errorf("annotation %s of Namespace %q: %w", owner.limitAnnotation(), namespace.GetName(), err)
	}
	return &limit, nil
}

// ParseShared returns the number of bytes that a text, such as 4Gi, allows all namespaces without a
// limit of their own together. It is more than 0, and at most 1Pi.
func ParseShared(text string) (int64, error) {
	shared, err := bytesOf(text)
	if err == nil && shared == 0 {
		err = fmt.Errorf("%q leaves no room for any work; give a number of bytes such as 4Gi", text)
	}
	return shared, err
}

// bytesOf returns the number of bytes that a text stands for.
func bytesOf(text string) (int64, error) {
	parsed, err := quantity.ParseChecked(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a number of bytes such as 4Gi: %w", text, err)
	case parsed.Sign() < 0:
		return 0, fmt.Errorf("%q is less than 0", text)
	case parsed.CmpInt64(limitMax) > 0:
		return 0, fmt.Errorf("%q is more than %dPi", text, limitMax>>50) //nolint:mnd // bytes of a PiB
	}
	return parsed.Value(), nil
}

// HeldWorks is what is not written now.
type HeldWorks struct {
	// Clusters are those whose works are held back, and why.
	Clusters map[string]error
	// Owner is whose they are.
	Owner WorkOwner
	// Reason is the gravest of them, and Bytes what the works of the owner have of Limit.
	Reason       HoldReason
	Bytes, Limit int64
	// Again is how soon to try again.
	Again time.Duration

	own          bool  // it is a limit of the owner's own
	room, shared int64 // what the owner has a part of, and what all namespaces have together that have no limit
	writers      int64 // how many programs share what is written in a second
	repairs      bool  // nothing is held back but repairs
}

// AnyHeld reports whether something is held back.
func (h HeldWorks) AnyHeld() bool { return len(h.Clusters) > 0 }

// NeedsAction reports whether something is held back until somebody does something about it.
func (h HeldWorks) NeedsAction() bool { return h.AnyHeld() && h.Reason != Throttled }

// WaitsForTurn reports whether the work of a cluster is held back by nothing but the pace of its owner:
// it is written in a while, whatever else is or goes.
func (h HeldWorks) WaitsForTurn(cluster string) bool {
	return errors.Is(h.Clusters[cluster], errThrottled)
}

// MergeHeld returns what is held back of two parts of the works of a binding; other is the later one.
func (h HeldWorks) MergeHeld(other HeldWorks) HeldWorks {
	if !other.AnyHeld() {
		return h
	}
	other.Clusters = maps.Clone(other.Clusters)
	maps.Copy(other.Clusters, h.Clusters)
	if h.Reason.reasonGravity() > other.Reason.reasonGravity() {
		other.Reason = h.Reason
	}
	if h.AnyHeld() {
		other.Again = min(h.Again, other.Again)
		other.repairs = h.repairs && other.repairs
	}
	return other
}

// ConditionMessage says what is held back, in a sentence for a condition of an object of the namespace.
func (h HeldWorks) ConditionMessage() string {
	const mebi = 1 << 20
	whose := fmt.Sprintf("the bindings and replica sets of namespace %q", h.Owner.Namespace)
	if h.Owner.ClusterWide {
		whose = fmt.Sprintf("what ClusterPropagationPolicies send of namespace %q", h.Owner.Namespace)
	}
	raisedBy := fmt.Sprintf("annotation %s of the Namespace", h.Owner.limitAnnotation())
	if h.Owner.isUncounted() {
		whose = "ClusterResourceBindings and namespaces"
		raisedBy = fmt.Sprintf("annotation %s of the ClusterManager (flag --shared-work-bytes-max)", fleetv1alpha1.AnnotationSharedWorkBytesMax)
	}
	switch h.Reason {
	case Full:
		return fmt.Sprintf("The works of %s have %d MiB on the hub, of %d MiB that they may have: %d clusters keep what they have. "+
			"Send less, or have an administrator set annotation %s of the Namespace.",
			whose, (h.Bytes+mebi-1)/mebi, h.Limit/mebi, len(h.Clusters), h.Owner.limitAnnotation())
	case HubFull:
		return fmt.Sprintf("The works of %s have %d MiB on the hub, and may have three quarters of what other namespaces leave of %d MiB, which is %d MiB now: "+
			"%d clusters keep what they have. Send less, or have an administrator set annotation %s of the Namespace, or %s of the ClusterManager (flag --shared-work-bytes-max).",
			whose, (h.Bytes+mebi-1)/mebi, h.room/mebi, h.Limit/mebi, len(h.Clusters), h.Owner.limitAnnotation(), fleetv1alpha1.AnnotationSharedWorkBytesMax)
	}
	if h.repairs {
		return fmt.Sprintf("What the hub wrote to the works of %s in clusters %s was reverted, and is written again when little else is: "+
			"find out whether the agents of these clusters do it, and revoke their access if so (capstan deny --revoke)", whose, h.nameClusters())
	}
	limit := h.Limit
	writers := max(1, h.writers)
	share := ""
	if !h.own {
		limit = h.shared
		share = " at most, less what other namespaces write"
	}
	return fmt.Sprintf("So much was written to, or deleted of, the works of %s that the rest waits for its turn: %d clusters keep what they have until then. "+
		"After %d MiB at once it is %d KiB in a second%s. An administrator raises both by %s.",
		whose, len(h.Clusters), burstBytes(limit)/writers/mebi, bytesPerSecond(limit)/writers>>10, share, raisedBy)
}

// nameClusters returns the names of some clusters of which works are held back, and how many more there are.
func (h HeldWorks) nameClusters() string {
	names := slices.Sorted(maps.Keys(h.Clusters))
	if more := len(names) - clustersTold; more > 0 {
		names = append(names[:clustersTold], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// pool is what all owners have and write together that have no limit of their own.
type pool struct {
	limit, bytes int64
	meter        writeMeter
}

// ownerShare returns how much of a whole an owner may have of which others have so much.
func ownerShare(whole, others int64) int64 { return max(0, whole-others) / sharesMade * shareOf }

// admissionPass decides about some works of one owner. The allowance is locked meanwhile.
type admissionPass struct {
	*Allowance
	*account

	now  time.Time
	held HeldWorks
	// waiting says what is held back, by its cause; and name has the name of the works.
	waiting [writeCauses]bool
	name    string
}

// sharedRoom returns what the owner has a part of, as all others do that have no limit of their own.
func (p *admissionPass) sharedRoom() int64 {
	if p.owner.ClusterWide {
		return p.pool.limit + p.pool.limit/reservedPart
	}
	return p.pool.limit
}

// maxOwnerBytes returns how many bytes the works of the owner may have now.
func (p *admissionPass) maxOwnerBytes() int64 {
	if p.limit != nil {
		return *p.limit
	}
	return ownerShare(p.sharedRoom(), p.pool.bytes-p.bytes)
}

// fullReason returns why works may not have so many bytes more; "" if they may.
func (p *admissionPass) fullReason(grows int64) HoldReason {
	switch {
	case p.owner.isUncounted() || p.bytes+grows <= p.maxOwnerBytes():
		return ""
	case p.limit == nil && p.bytes+grows <= ownerShare(p.sharedRoom(), 0):
		return HubFull
	default:
		return Full
	}
}

// mayWriteNow reports whether something may be written now for a cause.
func (p *admissionPass) mayWriteNow(cause writeCause) bool {
	if p.limit != nil {
		p.meter.drainMeter(p.now, p.bytesPerSecond(*p.limit))
		return p.meter.isMeterOpen(p.bytesPerSecond(*p.limit), p.burstBytes(*p.limit), cause)
	}
	p.drainPool(p.now)
	// One alone may write as much at once as with the same limit of its own.
	whole := p.burstBytes(p.pool.limit) * sharesMade / shareOf
	return p.meter.isMeterOpen(p.bytesPerSecond(p.pool.limit), ownerShare(whole, int64(max(0, p.pool.meter.bytes-p.meter.bytes))), cause)
}

// drainPool takes off the meters of all owners without a limit of their own what has been lost
// until now: each loses its part of the rate that they have together. The caller has the lock.
func (a *Allowance) drainPool(now time.Time) {
	if now.Sub(a.pool.meter.at) < time.Second {
		return
	}
	before := a.pool.meter.bytes
	a.pool.meter.drainMeter(now, a.bytesPerSecond(a.pool.limit))
	for _, of := range a.of {
		if of.limit == nil && of.meter.bytes > 0 {
			of.meter.bytes *= a.pool.meter.bytes / max(before, of.meter.bytes)
			of.meter.at = now
		}
	}
}

// admitWrite decides whether a work is written now.
func (p *admissionPass) admitWrite(w WorkWrite) bool {
	before := p.begun[w.Work]
	if before.repeatsWrite(w) {
		return true // the cache does not show yet what was written
	}
	more := w.Bytes - w.Has
	if w.deletes {
		more = before.more // what is being written takes room until the cache shows it
	} else if more > 0 {
		if why := p.fullReason(more - max(0, before.more)); why != "" {
			return p.holdWrite(w, why)
		}
	}
	if !p.mayWriteNow(w.writeCause()) {
		return p.holdWrite(w, Throttled)
	}
	p.meter.bytes += float64(w.Bytes)
	if p.limit == nil {
		p.pool.meter.bytes += float64(w.Bytes)
	}
	p.beginWrite(p.account, w.Work, begunWrite{bytes: w.Bytes, more: more, version: w.Version, cause: w.writeCause(), since: p.now})
	return true
}

// holdWrite notes that a work is not written, and returns that.
func (p *admissionPass) holdWrite(w WorkWrite, why HoldReason) (admitted bool) {
	if p.held.Clusters == nil {
		p.held.Clusters = map[string]error{}
		p.held.Reason = why
	}
	p.held.Clusters[w.Work.Namespace] = map[HoldReason]error{Full: errFull, HubFull: errHubFull, Throttled: errThrottled}[why]
	if why.reasonGravity() > p.held.Reason.reasonGravity() {
		p.held.Reason = why
	}
	p.account.held[why] = p.now
	p.waiting[w.writeCause()] = true
	p.name = w.Work.Name
	return false
}

// retryDelay returns how soon to look again: when there may be more room, or more time.
func (p *admissionPass) retryDelay() time.Duration {
	cause := causeRepair
	for _, sooner := range []writeCause{causeChange, causeDeletion} {
		if p.waiting[sooner] {
			cause = sooner
		}
	}
	wait := fullWait
	if p.held.Reason == Throttled {
		wait = p.meter.waitUntilFree(cause)
	}
	return p.lines[cause].placeInLine(p.now, p.name, wait)
}
