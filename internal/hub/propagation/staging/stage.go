// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/staged"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// Input is what a binding is about to send.
type Input struct {
	Binding Binding
	// Source is what the works are made of, and Wide and Own the policies of which
	// some are in it.
	Source deliver.Source
	Wide   []policyv1alpha1.ClusterOverridePolicy
	Own    []policyv1alpha1.OverridePolicy
	// Works are those that there are.
	Works []workv1.ManifestWork
	// Wanted are those that there are to be, and Problems say why some are not
	// among them, by cluster.
	Wanted   map[string]*workv1.ManifestWork
	Problems map[string]error
}

// Verdict is what a rollout makes of that.
type Verdict struct {
	Wanted   map[string]*workv1.ManifestWork
	Problems map[string]error
	// Held says why clusters do not have what they are to have, and Still which of
	// these have works that stay as they are.
	Held  map[string]error
	Still map[string]error
	// Keep says that clusters which are to lose the object keep it.
	Keep bool
}

// Stage makes of the works that a binding is to have those that it is to have now.
// Without a rollout these are the same.
func (s *Stages) Stage(ctx context.Context, in Input) (Verdict, error) {
	v := Verdict{Wanted: in.Wanted, Problems: in.Problems}
	e, err := enter(ctx, s, in.Binding, in.Source.Object)
	if err != nil || e == nil {
		return v, err
	}
	p := &pass{s: s, e: e, name: client.ObjectKeyFromObject(in.Binding), in: in, now: s.Clock.Now(), works: map[string]*workv1.ManifestWork{}}
	for i := range in.Works {
		if w := &in.Works[i]; w.DeletionTimestamp.IsZero() && w.Name == deliver.NameOfWorks(in.Binding) {
			p.works[w.Namespace] = w
		}
	}
	if err := p.aim(ctx); err != nil {
		return v, err
	}
	done, may, err := p.report()
	if err != nil {
		return v, err
	}
	if v, err = p.hold(ctx, may); err != nil {
		return v, err
	}
	v.Keep = !done
	return v, p.tidy(ctx, done)
}

// pass is one look at a binding of a rollout.
type pass struct {
	s     *Stages
	e     *entry
	name  types.NamespacedName
	in    Input
	now   time.Time
	works map[string]*workv1.ManifestWork // by cluster
	past  history
	// target is what the clusters are to get: the current revision, or the oldest if
	// that is undone.
	current, target revision
	undone          bool
	held            bool              // it is to be undone, and there is nothing from before
	revisions       map[string]string // of the target, by cluster
}

// aim finds out what the clusters are to get, and stores it.
func (p *pass) aim(ctx context.Context) error {
	if p.in.Source.Mistake != nil { // nothing is sent, and nothing of it is known
		return nil //nolint:nilerr // its clusters have it as their problem
	}
	even, err := p.in.Source.Even()
	if err != nil {
		return nil //nolint:nilerr // an interpreter of the kind fails, which is the problem of its clusters, too
	}
	is := contentOf(p.in)
	id, err := is.name(p.e.uid, p.name, even)
	if err != nil {
		return err
	}
	found, err := p.find(ctx, id, is)
	if err != nil {
		return err
	}
	p.current = found
	p.target = found
	undo, settled := p.undoes()
	switch oldest := p.past[0]; {
	case found.number > undo:
	case oldest.name == found.name:
		p.held = !settled
	default:
		if err := p.undo(ctx, oldest, settled); err != nil {
			return err
		}
	}
	p.revisions, err = deliver.Revisions(p.in.Source)
	return err
}

// undo aims at the oldest revision, if there is something to make it of.
func (p *pass) undo(ctx context.Context, oldest revision, settled bool) error {
	source, has, err := p.source(ctx, oldest)
	if err != nil {
		return err
	}
	if !has {
		p.held = !settled
		return nil
	}
	p.target = oldest
	p.undone = true
	p.in.Source = source
	if p.in.Wanted, p.in.Problems, err = deliver.Render(source); err != nil {
		return fmt.Errorf("making what binding %q sent before: %w", p.name, err)
	}
	return nil
}

// source returns what works were made of by a revision; false if nobody knows any more.
func (p *pass) source(ctx context.Context, r revision) (source deliver.Source, has bool, err error) {
	if source, has, err = p.s.shelf.source(ctx, r, p.in.Source); err != nil || !has {
		return source, false, err
	}
	if source.Heavy(true) {
		err = p.s.Turns.Take(p.name) //nolint:wrapcheck // it says that it is the turn of others
	}
	return source, err == nil, err
}

// undoes returns up to which revision changes are undone, and whether all was done
// since.
func (p *pass) undoes() (undo int64, settled bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.e.undo, p.e.settled
}

// report says how far the object is, and returns whether the rollout is done, and which
// clusters get the object now.
func (p *pass) report() (done bool, may map[string]bool, err error) {
	states := map[string]staged.State{}
	for _, target := range deliver.Targets(p.in.Binding.BindingSpec()) {
		problem := p.in.Problems[target.Name]
		if errors.Is(problem, deliver.ErrDeleting) || errors.Is(problem, deliver.ErrNoCluster) {
			continue // or else the rollout would wait for it for ever
		}
		if states[target.Name], err = p.state(target.Name, problem); err != nil {
			return false, nil, err
		}
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.undone {
		delete(p.e.undone, p.name)
	} else if _, known := p.e.undone[p.name]; !known {
		p.e.undone[p.name] = p.now
	}
	if p.e.rollout.Report(p.name.String(), staged.Object{Change: p.target.name, Held: p.held, States: states}, p.now) {
		p.e.newsCame(p.s.Changed)
	}
	may = map[string]bool{}
	for cluster, state := range states {
		since, granted := p.e.rollout.May(cluster)
		if may[cluster] = state.Updated || granted; !state.Updated && granted && p.in.Wanted[cluster] != nil {
			mark(p.in.Wanted[cluster], p.revisions[cluster], since) // the same until the work is written
		}
	}
	return p.e.outcome.Done, may, nil
}

// state returns how far a cluster is, and marks what it is to get with the revision.
func (p *pass) state(cluster string, problem error) (staged.State, error) {
	want := p.in.Wanted[cluster]
	is := p.works[cluster]
	if problem != nil || want == nil {
		why := "it cannot be sent"
		if problem != nil {
			why = problem.Error()
		}
		return staged.State{State: rollout.State{Status: rollout.Failed}, Why: why}, nil
	}
	mark(want, p.revisions[cluster], p.now)
	if is == nil {
		return staged.State{}, nil
	}
	has := is.Annotations[fleetv1alpha1.AnnotationRevision]
	same := has == p.revisions[cluster]
	if has == "" { // it is from before the rollout
		var err error
		if same, err = deliver.Has(is, want); err != nil {
			return staged.State{}, err
		}
	}
	switch {
	case same:
		if at := is.Annotations[fleetv1alpha1.AnnotationRevisionSince]; at != "" {
			want.Annotations[fleetv1alpha1.AnnotationRevisionSince] = at
		}
		return stateOf(is, p.now), nil
	case p.undone && has != "": // what is undone goes back at once
		back := p.undoneSince()
		mark(want, p.revisions[cluster], back)
		return staged.State{Updated: true, State: rollout.State{Status: rollout.Progressing, Since: back}}, nil
	default:
		return staged.State{}, nil
	}
}

// undoneSince returns since when the change of the object is undone.
func (p *pass) undoneSince() time.Time {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if since, known := p.e.undone[p.name]; known {
		return since
	}
	return p.now
}

func mark(work *workv1.ManifestWork, revision string, since time.Time) {
	work.Annotations[fleetv1alpha1.AnnotationRevision] = revision
	work.Annotations[fleetv1alpha1.AnnotationRevisionSince] = since.UTC().Format(time.RFC3339)
}

// hold keeps the object from clusters that do not get it now: they keep what they
// have, with the number of replicas that they are to have.
func (p *pass) hold(ctx context.Context, may map[string]bool) (Verdict, error) {
	v := Verdict{Wanted: maps.Clone(p.in.Wanted), Problems: p.in.Problems, Held: map[string]error{}, Still: map[string]error{}}
	waiting := map[string]bool{}
	for cluster := range p.in.Wanted {
		if may[cluster] {
			continue
		}
		delete(v.Wanted, cluster)
		v.Held[cluster] = p.reason()
		if p.works[cluster] != nil {
			v.Still[cluster] = v.Held[cluster]
			waiting[cluster] = true
		}
	}
	for _, r := range p.past {
		if len(waiting) == 0 {
			break
		}
		if r.name == p.target.name {
			continue
		}
		if err := p.again(ctx, r, waiting, v); err != nil {
			return v, err
		}
	}
	return v, nil
}

// again makes for those of the clusters that wait what they have, if they have it
// by this revision.
func (p *pass) again(ctx context.Context, r revision, waiting map[string]bool, v Verdict) error {
	source, has, err := p.source(ctx, r)
	if err != nil || !has {
		return err
	}
	source.Only = maps.Clone(waiting)
	made, err := deliver.Revisions(source)
	if err != nil {
		return err
	}
	for cluster := range waiting {
		if made[cluster] == "" || made[cluster] != p.works[cluster].Annotations[fleetv1alpha1.AnnotationRevision] {
			delete(source.Only, cluster)
		}
	}
	if len(source.Only) == 0 {
		return nil
	}
	works, _, err := deliver.Render(source) // those with a problem stay as they are
	if err != nil {
		return fmt.Errorf("making what clusters have of binding %q: %w", p.name, err)
	}
	for cluster, work := range works {
		for _, key := range []string{fleetv1alpha1.AnnotationRevision, fleetv1alpha1.AnnotationRevisionSince} {
			work.Annotations[key] = p.works[cluster].Annotations[key]
		}
		v.Wanted[cluster] = work
		delete(v.Still, cluster)
		delete(waiting, cluster)
	}
	return nil
}

// reason says why a cluster does not get the object.
func (p *pass) reason() error {
	return errors.New(staged.Waiting(p.e.key))
}

// Failed says why clusters that were to get an object did not.
func (s *Stages) Failed(name types.NamespacedName, failed map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[s.governed[name]]
	if e == nil || len(failed) == 0 {
		return
	}
	news := false
	for cluster, err := range failed {
		news = e.rollout.Failed(name.String(), cluster, err.Error()) || news
	}
	if news {
		e.newsCame(s.Changed)
	}
}
