// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"maps"

	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// findRevision returns the revision of a name. A new one is stored, if there is room for it: the
// change goes on without, and cannot be undone when another comes.
func (p *stagePass) findRevision(ctx context.Context, id string, is revisionContent) (found revision, err error) {
	p.s.mu.Lock()
	p.past = p.e.history[p.name]
	found, known := p.past.findRevision(id)
	if !known {
		p.e.last = max(p.e.last, p.e.undo) + 1
		found = revision{name: id, number: p.e.last}
	}
	p.s.mu.Unlock()
	if known && (found.kept || !p.s.shelf.fitsRevision(found, p.name.Namespace)) {
		return found, nil
	}
	packed, err := is.pack()
	if err != nil {
		return found, err
	}
	found.bytes = len(packed)
	if found.kept, err = p.storeRevision(ctx, found, packed); err != nil {
		return found, err
	}
	p.recordHistory(p.past.withRevision(found))
	return found, nil
}

// storeRevision stores a revision. It is false if there is no room for it, even without those
// that are neither the oldest nor the current one.
func (p *stagePass) storeRevision(ctx context.Context, r revision, packed []byte) (bool, error) {
	if !p.s.shelf.fitsRevision(r, p.name.Namespace) {
		gone := p.past.surplusRevisions(r.name, false, false, 1)
		if err := p.s.shelf.deleteRevisions(ctx, gone); err != nil {
			return false, err
		}
		p.recordHistory(p.past.withoutRevisions(gone))
	}
	return p.s.createRevision(ctx, p.e, p.name, r, packed)
}

// recordHistory notes which revisions there are, which the status of the rollout tells.
func (p *stagePass) recordHistory(all history) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.past = all
	p.e.history[p.name] = all
	p.s.Changed(p.e.key)
}

// deleteSurplus deletes the revisions that nobody needs any more, and notes whether there
// will be something to do when the rollout is done.
func (p *stagePass) deleteSurplus(ctx context.Context, done bool) error {
	gone := p.past.surplusRevisions(p.current.name, p.undone, done, p.s.shelf.maxRevisions(p.name.Namespace))
	if p.current.name == "" {
		gone = nil
	}
	if err := p.s.shelf.deleteRevisions(ctx, gone); err != nil {
		return err
	}
	if len(gone) > 0 {
		p.recordHistory(p.past.withoutRevisions(gone))
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	leaving := maps.Clone(p.works)
	for _, target := range deliver.BindingTargets(p.in.Binding.BindingSpec()) {
		delete(leaving, target.Name)
	}
	if delete(p.e.waiting, p.name); !done && (len(leaving) > 0 || len(p.past) > 1) {
		p.e.waiting[p.name] = true
	}
	if p.e.outcome.Done && !done { // since it was asked, and then nobody knew that this one waits
		p.s.Touched(p.name)
	}
	return nil
}
