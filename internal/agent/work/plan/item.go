// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"time"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// ManifestItem is one manifest: what is wanted, and what became of it. Each part is written by one
// package, and read by the others. This package makes the parts, and carries them over to the next plan.
type ManifestItem struct {
	// Desired is written by this package alone, and does not change while a wave is delivered.
	Desired DesiredObject
	// History is written by package deliver.
	History DeliveryHistory
	// Outcome is written by package deliver, anew in each pass.
	Outcome ItemOutcome
	// Observation is what is asked about the object, nil if nothing is, and what was found. That is
	// written by package observe.
	Observation *Observation
	// Reading is written by package observe, anew in each pass.
	Reading ReadOutcome
}

// DeliveryHistory is what was done for an object in this pass and those before.
type DeliveryHistory struct {
	Past apply.LastWrite
	// Sent is the hash of what was applied last, if the work is interpreted; zero if
	// that is not known.
	Sent apply.ManifestHash
	// Kept are fields that were left to the cluster when a customization was asked last,
	// and keptBy is the revision of that.
	Kept   []ignore.Path
	keptBy uint64
	At     time.Time // of the last write
	Damper apply.CorrectionDamper
	// Undeclared are fields that were left out of what was sent last, nil for none.
	Undeclared *UndeclaredFields
	// Adopted is what the work took over when it took the object, nil for nothing.
	Adopted *AdoptedFields
	// Stuck are fields that the object has kept though the manifest lost them, as they cannot change.
	Stuck []string
}

// FollowRevision forgets what another customization than that of now left to the cluster.
func (h *DeliveryHistory) FollowRevision(want *DesiredObject) {
	if h.keptBy != want.Revision.Retention {
		h.Kept = nil
		h.keptBy = want.Revision.Retention
	}
}

// carriedOver is what is known of the object when the work has changed: not what was said about
// the manifest that it had.
func (h DeliveryHistory) carriedOver() DeliveryHistory {
	h.Adopted = nil
	h.Stuck = nil
	return h
}

// ItemOutcome is what came of the delivery of an item in a pass.
type ItemOutcome struct {
	Problem  apply.ObjectProblem
	Presence Presence
	Met      apply.Fingerprint // of the object before the pass wrote it
	Denied   bool              // the executor lacks a permission
	KindLost bool              // the member does not have the resource of the kind any more
	Note     string            // says more than that the object is applied
	Again    time.Duration     // when to look again if nothing happens; zero is never
}

// ReadOutcome is what a pass has to say of an object that is read and never written.
type ReadOutcome struct {
	IsRead   bool // or nothing is said
	Presence Presence
	Problem  apply.ObjectProblem
}

// Presence is what is known of an object's existence.
type Presence uint8

// The presences.
const (
	PresenceUnknown Presence = iota
	PresenceYes
	PresenceNo
)

// IsResolved reports whether the resource of the item's kind is known.
func (it *ManifestItem) IsResolved() bool { return it.Desired.Resolved && !it.Outcome.KindLost }

// IsDeliverable reports whether the item's object can be brought to the member, as far as this is known.
func (it *ManifestItem) IsDeliverable() bool { return it.IsResolved() && it.Desired.Refused == nil }

// ObjectProblem returns what is wrong with the item, from whatever part of it.
func (it *ManifestItem) ObjectProblem() apply.ObjectProblem {
	switch {
	case it.Desired.Problem.Trouble != apply.TroubleNone:
		return it.Desired.Problem
	case it.Outcome.Problem.Trouble != apply.TroubleNone:
		return it.Outcome.Problem
	default:
		return it.Reading.Problem
	}
}

// ObjectPresence returns what is known of the existence of the item's object.
func (it *ManifestItem) ObjectPresence() Presence {
	if it.Reading.IsRead {
		return it.Reading.Presence
	}
	return it.Outcome.Presence
}

// isSettled reports whether it would do no harm to forget about an item all but
// what was written.
func (it *ManifestItem) isSettled(now time.Time) bool {
	want := &it.Desired
	done := &it.History
	return it.IsDeliverable() && it.ObjectProblem().Trouble == apply.TroubleNone && it.Outcome.Again == 0 && want.Ignored == nil && it.Observation == nil &&
		done.Past.Hash == want.Hash && done.Past.Mark.UID != "" && done.Undeclared == nil && done.Adopted == nil && len(done.Stuck) == 0 && done.Damper.IsQuiet(now)
}

// beginPass forgets what came of the item in the pass before.
func (it *ManifestItem) beginPass() {
	it.Desired.Resolved = it.IsResolved() // anew, if the kind was lost
	it.Outcome = ItemOutcome{}
	it.Reading = ReadOutcome{}
}

// ToSentence makes an error text a sentence.
func ToSentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
