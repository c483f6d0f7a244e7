// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/division"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
	"github.com/capstan-io/capstan/internal/scheduling/selection"
)

// messageScheduled is the message of a decision that was made. Clients match it.
const messageScheduled = "Binding has been scheduled successfully."

const (
	// reasonsMax is how many reasons a message lists, and reasonLengthMax how long
	// each of them is.
	reasonsMax, reasonLengthMax = 5, 256
)

// PlacementInput is the object that is to be placed, and what was decided before.
type PlacementInput struct {
	// Placement is that of Decide. Whoever has a CompiledPlacement need not set it.
	Placement *policyv1alpha1.Placement
	Resource  workv1alpha2.ObjectReference
	// Workload says that the kind of the object has replicas.
	Workload bool
	// Replicas is how many there are to be, and Requirements what each needs.
	Replicas     int32
	Requirements *workv1alpha2.ReplicaRequirements
	// Components are the parts of an object with several pod templates. It has no
	// Replicas then: it is placed as a whole.
	Components []workv1alpha2.Component
	// Partial places as many replicas as clusters have room for, if that is not all.
	Partial bool
	// Previous is what was decided before, and ObservedAffinity the group of
	// clusterAffinities that it is from. Without, Decide begins with the first group.
	Previous         []workv1alpha2.TargetCluster
	ObservedAffinity string
	// Fresh says that the user asked to decide anew: from the first group on, and
	// with replicas that may move.
	Fresh bool
	// Evicting are clusters that the object is being evicted from.
	Evicting []string
	// UID is that of the object. It decides between clusters that deserve a replica
	// alike.
	UID types.UID
	// Assumed is what was assigned to clusters lately, and is not in their reports
	// yet. See Footprint.
	Assumed map[string]view.Amounts
	// Neighbours are the clusters of the workloads that it is kept together with, or
	// apart from.
	Neighbours scheduler.Neighbours

	counted *countedRoom // by CountRoom
}

// SchedulingDecision is what was decided. It holds on to the fleet for its verdicts, so
// whoever keeps what was decided keeps the exported fields only.
type SchedulingDecision struct {
	// Clusters are those to send the object to, in the order of names. If nothing
	// could be decided, they are the previous ones, and none if no cluster may be
	// chosen.
	Clusters []workv1alpha2.TargetCluster
	// Affinity is the name of the group of clusterAffinities that they are from.
	Affinity string
	// Scheduled, Reason and Message are for condition Scheduled.
	Scheduled       bool
	Reason, Message string
	// Partial says that Clusters have been chosen, for fewer replicas than there are
	// to be: it is not Scheduled.
	Partial bool

	round *attempt
}

// ClustersChosen reports whether clusters have been chosen, be it for some replicas only.
func (d SchedulingDecision) ClustersChosen() bool { return d.Scheduled || d.Partial }

// attempt is what is known of the clusters while a group is tried.
type attempt struct {
	*CompiledPlacement

	in     PlacementInput
	fleet  view.Fleet
	group  *affinityGroup
	result scheduler.ScheduleResult
	// eligible are the places in the fleet of the clusters that may be chosen.
	eligible []int
	// selected are the places in the fleet of the clusters that the spread
	// constraints allow; nil if there are too few.
	selected []int
	// kept says that the previous decision is still right.
	kept bool
}

// DecidePlacement reads the Placement of the input and decides. Whoever decides often
// compiles it once.
func DecidePlacement(fleet view.Fleet, in PlacementInput, now time.Time) SchedulingDecision {
	compiled, problems := CompilePlacement(in.Placement)
	if problems = append(problems, in.CheckRequests()...); len(problems) > 0 {
		return SchedulingDecision{
			Clusters: in.Previous, Affinity: in.ObservedAffinity,
			Reason: workv1alpha2.BindingReasonSchedulerError, Message: problems.ToAggregate().Error(),
		}
	}
	return compiled.DecideClusters(fleet, in, now)
}

// DecideClusters chooses clusters for an object, and divides its replicas among them. It
// tries the groups of clusterAffinities from the observed one on; if none will
// do, the first of these counts that has room for some replicas, if that is enough,
// or else the decision says why the first does not.
func (c CompiledPlacement) DecideClusters(fleet view.Fleet, in PlacementInput, now time.Time) SchedulingDecision {
	if in.counted == nil {
		in = c.CountRoom(fleet, in)
	}
	in.counted.available = map[string]int32{}
	var failed, partial SchedulingDecision
	first := c.firstGroupIndex(in.ObservedAffinity, in.Fresh)
	for n := first; n < len(c.groups); n++ {
		decision := c.tryGroup(&c.groups[n], fleet, in, now)
		if decision.Scheduled {
			return decision
		}
		if n == first {
			failed = decision
		}
		if decision.Partial && !partial.Partial {
			partial = decision
		}
	}
	if partial.Partial {
		return partial
	}
	failed.Affinity = in.ObservedAffinity
	return failed
}

// tryGroup decides for the clusters of one group.
func (c *CompiledPlacement) tryGroup(g *affinityGroup, fleet view.Fleet, in PlacementInput, now time.Time) SchedulingDecision {
	a := &attempt{CompiledPlacement: c, in: in, fleet: fleet, group: g}
	previous := make([]string, 0, len(in.Previous))
	for _, target := range in.Previous {
		previous = append(previous, target.Name)
	}
	request := g.request.ForBindingObject(in.Resource.APIVersion, in.Resource.Kind, in.counted.evicting).WithNeighbours(in.Neighbours)
	a.result = scheduler.ScheduleClusters(fleet, request, previous, now)
	if a.result.EligibleCount() == 0 {
		return SchedulingDecision{Reason: workv1alpha2.BindingReasonNoClusterFit, Message: noneAvailable(fleet, a.result), round: a}
	}
	clusters, err := a.assignClusters()
	if err != nil && len(clusters) > 0 {
		return SchedulingDecision{
			Clusters: clusters, Affinity: g.name, Partial: true, Reason: reasonOf(err), Message: partialMessage(placedReplicas(clusters), in.Replicas), round: a,
		}
	}
	if err != nil {
		return SchedulingDecision{Clusters: in.Previous, Reason: reasonOf(err), Message: err.Error(), round: a}
	}
	return SchedulingDecision{
		Clusters: clusters, Affinity: g.name, Scheduled: true,
		Reason: workv1alpha2.BindingReasonSuccess, Message: messageScheduled, round: a,
	}
}

// reasonOf returns the reason of a decision that could not be made.
func reasonOf(err error) string {
	_, full := errors.AsType[*division.NoRoomError](err)
	_, noneFull := errors.AsType[*noRoomForAllError](err)
	if full || noneFull {
		return workv1alpha2.BindingReasonUnschedulable
	}
	return workv1alpha2.BindingReasonSchedulerError
}

// partialMessage returns why not all replicas are placed. It does not say how much room
// there was: who decides again with what was decided says the same.
func partialMessage(placed int64, wanted int32) string {
	return fmt.Sprintf("%d of %d replicas are placed, and %d wait: the clusters that may be chosen have no room for more", placed, wanted, int64(wanted)-placed)
}

// noneAvailable returns why no cluster may be chosen.
func noneAvailable(fleet view.Fleet, result scheduler.ScheduleResult) string {
	text := fmt.Sprintf("0/%d clusters are available", fleet.Len())
	for n, sum := range result.RefusalCounts() {
		if n == reasonsMax {
			text += "; others for other reasons"
			break
		}
		reason := sum.Reason
		if len(reason) > reasonLengthMax {
			reason = strings.ToValidUTF8(reason[:reasonLengthMax], "") + "..."
		}
		text += fmt.Sprintf("; %d: %s", sum.Clusters, reason)
	}
	return text
}

// scalesReplicas reports whether there are replicas to be placed.
func (a *attempt) scalesReplicas() bool {
	return a.in.Workload && a.in.Replicas > 0 && !a.in.placedAsWhole()
}

// dependsOnRoom reports whether it matters how much room clusters have.
func (a *attempt) dependsOnRoom() bool {
	return a.byRoom() && (a.scalesReplicas() || a.in.placedAsWhole())
}

// assignClusters selects clusters and divides the replicas among them.
func (a *attempt) assignClusters() ([]workv1alpha2.TargetCluster, error) {
	if a.in.placedAsWhole() {
		return wholePlacement{a: a}.assignWhole()
	}
	candidates, shares := a.buildCandidates()
	if a.dependsOnRoom() && !a.in.Fresh && a.previousDecisionHolds(candidates) {
		a.kept = true
		return targetsFromShares(a.previousShares()), nil
	}
	wish := selection.ClusterWish{
		Clusters: a.clusters, Groups: a.spread, Replicas: int64(a.in.Replicas), ByRoom: a.dependsOnRoom(), Partial: a.in.Partial, Tries: len(a.groups),
	}
	chosen, err := wish.SelectClusters(candidates)
	if err != nil {
		return nil, err
	}
	picked := make([]division.ReplicaCandidate, 0, len(chosen))
	for _, n := range chosen {
		a.selected = append(a.selected, a.eligible[n])
		picked = append(picked, shares[n])
	}
	if !a.scalesReplicas() {
		targets := make([]workv1alpha2.TargetCluster, 0, len(picked))
		for _, candidate := range picked {
			targets = append(targets, workv1alpha2.TargetCluster{Name: candidate.Cluster})
		}
		return targets, nil
	}
	divided, err := division.ReplicaWish{
		Strategy: a.strategy, Replicas: a.in.Replicas, Fresh: a.in.Fresh, Partial: a.in.Partial, Tie: division.TieBreakOf(string(a.in.UID)),
	}.DivideReplicas(picked, a.previousShares())
	return targetsFromShares(divided), err //nolint:wrapcheck // its text is the message
}

// buildCandidates returns the clusters that may be chosen, as those who select and as
// those who divide see them, in the order of names. Where room does not matter
// only clusters of the first tier that has some are chosen: the others are for
// what these have no room for.
func (a *attempt) buildCandidates() ([]selection.ClusterCandidate, []division.ReplicaCandidate) {
	has := map[string]int64{}
	for _, target := range a.in.Previous {
		has[target.Name] += int64(target.Replicas)
	}
	fills := a.dependsOnRoom()
	tier := a.firstTier()
	forSelection := make([]selection.ClusterCandidate, 0, a.result.EligibleCount())
	forDivision := make([]division.ReplicaCandidate, 0, a.result.EligibleCount())
	for i, score := range a.result.ScoredClusters() {
		cluster := a.fleet.ClusterAt(i)
		s := selection.ClusterCandidate{Name: cluster.Name, Score: score, Tier: a.group.tierOfCluster(cluster)}
		if !fills && s.Tier != tier {
			continue
		}
		d := division.ReplicaCandidate{Cluster: cluster.Name, Tier: s.Tier}
		for _, topology := range a.topologies {
			s.Groups = append(s.Groups, topology.GroupsOfCluster(cluster))
		}
		switch {
		case fills:
			d.Available = a.availableReplicas(cluster)
			s.Room = int64(d.Available) + has[cluster.Name]
			if d.Available < 0 {
				s.Room = max(0, s.Room)
			}
		case len(a.weights) > 0:
			d.Weight = a.weightOf(cluster)
		}
		a.eligible = append(a.eligible, i)
		forSelection, forDivision = append(forSelection, s), append(forDivision, d)
	}
	return forSelection, forDivision
}

// firstTier returns the first tier that has clusters which may be chosen.
func (a *attempt) firstTier() int {
	first := len(a.group.tiers)
	for i := range a.result.ScoredClusters() {
		if first = min(first, a.group.tierOfCluster(a.fleet.ClusterAt(i))); first == 0 {
			break
		}
	}
	return first
}

// availableReplicas returns how many further replicas a cluster has room for: all, if
// that is not known. If they are divided anew, and the cluster has more than it has
// room for, it is less than 0: those that wait there for a node could run elsewhere.
// It is the same in all groups.
func (a *attempt) availableReplicas(cluster *view.Cluster) int32 {
	available, known := a.in.counted.available[cluster.Name]
	if !known {
		available = a.countAvailable(cluster)
		a.in.counted.available[cluster.Name] = available
	}
	return available
}

func (a *attempt) countAvailable(cluster *view.Cluster) int32 {
	if a.in.placedAsWhole() {
		if sets, known := (wholePlacement{a: a}).fittingSets(cluster); known {
			return sets
		}
		return 1
	}
	available, known := a.in.counted.request.FittingReplicas(cluster.Room, a.in.Assumed[cluster.Name])
	switch {
	case !known:
		return a.in.Replicas
	case available == 0 && a.in.Fresh:
		return -a.in.counted.request.Overdrawn(cluster.Room, a.in.Assumed[cluster.Name])
	default:
		return available
	}
}

// previousDecisionHolds reports whether the previous decision is still right: its clusters may
// be chosen, have all replicas, and are not too many for the spread constraints.
// If so nothing moves, although other clusters may be better now.
func (a *attempt) previousDecisionHolds(candidates []selection.ClusterCandidate) bool {
	previous := a.previousShares()
	var chosen []selection.ClusterCandidate
	var sum int64
	for _, share := range previous {
		n, found := slices.BinarySearchFunc(candidates, share.Cluster, func(c selection.ClusterCandidate, name string) int { return strings.Compare(c.Name, name) })
		if !found {
			return false
		}
		chosen = append(chosen, candidates[n])
		sum += int64(share.Replicas)
	}
	wish := selection.ClusterWish{Clusters: a.clusters, Groups: a.spread}
	return sum == int64(a.in.Replicas) && wish.AllowsChosen(chosen)
}

// previousShares returns the clusters that have replicas, in the order of names.
func (a *attempt) previousShares() []division.ReplicaShare {
	var shares []division.ReplicaShare
	for _, target := range a.in.Previous {
		if target.Replicas > 0 {
			shares = append(shares, division.ReplicaShare{Cluster: target.Name, Replicas: target.Replicas})
		}
	}
	slices.SortFunc(shares, func(a, b division.ReplicaShare) int { return strings.Compare(a.Cluster, b.Cluster) })
	return shares
}

func targetsFromShares(shares []division.ReplicaShare) []workv1alpha2.TargetCluster {
	targets := make([]workv1alpha2.TargetCluster, 0, len(shares))
	for _, share := range shares {
		targets = append(targets, workv1alpha2.TargetCluster{Name: share.Cluster, Replicas: share.Replicas})
	}
	return targets
}

// placedReplicas returns how many replicas the clusters have together.
func placedReplicas(clusters []workv1alpha2.TargetCluster) int64 {
	var sum int64
	for _, target := range clusters {
		sum += int64(target.Replicas)
	}
	return sum
}
