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

// Options of a Ledger.
type Options struct {
	// Life ends with the connection, and with it the watches that records need.
	Life context.Context //nolint:containedctx // it is that of all that the ledger starts
	// Cached reads from the cache, Client writes to the member, and Reader asks it.
	Cached *compressed.Store[*workv1.AppliedManifestWork]
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
	// Busy tells whether many works wait for their first write.
	Busy func() bool
	// ListDelay is after how long a record lists what was applied while that is so.
	ListDelay time.Duration
	// Postponed is told of a work whose record lists later because of that.
	Postponed func(work string)
}

// Ledger has the records of one member that are of one hub.
type Ledger struct {
	Options
	hubHash string
}

// New returns the ledger of a connection.
func New(options Options) *Ledger {
	return &Ledger{Options: options, hubHash: workv1.HubHash(options.HubHost)}
}

// RecordName returns the name of the record of a work.
func (l *Ledger) RecordName(work string) string { return l.hubHash + "-" + work }

// Subject returns the work that is to be looked at when something changed of
// what the record owns. It is false if that record is of no work of this hub.
func (l *Ledger) Subject(record string) (work string, ok bool) {
	return strings.CutPrefix(record, l.hubHash+"-")
}

// SubjectOf is Subject for a record itself, which may be a keeper.
func (l *Ledger) SubjectOf(record *workv1.AppliedManifestWork) (work string, ok bool) {
	if l.isKeeper(record) {
		return record.Spec.ManifestWorkName, true
	}
	return l.Subject(record.Name)
}

// Has tells whether there is a record of the name. It counts as there if that is not known.
func (l *Ledger) Has(record string) bool {
	has, err := l.Cached.Has(l.Life, client.ObjectKey{Name: record})
	return has || err != nil
}

// WorkOf names the work of a record for messages.
func (l *Ledger) WorkOf(record string) string {
	if work, ours := l.Subject(record); ours {
		return fmt.Sprintf("ManifestWork %q", work)
	}
	_, work, _ := strings.Cut(record, "-")
	return fmt.Sprintf("ManifestWork %q of another hub", work)
}

// Concerns tells whether a record is of this hub, or of another hub that this
// agent worked for before.
func (l *Ledger) Concerns(record *workv1.AppliedManifestWork) bool {
	return record.Spec.HubHash == l.hubHash || record.Spec.AgentID != "" && record.Spec.AgentID == l.AgentID
}

// Cares tells whether the agent decides what becomes of a record, be it of this hub
// or of another that it worked for before.
func (l *Ledger) Cares(record *workv1.AppliedManifestWork) bool {
	return l.Concerns(record) && l.owns(record)
}

// owns tells whether a record is this agent's, or is to be.
func (l *Ledger) owns(record *workv1.AppliedManifestWork) bool {
	return record.Spec.AgentID == l.AgentID || l.Predecessor != "" && record.Spec.AgentID == l.Predecessor
}

// TakesOver tells whether the record is of a hub that this agent worked for
// before, so that its objects are now ours.
func (l *Ledger) TakesOver(ctx context.Context, record string) bool {
	other, err := l.Cached.Get(ctx, client.ObjectKey{Name: record})
	if err != nil {
		return false
	}
	return other.Spec.HubHash != l.hubHash && other.Spec.AgentID == l.AgentID && l.AgentID != ""
}

// Inherits tells whether what one record owns is another's, too: it is of the
// same work, or of a hub that this agent worked for before.
func (l *Ledger) Inherits(ctx context.Context, heir, record string) bool {
	return record == heir || record == keeperName(heir) || l.TakesOver(ctx, record)
}

// Open reads the record of a work as it is, or as it was last written.
func (l *Ledger) Open(ctx context.Context, memory *Memory, work string) (*Record, error) {
	return l.open(ctx, memory, l.RecordName(work), work)
}

// OpenNamed reads a record for which there is no work.
func (l *Ledger) OpenNamed(ctx context.Context, memory *Memory, name string) (*Record, error) {
	return l.open(ctx, memory, name, name)
}

func (l *Ledger) open(ctx context.Context, memory *Memory, name, work string) (*Record, error) {
	record := &Record{ledger: l, memory: memory, name: name, work: work}
	var err error
	record.object, record.cached, err = l.read(ctx, memory, name)
	return record, err
}

// read returns the record as it is or as it was last written, and whether the
// cache has it.
func (l *Ledger) read(ctx context.Context, memory *Memory, name string) (record *workv1.AppliedManifestWork, cached bool, err error) {
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
			if apply.Newest(record, written) == record {
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
