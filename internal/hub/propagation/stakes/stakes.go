// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stakes finds the bindings that a change of a cluster can matter to
// without a look at each. Bindings with the same placement and the same at stake
// are looked at as one, beside those that have the cluster.
package stakes

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// Group is what bindings have in common that are affected alike by a cluster that
// was chosen for them, and alike by one that was not.
type Group struct {
	// Placement is the one that was applied, as JSON: one that has changed since is
	// about to be.
	Placement string
	Stake     binding.ChangeSensitivity
}

// Binding is a binding that a client knows.
type Binding interface {
	workv1alpha2.Binding
	client.Object
}

// Stakes are those of all bindings. The zero value has none. It is safe for
// concurrent use.
type Stakes struct {
	mu       sync.Mutex
	bindings map[types.NamespacedName]bindingEntry
	groups   map[Group]*groupMembers
	// at has the bindings by the clusters that their objects are sent to, of clusters that
	// have changed: whoever writes bindings can name thousands that do not exist. The value
	// says whether the cluster was chosen for the object, or is that of another which needs
	// it.
	at map[string]map[types.NamespacedName]bool
}

// groupMembers are the bindings of a group.
type groupMembers struct {
	of    Group
	names map[types.NamespacedName]bool
}

// bindingEntry is one binding.
type bindingEntry struct {
	group *groupMembers // nil if its clusters are not ours to choose
	sent  []sentCluster // sorted
}

// sentCluster is a cluster that an object is sent to.
type sentCluster struct {
	cluster string
	chosen  bool // or else it is that of another object, which needs this one
}

// findCluster returns the cluster of the name, if the object is sent there.
func (e bindingEntry) findCluster(cluster string) (to sentCluster, is bool) {
	place, is := slices.BinarySearchFunc(e.sent, cluster, func(s sentCluster, name string) int { return strings.Compare(s.cluster, name) })
	if !is {
		return sentCluster{}, false
	}
	return e.sent[place], true
}

// fewClusters is from which part of the clusters of a binding on, one of so many, it is quicker to look
// at all of these than to find each.
const fewClusters = 16

// Set notes what a binding is now.
func (s *Stakes) Set(b Binding) {
	name := client.ObjectKeyFromObject(b)
	spec := b.BindingSpec()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bindings == nil {
		s.bindings = map[types.NamespacedName]bindingEntry{}
		s.groups = map[Group]*groupMembers{}
		s.at = map[string]map[types.NamespacedName]bool{}
	}
	s.removeBinding(name)
	var e bindingEntry
	if binding.IsScheduledByUs(b) {
		state := binding.StateOf(b)
		e.group = s.ensureGroup(Group{Placement: state.AppliedPlacement, Stake: state.ChangeSensitivity()})
		e.group.names[name] = true
	}
	chosen := make(map[string]bool, len(spec.Clusters))
	for _, target := range spec.Clusters {
		chosen[target.Name] = true
	}
	targets := deliver.BindingTargets(spec)
	e.sent = make([]sentCluster, 0, len(targets))
	for _, target := range targets {
		e.sent = append(e.sent, sentCluster{target.Name, chosen[target.Name]})
		if at, asked := s.at[target.Name]; asked {
			at[name] = chosen[target.Name]
		}
	}
	s.bindings[name] = e
}

func (s *Stakes) ensureGroup(of Group) *groupMembers {
	if s.groups[of] == nil {
		s.groups[of] = &groupMembers{of: of, names: map[types.NamespacedName]bool{}}
	}
	return s.groups[of]
}

// ForgetBinding forgets a binding that is gone.
func (s *Stakes) ForgetBinding(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeBinding(name)
}

// removeBinding forgets a binding. The caller has the lock.
func (s *Stakes) removeBinding(name types.NamespacedName) {
	e := s.bindings[name]
	delete(s.bindings, name)
	if e.group != nil {
		if delete(e.group.names, name); len(e.group.names) == 0 {
			delete(s.groups, e.group.of)
		}
	}
	for _, to := range e.sent {
		delete(s.at[to.cluster], name)
	}
}

// FollowClusters has the bindings found whose objects are sent to clusters, with one look at all bindings
// for those clusters that nobody has asked about: each of a large fleet changes soon after the start.
func (s *Stakes) FollowClusters(clusters []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followClusters(clusters)
}

func (s *Stakes) followClusters(clusters []string) {
	added := map[string]map[types.NamespacedName]bool{}
	for _, cluster := range clusters {
		if _, asked := s.at[cluster]; !asked && s.at != nil {
			added[cluster] = map[types.NamespacedName]bool{}
		}
	}
	if len(added) == 0 {
		return
	}
	for name, e := range s.bindings {
		if len(added)*fewClusters < len(e.sent) {
			for cluster, at := range added {
				if to, is := e.findCluster(cluster); is {
					at[name] = to.chosen
				}
			}
			continue
		}
		for _, to := range e.sent {
			if at, is := added[to.cluster]; is {
				at[name] = to.chosen
			}
		}
	}
	maps.Copy(s.at, added)
}

// bindingsSentTo returns the bindings whose objects are sent to a cluster. It looks at all of them
// the first time, and follows them from then on. The caller has the lock.
func (s *Stakes) bindingsSentTo(cluster string) map[types.NamespacedName]bool {
	if _, asked := s.at[cluster]; !asked {
		s.followClusters([]string{cluster})
	}
	return s.at[cluster]
}

// ForgetCluster forgets a cluster that is gone.
func (s *Stakes) ForgetCluster(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, cluster)
}

// ListGroups returns the groups that there are. They do not change.
func (s *Stakes) ListGroups() []*Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Group, 0, len(s.groups))
	for _, group := range s.groups {
		all = append(all, &group.of)
	}
	return all
}

// AffectedBindings returns the bindings that a change of a cluster can matter to: all whose
// objects are sent there, if all is true, and those of the groups of which affects
// says so. It is asked once about the bindings of a group that the cluster was
// chosen for, and once about the others, while others may note what bindings are.
// Those of a group that comes meanwhile are affected.
func (s *Stakes) AffectedBindings(cluster string, all bool, affects func(of *Group, target bool) bool) []types.NamespacedName {
	chosen, others := s.groupsToAsk(cluster, all)
	for group := range chosen {
		chosen[group] = affects(&group.of, true)
	}
	for group := range others {
		others[group] = affects(&group.of, false)
	}
	return s.affectedBindings(cluster, all, chosen, others)
}

// groupAnswers say of groups whether their bindings are affected.
type groupAnswers map[*groupMembers]bool

// deniesGroup reports whether the bindings of a group are not affected.
func (a groupAnswers) deniesGroup(group *groupMembers) bool {
	is, asked := a[group]
	return asked && !is
}

// groupsToAsk returns the groups to ask about: those that have bindings which the cluster was
// chosen for, and all.
func (s *Stakes) groupsToAsk(cluster string, all bool) (chosen, others groupAnswers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen = groupAnswers{}
	for name, is := range s.bindingsSentTo(cluster) {
		if group := s.bindings[name].group; is && !all && group != nil {
			chosen[group] = false
		}
	}
	others = make(groupAnswers, len(s.groups))
	for _, group := range s.groups {
		others[group] = false
	}
	return chosen, others
}

func (s *Stakes) affectedBindings(cluster string, all bool, chosen, others groupAnswers) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var affected []types.NamespacedName
	at := s.bindingsSentTo(cluster)
	for name, is := range at {
		group := s.bindings[name].group
		if all || is && group != nil && !chosen.deniesGroup(group) {
			affected = append(affected, name)
		}
	}
	for _, group := range s.groups {
		if others.deniesGroup(group) {
			continue
		}
		for name := range group.names {
			if is, sent := at[name]; !is && (!sent || !all) {
				affected = append(affected, name)
			}
		}
	}
	return affected
}
