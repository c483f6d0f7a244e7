// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"maps"

	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// find returns the revision of a name. A new one is stored, if there is room for it: the
// change goes on without, and cannot be undone when another comes.
func (p *pass) find(ctx context.Context, id string, is content) (found revision, err error) {
	p.s.mu.Lock()
	p.past = p.e.history[p.name]
	found, known := p.past.find(id)
	if !known {
		p.e.last = max(p.e.last, p.e.undo) + 1
		found = revision{name: id, number: p.e.last}
	}
	p.s.mu.Unlock()
	if known && (found.kept || !p.s.shelf.fits(found, p.name.Namespace)) {
		return found, nil
	}
	packed, err := is.pack()
	if err != nil {
		return found, err
	}
	found.bytes = len(packed)
	if found.kept, err = p.store(ctx, found, packed); err != nil {
		return found, err
	}
	p.remember(p.past.with(found))
	return found, nil
}

// store stores a revision. It is false if there is no room for it, even without those
// that are neither the oldest nor the current one.
func (p *pass) store(ctx context.Context, r revision, packed []byte) (bool, error) {
	if !p.s.shelf.fits(r, p.name.Namespace) {
		gone := p.past.surplus(r.name, false, false, 1)
		if err := p.s.shelf.delete(ctx, gone); err != nil {
			return false, err
		}
		p.remember(p.past.without(gone))
	}
	return p.s.create(ctx, p.e, p.name, r, packed)
}

// remember notes which revisions there are, which the status of the rollout tells.
func (p *pass) remember(all history) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.past = all
	p.e.history[p.name] = all
	p.s.Changed(p.e.key)
}

// tidy deletes the revisions that nobody needs any more, and notes whether there
// will be something to do when the rollout is done.
func (p *pass) tidy(ctx context.Context, done bool) error {
	gone := p.past.surplus(p.current.name, p.undone, done, p.s.shelf.most(p.name.Namespace))
	if p.current.name == "" {
		gone = nil
	}
	if err := p.s.shelf.delete(ctx, gone); err != nil {
		return err
	}
	if len(gone) > 0 {
		p.remember(p.past.without(gone))
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	leaving := maps.Clone(p.works)
	for _, target := range deliver.Targets(p.in.Binding.BindingSpec()) {
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
