// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// RecordLedgerOptions of a Ledger.
type RecordLedgerOptions struct {
	// Life ends with the connection, and with it the watches that records need.
	Life context.Context //nolint:containedctx // it is that of all that the ledger starts
	// Cached reads from the cache, Client writes to the member, and Reader asks it.
	Cached *compressed.ObjectStore[*workv1.AppliedManifestWork]
	Client client.Client
	Reader client.Reader
	// Inventory knows the objects, and Member reaches them.
	Inventory *inventory.Inventory
	Member    *apply.Member
	Clock     clock.PassiveClock
	// HubHost is the URL of the hub, as in fleet.Connection.
	HubHost string
	// AgentID and Predecessor are this agent and the one whose place it takes.
	AgentID, Predecessor string
	// Busy reports whether many works wait for their first write.
	Busy func() bool
	// ListDelay is after how long a record lists what was applied while that is so.
	ListDelay time.Duration
	// Postponed is told of a work whose record lists later because of that.
	Postponed func(work string)
}

// Ledger has the records of one member that are of one hub.
type Ledger struct {
	RecordLedgerOptions
	hubHash string
	large   largeRecords
}

// NewLedger returns the ledger of a connection.
func NewLedger(options RecordLedgerOptions) *Ledger {
	return &Ledger{RecordLedgerOptions: options, hubHash: workv1.HubHash(options.HubHost)}
}

// RecordName returns the name of the record of a work.
func (l *Ledger) RecordName(work string) string { return l.hubHash + "-" + work }

// SubjectWork returns the work that is to be looked at when something changed of
// what the record owns. It is false if that record is of no work of this hub.
func (l *Ledger) SubjectWork(record string) (work string, ok bool) {
	return strings.CutPrefix(record, l.hubHash+"-")
}

// SubjectWorkOf is SubjectWork for a record itself, which may be a keeper.
func (l *Ledger) SubjectWorkOf(record *workv1.AppliedManifestWork) (work string, ok bool) {
	if l.isKeeper(record) {
		return record.Spec.ManifestWorkName, true
	}
	return l.SubjectWork(record.Name)
}

// HasRecord reports whether there is a record of the name. It counts as there if that is not known.
func (l *Ledger) HasRecord(record string) bool {
	has, err := l.Cached.HasObject(l.Life, client.ObjectKey{Name: record})
	return has || err != nil
}

// WorkOf names the work of a record for messages.
func (l *Ledger) WorkOf(record string) string {
	if work, ours := l.SubjectWork(record); ours {
		return fmt.Sprintf("ManifestWork %q", work)
	}
	_, work, _ := strings.Cut(record, "-")
	return fmt.Sprintf("ManifestWork %q of another hub", work)
}

// ConcernsRecord reports whether a record is of this hub, or of another hub that this
// agent worked for before.
func (l *Ledger) ConcernsRecord(record *workv1.AppliedManifestWork) bool {
	return record.Spec.HubHash == l.hubHash || record.Spec.AgentID != "" && record.Spec.AgentID == l.AgentID
}

// GovernsRecord reports whether the agent decides what becomes of a record, be it of this hub
// or of another that it worked for before.
func (l *Ledger) GovernsRecord(record *workv1.AppliedManifestWork) bool {
	return l.ConcernsRecord(record) && l.ownsRecord(record)
}

// ownsRecord reports whether a record is this agent's, or is to be.
func (l *Ledger) ownsRecord(record *workv1.AppliedManifestWork) bool {
	return record.Spec.AgentID == l.AgentID || l.Predecessor != "" && record.Spec.AgentID == l.Predecessor
}

// TakesOver reports whether the record is of a hub that this agent worked for
// before, so that its objects are now ours.
func (l *Ledger) TakesOver(ctx context.Context, record string) bool {
	other, err := l.Cached.Get(ctx, client.ObjectKey{Name: record})
	if err != nil {
		return false
	}
	return other.Spec.HubHash != l.hubHash && other.Spec.AgentID == l.AgentID && l.AgentID != ""
}

// InheritsFrom reports whether what one record owns is another's, too: it is of the
// same work, or of a hub that this agent worked for before.
func (l *Ledger) InheritsFrom(ctx context.Context, heir, record string) bool {
	return record == heir || record == keeperName(heir) || l.TakesOver(ctx, record)
}

// OpenRecord reads the record of a work as it is, or as it was last written.
func (l *Ledger) OpenRecord(ctx context.Context, memory *RecordMemory, work string) (*AppliedRecord, error) {
	return l.openByName(ctx, memory, l.RecordName(work), work)
}

// OpenNamed reads a record for which there is no work.
func (l *Ledger) OpenNamed(ctx context.Context, memory *RecordMemory, name string) (*AppliedRecord, error) {
	return l.openByName(ctx, memory, name, name)
}

func (l *Ledger) openByName(ctx context.Context, memory *RecordMemory, name, work string) (*AppliedRecord, error) {
	record := &AppliedRecord{ledger: l, memory: memory, name: name, work: work}
	var err error
	record.object, record.cached, err = l.readRecord(ctx, memory, name)
	return record, err
}

// readRecord returns the record as it is or as it was last written, and whether the
// cache has it.
func (l *Ledger) readRecord(ctx context.Context, memory *RecordMemory, name string) (record *workv1.AppliedManifestWork, cached bool, err error) {
	written := memory.written.Load() // before the cache is read: it is let go of when the cache has it
	record, err = l.Cached.Get(ctx, client.ObjectKey{Name: name})
	switch {
	case apierrors.IsNotFound(err):
		record = written // and not in the cache yet
	case err != nil:
		return nil, false, fmt.Errorf("reading appliedmanifestwork %q: %w", name, err)
	default:
		cached = true
		if written != nil {
			if apply.NewestVersion(record, written) == record {
				memory.written.CompareAndSwap(written, nil) // the cache has caught up
			} else {
				record = written
			}
		}
	}
	if record != nil && memory.dropped == record.UID {
		record = nil
	}
	return record, cached, nil
}
