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

// StageInput is what a binding is about to send.
type StageInput struct {
	Binding Binding
	// Source is what the works are made of, and Wide and Own the policies of which
	// some are in it.
	Source deliver.WorkSource
	Wide   []policyv1alpha1.ClusterOverridePolicy
	Own    []policyv1alpha1.OverridePolicy
	// Works are those that there are.
	Works []workv1.ManifestWork
	// Wanted are those that there are to be, and Problems say why some are not
	// among them, by cluster.
	Wanted   map[string]*workv1.ManifestWork
	Problems map[string]error
}

// StageVerdict is what a rollout makes of that.
type StageVerdict struct {
	Wanted   map[string]*workv1.ManifestWork
	Problems map[string]error
	// Held says why clusters do not have what they are to have, and Still which of
	// these have works that stay as they are.
	Held  map[string]error
	Still map[string]error
	// Keep says that clusters which are to lose the object keep it.
	Keep bool
}

// StageWorks makes of the works that a binding is to have those that it is to have now.
// Without a rollout these are the same.
func (s *Stages) StageWorks(ctx context.Context, in StageInput) (StageVerdict, error) {
	v := StageVerdict{Wanted: in.Wanted, Problems: in.Problems}
	e, err := enterRollout(ctx, s, in.Binding, in.Source.Object)
	if err != nil || e == nil {
		return v, err
	}
	p := &stagePass{s: s, e: e, name: client.ObjectKeyFromObject(in.Binding), in: in, now: s.Clock.Now(), works: map[string]*workv1.ManifestWork{}}
	for i := range in.Works {
		if w := &in.Works[i]; w.DeletionTimestamp.IsZero() && w.Name == deliver.NameOfWorks(in.Binding) {
			p.works[w.Namespace] = w
		}
	}
	if err := p.resolveTarget(ctx); err != nil {
		return v, err
	}
	done, may, err := p.reportStates()
	if err != nil {
		return v, err
	}
	if v, err = p.holdBack(ctx, may); err != nil {
		return v, err
	}
	v.Keep = !done
	return v, p.deleteSurplus(ctx, done)
}

// stagePass is one look at a binding of a rollout.
type stagePass struct {
	s     *Stages
	e     *rolloutEntry
	name  types.NamespacedName
	in    StageInput
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

// resolveTarget finds out what the clusters are to get, and stores it.
func (p *stagePass) resolveTarget(ctx context.Context) error {
	if p.in.Source.Mistake != nil { // nothing is sent, and nothing of it is known
		return nil //nolint:nilerr // its clusters have it as their problem
	}
	even, err := p.in.Source.SingleReplicaObject()
	if err != nil {
		return nil //nolint:nilerr // an interpreter of the kind fails, which is the problem of its clusters, too
	}
	is := contentOf(p.in)
	id, err := is.revisionName(p.e.uid, p.name, even)
	if err != nil {
		return err
	}
	found, err := p.findRevision(ctx, id, is)
	if err != nil {
		return err
	}
	p.current = found
	p.target = found
	undo, settled := p.undoState()
	switch oldest := p.past[0]; {
	case found.number > undo:
	case oldest.name == found.name:
		p.held = !settled
	default:
		if err := p.targetOldest(ctx, oldest, settled); err != nil {
			return err
		}
	}
	p.revisions, err = deliver.ClusterRevisions(p.in.Source)
	return err
}

// targetOldest aims at the oldest revision, if there is something to make it of.
func (p *stagePass) targetOldest(ctx context.Context, oldest revision, settled bool) error {
	source, has, err := p.revisionSource(ctx, oldest)
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
	if p.in.Wanted, p.in.Problems, err = deliver.RenderWorks(source); err != nil {
		return fmt.Errorf("making what binding %q sent before: %w", p.name, err)
	}
	return nil
}

// revisionSource returns what works were made of by a revision; false if nobody knows any more.
func (p *stagePass) revisionSource(ctx context.Context, r revision) (source deliver.WorkSource, has bool, err error) {
	if source, has, err = p.s.shelf.revisionSource(ctx, r, p.in.Source); err != nil || !has {
		return source, false, err
	}
	if source.IsHeavyToRender(true) {
		err = p.s.Turns.Take(p.name) //nolint:wrapcheck // it says that it is the turn of others
	}
	return source, err == nil, err
}

// undoState returns up to which revision changes are undone, and whether all was done
// since.
func (p *stagePass) undoState() (undo int64, settled bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.e.undo, p.e.settled
}

// reportStates says how far the object is, and returns whether the rollout is done, and which
// clusters get the object now.
func (p *stagePass) reportStates() (done bool, may map[string]bool, err error) {
	states := map[string]staged.ObjectState{}
	for _, target := range deliver.BindingTargets(p.in.Binding.BindingSpec()) {
		problem := p.in.Problems[target.Name]
		if errors.Is(problem, deliver.ErrDeleting) || errors.Is(problem, deliver.ErrNoCluster) {
			continue // or else the rollout would wait for it for ever
		}
		if states[target.Name], err = p.clusterState(target.Name, problem); err != nil {
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
	if p.e.rollout.ReportProgress(p.name.String(), staged.ObjectProgress{Change: p.target.name, Held: p.held, States: states}, p.now) {
		p.e.newsCame(p.s.Changed)
	}
	may = map[string]bool{}
	for cluster, state := range states {
		since, granted := p.e.rollout.GrantedSince(cluster)
		if may[cluster] = state.Updated || granted; !state.Updated && granted && p.in.Wanted[cluster] != nil {
			markRevision(p.in.Wanted[cluster], p.revisions[cluster], since) // the same until the work is written
		}
	}
	return p.e.outcome.Done, may, nil
}

// clusterState returns how far a cluster is, and marks what it is to get with the revision.
func (p *stagePass) clusterState(cluster string, problem error) (staged.ObjectState, error) {
	want := p.in.Wanted[cluster]
	is := p.works[cluster]
	if problem != nil || want == nil {
		why := "it cannot be sent"
		if problem != nil {
			why = problem.Error()
		}
		return staged.ObjectState{ClusterState: rollout.ClusterState{Status: rollout.Failed}, Why: why}, nil
	}
	markRevision(want, p.revisions[cluster], p.now)
	if is == nil {
		return staged.ObjectState{}, nil
	}
	has := is.Annotations[fleetv1alpha1.AnnotationRevision]
	same := has == p.revisions[cluster]
	if has == "" { // it is from before the rollout
		var err error
		if same, err = deliver.WorkHasContent(is, want); err != nil {
			return staged.ObjectState{}, err
		}
	}
	switch {
	case same:
		if at := is.Annotations[fleetv1alpha1.AnnotationRevisionSince]; at != "" {
			want.Annotations[fleetv1alpha1.AnnotationRevisionSince] = at
		}
		return workState(is, p.now), nil
	case p.undone && has != "": // what is undone goes back at once
		back := p.undoneSince()
		markRevision(want, p.revisions[cluster], back)
		return staged.ObjectState{Updated: true, ClusterState: rollout.ClusterState{Status: rollout.Progressing, Since: back}}, nil
	default:
		return staged.ObjectState{}, nil
	}
}

// undoneSince returns since when the change of the object is undone.
func (p *stagePass) undoneSince() time.Time {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if since, known := p.e.undone[p.name]; known {
		return since
	}
	return p.now
}

func markRevision(work *workv1.ManifestWork, revision string, since time.Time) {
	work.Annotations[fleetv1alpha1.AnnotationRevision] = revision
	work.Annotations[fleetv1alpha1.AnnotationRevisionSince] = since.UTC().Format(time.RFC3339)
}

// holdBack keeps the object from clusters that do not get it now: they keep what they
// have, with the number of replicas that they are to have.
func (p *stagePass) holdBack(ctx context.Context, may map[string]bool) (StageVerdict, error) {
	v := StageVerdict{Wanted: maps.Clone(p.in.Wanted), Problems: p.in.Problems, Held: map[string]error{}, Still: map[string]error{}}
	waiting := map[string]bool{}
	for cluster := range p.in.Wanted {
		if may[cluster] {
			continue
		}
		delete(v.Wanted, cluster)
		v.Held[cluster] = p.heldReason()
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
		if err := p.renderEarlier(ctx, r, waiting, v); err != nil {
			return v, err
		}
	}
	return v, nil
}

// renderEarlier makes for those of the clusters that wait what they have, if they have it
// by this revision.
func (p *stagePass) renderEarlier(ctx context.Context, r revision, waiting map[string]bool, v StageVerdict) error {
	source, has, err := p.revisionSource(ctx, r)
	if err != nil || !has {
		return err
	}
	source.Only = maps.Clone(waiting)
	made, err := deliver.ClusterRevisions(source)
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
	works, _, err := deliver.RenderWorks(source) // those with a problem stay as they are
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

// heldReason says why a cluster does not get the object.
func (p *stagePass) heldReason() error {
	return errors.New(staged.WaitingMessage(p.e.key))
}

// RecordFailures says why clusters that were to get an object did not.
func (s *Stages) RecordFailures(name types.NamespacedName, failed map[string]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[s.governed[name]]
	if e == nil || len(failed) == 0 {
		return
	}
	news := false
	for cluster, err := range failed {
		news = e.rollout.ReportFailure(name.String(), cluster, err.Error()) || news
	}
	if news {
		e.newsCame(s.Changed)
	}
}
