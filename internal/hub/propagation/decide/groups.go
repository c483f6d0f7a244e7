// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// affinityGroups know where the workloads are that are kept together or apart. They are safe
// for concurrent use.
//
// Whoever may write bindings may put any number of them into one group. So what a
// group has is counted by cluster and not gathered from its members, and those that
// wait are told once of all that has changed until they are decided again.
type affinityGroups struct {
	// on says that workloads are kept together or apart: what bindings say of it
	// counts for nothing otherwise.
	on bool

	mu      sync.Mutex
	members map[affinityGroup]*groupMembers
	of      map[types.NamespacedName]workload // by binding
	// assigned has the bindings by when clusters were decided for them, each as often
	// as that has been.
	assigned []timed
	// due are bindings without clusters that may get some by what has changed.
	due map[types.NamespacedName]bool
}

// affinityGroup is workloads of a namespace to keep together, or apart.
type affinityGroup struct {
	namespace, name string
	apart           bool
}

// groupMembers are the workloads of a group.
type groupMembers struct {
	size int
	// on says how many of them are on a cluster, or are about to be.
	on map[string]int
	// waiting are the bindings of those that found no clusters, and that were told of
	// nothing since.
	waiting map[types.NamespacedName]bool
}

// workload is where the workload of a binding is.
type workload struct {
	groups []affinityGroup
	// cached says that the cache has shown the binding.
	cached bool
	// seen are its clusters by its binding, and decided those that it was given since:
	// these may not have been written, and are forgotten after a while.
	seen, decided []string
	since         time.Time
}

// timed is when something was decided for a binding.
type timed struct {
	binding types.NamespacedName
	at      time.Time
}

// groupsOf returns the groups of the object of a binding.
func (g *affinityGroups) groupsOf(b workv1alpha2.Binding) []affinityGroup {
	said := b.BindingSpec().WorkloadAffinityGroups
	if said == nil || !g.on {
		return nil
	}
	var all []affinityGroup
	if said.AffinityGroup != "" {
		all = append(all, affinityGroup{namespace: b.GetNamespace(), name: said.AffinityGroup})
	}
	if said.AntiAffinityGroup != "" {
		all = append(all, affinityGroup{namespace: b.GetNamespace(), name: said.AntiAffinityGroup, apart: true})
	}
	return all
}

// observeBinding notes what a binding says, and returns the bindings that have no clusters and
// may get some by what has changed since it was last called.
func (g *affinityGroups) observeBinding(b workv1alpha2.Binding, gone bool, now time.Time) []types.NamespacedName {
	if !g.on {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expireAssigned(now)
	before := g.of[bindingKey(b)]
	is := workload{groups: g.groupsOf(b), cached: true, seen: targetNames(b.BindingSpec().Clusters)}
	if !slices.Equal(is.seen, before.decided) {
		is.decided = before.decided
		is.since = before.since
	}
	if gone {
		is = workload{}
	}
	g.setWorkload(bindingKey(b), is)
	if !before.cached && len(is.seen) == 0 {
		for _, one := range is.groups {
			g.members[one].setWaiting(bindingKey(b), true)
		}
	}
	told := slices.Collect(maps.Keys(g.due))
	g.due = nil
	return told
}

// setWorkload notes where the workload of a binding is. The caller has the lock.
func (g *affinityGroups) setWorkload(key types.NamespacedName, now workload) {
	before := g.of[key]
	for _, one := range now.groups {
		g.enterGroup(one, now)
	}
	for _, one := range before.groups {
		if !slices.Contains(now.groups, one) {
			delete(g.members[one].waiting, key) // its binding says something else, and comes by itself
		}
		g.leaveGroup(one, before)
	}
	if len(now.groups) == 0 {
		delete(g.of, key)
		return
	}
	if g.of == nil {
		g.of = map[types.NamespacedName]workload{}
	}
	g.of[key] = now
}

// enterGroup counts a workload of a group.
func (g *affinityGroups) enterGroup(one affinityGroup, w workload) {
	m := g.members[one]
	if m == nil {
		if g.members == nil {
			g.members = map[affinityGroup]*groupMembers{}
		}
		m = &groupMembers{on: map[string]int{}}
		g.members[one] = m
	}
	m.size++
	before := len(m.on)
	m.countWorkload(w, 1)
	if !one.apart && len(m.on) > before {
		g.wakeWaiting(m)
	}
}

// leaveGroup counts a workload of a group no more.
func (g *affinityGroups) leaveGroup(one affinityGroup, w workload) {
	m := g.members[one]
	m.size--
	before := len(m.on)
	m.countWorkload(w, -1)
	if (one.apart || len(m.on) == 0) && len(m.on) < before {
		g.wakeWaiting(m)
	}
	if m.size == 0 {
		delete(g.members, one)
	}
}

// countWorkload adds a workload to where those of the group are, so many times.
func (m *groupMembers) countWorkload(w workload, times int) {
	for _, cluster := range slices.Concat(w.seen, w.decided) {
		if m.on[cluster] += times; m.on[cluster] == 0 {
			delete(m.on, cluster)
		}
	}
}

// wakeWaiting says that those of a group that wait may find clusters now.
func (g *affinityGroups) wakeWaiting(m *groupMembers) {
	if g.due == nil {
		g.due = map[types.NamespacedName]bool{}
	}
	maps.Copy(g.due, m.waiting)
	m.waiting = nil
}

// expireAssigned forgets what was decided a while ago and is not what bindings say: it was
// not written.
func (g *affinityGroups) expireAssigned(now time.Time) {
	for len(g.assigned) > 0 && now.Sub(g.assigned[0].at) >= assumedMax {
		key := g.assigned[0].binding
		g.assigned = g.assigned[1:]
		is := g.of[key]
		if now.Sub(is.since) < assumedMax {
			continue
		}
		if is.decided = nil; !is.cached {
			is = workload{}
		}
		g.setWorkload(key, is)
	}
}

// decideAmongGroups has a decision made for the object of a binding beside the others of its
// groups, and remembers it at once: the next one sees it before it is written.
func (g *affinityGroups) decideAmongGroups(b workv1alpha2.Binding, now time.Time, decide func(scheduler.Neighbours) binding.SchedulingDecision) binding.SchedulingDecision {
	mine := g.groupsOf(b)
	key := bindingKey(b)
	if len(mine) == 0 {
		return decide(scheduler.Neighbours{})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.expireAssigned(now)
	is := g.of[key]
	decision := g.decideWithout(is, func() binding.SchedulingDecision { return decide(g.neighboursOf(mine)) })
	if !decision.ClustersChosen() && !is.cached {
		return decision // it is decided again when the cache shows it
	}
	is.groups = mine
	if decision.ClustersChosen() {
		is.decided = targetNames(decision.Clusters)
		is.since = now
		g.assigned = append(g.assigned, timed{binding: key, at: now})
	}
	g.setWorkload(key, is)
	for _, one := range mine {
		g.members[one].setWaiting(key, !decision.ClustersChosen())
	}
	return decision
}

// setWaiting notes whether the workload of a binding is without clusters.
func (m *groupMembers) setWaiting(key types.NamespacedName, does bool) {
	if !does {
		delete(m.waiting, key)
		return
	}
	if m.waiting == nil {
		m.waiting = map[types.NamespacedName]bool{}
	}
	m.waiting[key] = true
}

// decideWithout decides while a workload does not count.
func (g *affinityGroups) decideWithout(w workload, decide func() binding.SchedulingDecision) binding.SchedulingDecision {
	count := func(times int) {
		for _, one := range w.groups {
			g.members[one].countWorkload(w, times)
		}
	}
	count(-1)
	defer count(1)
	return decide()
}

// neighboursOf returns where the workloads of groups are, for as long as the caller has the
// lock.
func (g *affinityGroups) neighboursOf(mine []affinityGroup) (beside scheduler.Neighbours) {
	for _, one := range mine {
		switch m := g.members[one]; {
		case m == nil:
		case one.apart:
			beside.Apart = m.on
		default:
			beside.Together = m.on
		}
	}
	return beside
}

func targetNames(clusters []workv1alpha2.TargetCluster) []string {
	names := make([]string, 0, len(clusters))
	for _, target := range clusters {
		names = append(names, target.Name)
	}
	slices.Sort(names)
	return names
}

// ObserveBinding notes where the object of a binding is, or that the binding is gone. It
// returns the bindings that have no clusters and may get some by what has changed since
// the last call: those of workloads to keep together with others, or apart from them.
func (d *Decider) ObserveBinding(b workv1alpha2.Binding, gone bool) []types.NamespacedName {
	return d.groups.observeBinding(b, gone, d.clock.Now())
}
