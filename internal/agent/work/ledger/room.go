// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/size"
)

// The list of objects in a record is for people, for other agents, and for
// objects of types that the agent may not list and watch: these are found by
// nothing else once they have left the work. So when a list is too long for
// one object the latter stay in it, and what could not be kept in it is not
// applied in the first place.

const (
	// listBytesMax is the size in bytes of the list. The rest of the record, which
	// has hardly anything else, and a keeper's has place beside it.
	listBytesMax = 1 << 20
	// listedBytesMax is the size in bytes of the longest entry.
	listedBytesMax = 2 << 10
	// listBytesLeast is the size in bytes below which no shorter list is tried.
	listBytesLeast = 16 << 10
	// listedBytes are the bytes of an entry as JSON without the texts in it, and
	// somewhat more.
	listedBytes = 76
	// anyUID is as long as a UID.
	anyUID = "00000000-0000-0000-0000-000000000000"
)

// fittedList is a list of objects as it can be written.
type fittedList struct {
	list []workv1.AppliedManifestResourceMeta
	left int // objects that are not in the list, and are found without it
	lost int // bytes that objects need beyond the limit which are not found otherwise
}

// roomBytes is how many bytes the list may have.
func (l *AppliedList) roomBytes() int {
	if l.record.memory.listRoom > 0 {
		return l.record.memory.listRoom
	}
	return listBytesMax
}

// fitResources returns the list of the objects that there are, as far as there is room.
func (l *AppliedList) fitResources() fittedList {
	return fitList(l.allResources(), l.roomBytes(), func(r *workv1.AppliedManifestResourceMeta) bool {
		return l.record.ledger.Inventory.TypeState(GroupResource(r)) != nil
	})
}

// fitList leaves out of a list what does not fit, last things first, but
// nothing that has to be in it. Each entry is measured, as what a member says of it may be long.
func fitList(all []workv1.AppliedManifestResourceMeta, room int, needed func(*workv1.AppliedManifestResourceMeta) bool) fittedList {
	bytes := 0
	total := 0
	for i := range all {
		n := listedSize(&all[i])
		total += n
		if needed(&all[i]) {
			bytes += n
		}
	}
	if total <= room {
		return fittedList{list: all}
	}
	fits := fittedList{list: make([]workv1.AppliedManifestResourceMeta, 0, len(all)), lost: max(0, bytes-room)}
	full := false
	for i := range all {
		if !needed(&all[i]) {
			n := listedSize(&all[i])
			if full = full || bytes+n > room; full {
				fits.left++
				continue
			}
			bytes += n
		}
		fits.list = append(fits.list, all[i])
	}
	return fits
}

func listedSize(r *workv1.AppliedManifestResourceMeta) int {
	return listedBytes + size.TextBytes(r.Group, r.Version, r.Resource, r.Namespace, r.Name, r.UID)
}
