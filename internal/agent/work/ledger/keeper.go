// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// A record that someone deletes although its work is there is made anew, and
// the objects stay: a second record, the keeper, owns them until they have been
// applied in the name of the new one. So there is no moment at which an object
// has no owner that exists, and none at which its type is not noted, and an
// agent that stops in between finds everything. docs/adr/0006 tells more.

// KeeperPrefix begins the names of keepers. No record is called so: others
// begin with the hash of a hub.
const KeeperPrefix = "moved-"

// keeperName returns the name of the keeper for a record. It has no room for
// the name of the record, which can be as long as names can be.
func keeperName(record string) string {
	sum := sha256.Sum256([]byte(record))
	return KeeperPrefix + hex.EncodeToString(sum[:])
}

// isKeeper reports whether the record is a keeper for this hub.
func (l *Ledger) isKeeper(record *workv1.AppliedManifestWork) bool {
	return record.Spec.HubHash == l.hubHash && record.Name == keeperName(l.RecordName(record.Spec.ManifestWorkName))
}

// RecordKeeper owns the objects of a record that someone deleted, until there is a
// new one. As a rule it does not exist.
type RecordKeeper struct {
	record *AppliedRecord
	// of is what is remembered of the record whose keeper it is.
	of *RecordMemory
}

// OpenKeeper reads the keeper of a work's objects. The memory is that of the
// work's record.
func (l *Ledger) OpenKeeper(ctx context.Context, memory *RecordMemory, work string) (*RecordKeeper, error) {
	own := memory.keeper
	if own == nil {
		own = &RecordMemory{}
	}
	record, err := l.openByName(ctx, own, keeperName(l.RecordName(work)), work)
	if err != nil {
		return nil, err
	}
	memory.keeper = nil
	if record.Exists() || record.cached {
		memory.keeper = own
	}
	return &RecordKeeper{record: record, of: memory}, nil
}

// Exists reports whether there is a keeper.
func (k *RecordKeeper) Exists() bool { return k.record.Exists() }

// Record is the keeper as the record that it is.
func (k *RecordKeeper) Record() *AppliedRecord { return k.record }

// EnsureFor makes sure that there is a keeper for the objects of the record, which
// has its types, and that these are watched for it. The objects themselves
// come after that.
func (k *RecordKeeper) EnsureFor(ctx context.Context, from *AppliedRecord) error {
	types := TypesOf(from.object)
	will := testament{
		option: from.object.Annotations[workv1.AnnotationDeleteOption], origin: from.object.Annotations[workv1.AnnotationFirstVersion],
	}
	if !k.Exists() {
		if err := k.record.createRecord(ctx, types, will); err != nil {
			return err
		}
		k.of.keeper = k.record.memory
	}
	noted := TypesOf(k.record.object)
	all := plan.SortTypes(slices.Concat(noted, types))
	if len(all) > len(noted) || k.record.object.Annotations[workv1.AnnotationDeleteOption] != will.option {
		if err := k.record.writeNotes(ctx, all, will); err != nil {
			return err
		}
	}
	if err := k.copyList(ctx, from); err != nil {
		return err
	}
	k.record.WatchTypes(all)
	return nil
}

// copyList takes over the list of a record: what cannot be watched is known from
// there only.
func (k *RecordKeeper) copyList(ctx context.Context, from *AppliedRecord) error {
	if len(k.record.object.Status.AppliedResources) > 0 || len(from.object.Status.AppliedResources) == 0 {
		return nil
	}
	after := k.record.object.DeepCopy()
	after.Status.AppliedResources = from.object.Status.AppliedResources
	if err := conditions.PatchStatus(ctx, k.record.ledger.Client, k.record.object, after); err != nil {
		return fmt.Errorf("listing objects in appliedmanifestwork %q: %w", after.Name, err)
	}
	k.record.setObject(after)
	return nil
}
