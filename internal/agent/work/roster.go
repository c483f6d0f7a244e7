// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
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
)

// listRoom is how many bytes the list may have.
func (p *pass) listRoom() int {
	if p.state.listRoom > 0 {
		return p.state.listRoom
	}
	return listBytesMax
}

// roster is a list of objects as it can be written.
type roster struct {
	list []workv1.AppliedManifestResourceMeta
	left int // objects that are not in the list, and are found without it
	lost int // bytes that objects need beyond the limit which are not found otherwise
}

// roster returns the list of the objects that there are.
func (p *pass) roster() roster {
	return fitList(p.applied(), p.listRoom(), func(r *workv1.AppliedManifestResourceMeta) bool {
		return p.inventory.State(groupResource(r)) != nil
	})
}

// fitList leaves out of a list what does not fit, last things first, but
// nothing that has to be in it.
func fitList(all []workv1.AppliedManifestResourceMeta, room int, needed func(*workv1.AppliedManifestResourceMeta) bool) roster {
	if len(all)*listedBytesMax <= room {
		return roster{list: all}
	}
	size, total := 0, 0
	for i := range all {
		n := listedSize(&all[i])
		total += n
		if needed(&all[i]) {
			size += n
		}
	}
	if total <= room {
		return roster{list: all}
	}
	fits := roster{list: make([]workv1.AppliedManifestResourceMeta, 0, len(all)), lost: max(0, size-room)}
	full := false
	for i := range all {
		if !needed(&all[i]) {
			n := listedSize(&all[i])
			if full = full || size+n > room; full {
				fits.left++
				continue
			}
			size += n
		}
		fits.list = append(fits.list, all[i])
	}
	return fits
}

// listNote says what the list lacks, and whether that is a fault.
func (p *pass) listNote() (note string, failed bool) {
	if (len(p.plan.items)+p.inventory.Owns(p.record.UID)+len(p.record.Status.AppliedResources))*listedBytesMax <= p.listRoom() {
		return "", false
	}
	fits := p.roster()
	switch {
	case fits.lost > 0:
		return fmt.Sprintf("AppliedManifestWork %q on the cluster cannot list all objects of the types that the agent may not list and watch: "+
			"allow it to, or divide the work.", p.record.Name), true
	case fits.left > 0:
		return fmt.Sprintf("AppliedManifestWork %q on the cluster has no room to list %d of the objects, which have its ownerReference all the same.",
			p.record.Name, fits.left), false
	}
	return "", false
}

// hold keeps those items from being applied whose objects would have to be in
// the list of the record, and do not fit.
func (p *pass) hold() {
	p.crowded = nil
	old := p.record.Status.AppliedResources
	if (len(p.plan.items)+len(old))*listedBytesMax <= p.listRoom() {
		return
	}
	unknown := map[schema.GroupResource]bool{}
	needed := func(resource schema.GroupResource) bool {
		is, seen := unknown[resource]
		if !seen {
			is = p.inventory.State(resource) != nil
			unknown[resource] = is
		}
		return is
	}
	size := 0
	listed := make(map[apply.Object]struct{}, len(old))
	for i := range old {
		if needed(groupResource(&old[i])) {
			listed[objectOf(&old[i])] = struct{}{}
			size += listedSize(&old[i])
		}
	}
	for _, it := range p.plan.items {
		if !it.resolved || it.refused != nil || it.strategy == apply.StrategyReadOnly || !needed(it.resource.GroupResource()) {
			continue
		}
		if _, ok := listed[it.object]; ok {
			continue
		}
		entry := metaOf(it.object, it.resource.Version, anyUID)
		if size += listedSize(&entry); size > p.listRoom() {
			if p.crowded == nil {
				p.crowded = map[*item]struct{}{}
			}
			p.crowded[it] = struct{}{}
		}
	}
}

// crowding is why an item is not applied that could not be listed.
func (p *pass) crowding(it *item) apply.Problem {
	return apply.Problem{
		Trouble: apply.TroubleForbidden,
		Message: fmt.Sprintf("It is not applied, as there is no room to list it in AppliedManifestWork %q, without which it would not be "+
			"found again: the agent may not list and watch %s, or has not listed them yet. Allow it to, or divide the work.",
			p.record.Name, it.resource.GroupResource()),
	}
}

// anyUID is as long as a UID.
const anyUID = "00000000-0000-0000-0000-000000000000"
