// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/binding"
	"github.com/capstan-io/capstan/internal/scheduler"
)

// groups know where the workloads are that are kept together or apart, by the names of
// their bindings: whoever writes a binding can say that it is for any object. The zero
// value knows none. It is safe for concurrent use.
type groups struct {
	mu      sync.Mutex
	members map[group]map[types.NamespacedName]*workload
	of      map[types.NamespacedName]workload
}

// group is workloads of a namespace to keep together, or apart.
type group struct {
	namespace, name string
	apart           bool
}

// workload is where a workload of a group is.
type workload struct {
	groups []group
	// seen are its clusters by its binding, and decided those that it was given since.
	seen, decided []string
	since         time.Time
}

// groupsOf returns the groups of the object of a binding.
func groupsOf(b workv1alpha2.Binding) []group {
	said := b.BindingSpec().WorkloadAffinityGroups
	if said == nil {
		return nil
	}
	var all []group
	if said.AffinityGroup != "" {
		all = append(all, group{namespace: b.GetNamespace(), name: said.AffinityGroup})
	}
	if said.AntiAffinityGroup != "" {
		all = append(all, group{namespace: b.GetNamespace(), name: said.AntiAffinityGroup, apart: true})
	}
	return all
}

// see notes what a binding says, and returns the bindings of its groups that have
// no clusters if that may help them.
func (g *groups) see(b workv1alpha2.Binding, gone bool) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := keyOf(b)
	before, known := g.of[name]
	now := workload{groups: groupsOf(b)}
	if gone {
		now.groups = nil
	}
	if !known && len(now.groups) == 0 {
		return nil
	}
	now.seen = namesOf(b.BindingSpec().Clusters)
	if before.decided != nil && !slices.Equal(now.seen, before.decided) {
		now.decided, now.since = before.decided, before.since
	}
	g.set(name, now)
	if known && slices.Equal(before.seen, now.seen) && slices.Equal(before.groups, now.groups) {
		return nil
	}
	var waiting []types.NamespacedName
	for _, one := range slices.Concat(before.groups, now.groups) {
		for peer, where := range g.members[one] {
			if peer != name && len(where.seen) == 0 && !slices.Contains(waiting, peer) {
				waiting = append(waiting, peer)
			}
		}
	}
	return waiting
}

// set notes where the workload of a binding is. The caller has the lock.
func (g *groups) set(name types.NamespacedName, now workload) {
	if g.of == nil {
		g.of, g.members = map[types.NamespacedName]workload{}, map[group]map[types.NamespacedName]*workload{}
	}
	for _, one := range g.of[name].groups {
		if delete(g.members[one], name); len(g.members[one]) == 0 {
			delete(g.members, one)
		}
	}
	delete(g.of, name)
	if len(now.groups) == 0 {
		return
	}
	g.of[name] = now
	for _, one := range now.groups {
		if g.members[one] == nil {
			g.members[one] = map[types.NamespacedName]*workload{}
		}
		g.members[one][name] = &now
	}
}

// during has a decision made for the object of a binding beside the others of its
// groups, and remembers it at once: the next one sees it before it is written.
func (g *groups) during(b workv1alpha2.Binding, now time.Time, decide func(scheduler.Neighbours) binding.Decision) binding.Decision {
	mine := groupsOf(b)
	if len(mine) == 0 {
		return decide(scheduler.Neighbours{})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := keyOf(b)
	var beside scheduler.Neighbours
	for _, one := range mine {
		for peer, where := range g.members[one] {
			if peer == name {
				continue
			}
			if one.apart {
				beside.Apart = append(beside.Apart, where.clusters(now)...)
			} else {
				beside.Together = append(beside.Together, where.clusters(now)...)
			}
		}
	}
	decision := decide(beside)
	if decision.Chosen() {
		g.set(name, workload{groups: mine, seen: g.of[name].seen, decided: namesOf(decision.Clusters), since: now})
	}
	return decision
}

// clusters returns where a workload is, or is about to be: what was decided may not
// have been written, and is forgotten after a while.
func (w *workload) clusters(now time.Time) []string {
	if now.Sub(w.since) < assumedMax {
		return slices.Concat(w.seen, w.decided)
	}
	return w.seen
}

func namesOf(clusters []workv1alpha2.TargetCluster) []string {
	names := make([]string, 0, len(clusters))
	for _, target := range clusters {
		names = append(names, target.Name)
	}
	slices.Sort(names)
	return names
}

// See notes where the object of a binding is, or that the binding is gone. It
// returns the bindings that have no clusters and may get some by that: those of
// workloads to keep together with it, or apart from it.
func (d *Decider) See(b workv1alpha2.Binding, gone bool) []types.NamespacedName {
	return d.groups.see(b, gone)
}
