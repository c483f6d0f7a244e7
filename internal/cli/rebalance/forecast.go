// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// What becomes of a cluster.
const (
	same    = "unchanged"
	gained  = "gained"
	lost    = "lost"
	changed = "changed"
)

// WorkloadsReport is what becomes of the objects, in the form that scripts read.
type WorkloadsReport struct {
	// Expected says that it is what would become of them, and not what has.
	Expected bool `json:"expected,omitempty"`
	// Rebalancer is the WorkloadRebalancer that asks for it.
	Rebalancer string          `json:"rebalancer,omitempty"`
	Workloads  []WorkloadMoves `json:"workloads"`
	// Unread says what the user may not read.
	Unread []string `json:"unread,omitempty"`
}

// WorkloadMoves is what becomes of an object.
type WorkloadMoves struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Moves is how many replicas go to another cluster.
	Moves    int64           `json:"moves"`
	Clusters []ClusterChange `json:"clusters"`
	// Problem says why no clusters can be chosen.
	Problem string   `json:"problem,omitempty"`
	Notes   []string `json:"notes,omitempty"`

	// hindered says why nothing would be chosen, and remedy what to do about it.
	hindered, remedy string
	scales           bool
}

// ClusterChange is what becomes of an object in a cluster.
type ClusterChange struct {
	Name string `json:"name"`
	// Change is gained, lost, changed or unchanged.
	Change string `json:"change"`
	Before int32  `json:"replicasBefore"`
	After  int32  `json:"replicasAfter"`
}

// forecasts says what would become of objects, one after the other: each sees what
// those before would take of the room of clusters.
type forecasts struct {
	// fleet is nil if it is not known.
	fleet   *view.Fleet
	at      time.Time
	assumed map[string]view.Amounts
}

// forecastWorkload says what would become of an object.
func (f *forecasts) forecastWorkload(w *boundWorkload) WorkloadMoves {
	spec := w.binding.BindingSpec()
	before := w.binding.BindingSpec().Clusters
	told := compareDecisions(w, before, before)
	facts := decision.ScheduleFacts{Binding: w.binding, Asked: true}
	if f.fleet != nil {
		facts.Fleet = *f.fleet
	}
	schedule := decision.DecideSchedule(facts)
	switch told.hindered, told.remedy = scheduleHindrance(schedule.Reason); {
	case told.hindered != "":
		told.Notes = append(told.Notes, "It would not be rebalanced: "+told.hindered+".")
		return told
	case schedule.Code == decision.OtherScheduler, schedule.Code == decision.NoClusters && f.fleet != nil:
		told.Notes = append(told.Notes, schedule.ToSentence())
		return told
	case f.fleet == nil:
		return told
	}
	state := schedule.State
	state.Assumed = f.assumed
	chosen := binding.DecidePlacement(*f.fleet, state.PlacementInput, f.at)
	if chosen.ClustersChosen() {
		f.assumed = state.Footprint().AssumeTargets(f.assumed, before, chosen.Clusters)
		told = compareDecisions(w, before, chosen.Clusters)
	}
	if !chosen.Scheduled {
		told.Problem = fmt.Sprintf("%s (%s)", strings.TrimRight(chosen.Message, "."), chosen.Reason)
	}
	if duplicated(spec.Placement) && spec.Replicas > 0 {
		told.Notes = append(told.Notes, "Each cluster has all replicas: new clusters are used automatically.")
	}
	if groups := spec.WorkloadAffinityGroups; groups != nil {
		told.Notes = append(told.Notes, "It is kept together with other objects, or apart from them, which does not count here.")
	}
	return told
}

// scheduleHindrance says what keeps the hub from choosing clusters when it is asked, "" if
// nothing does, and what to do about it.
func scheduleHindrance(reason decision.Reason) (why, remedy string) {
	switch reason.Code {
	case decision.Follows:
		return reason.ToClause(), "Rebalance these: spec.requiredBy of its binding names them."
	case decision.ScheduleSuspended:
		return reason.ToClause(), "Run this again when it is cleared."
	default:
		return "", ""
	}
}

func duplicated(p *policyv1alpha1.Placement) bool {
	return p == nil || p.ReplicaScheduling == nil || p.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDuplicated
}

// actualMoves says what has become of an object.
func actualMoves(w *boundWorkload, after readableBinding) WorkloadMoves {
	return compareDecisions(w, w.binding.BindingSpec().Clusters, after.BindingSpec().Clusters)
}

// compareDecisions says what is different between two decisions.
func compareDecisions(w *boundWorkload, before, after []workv1alpha2.TargetCluster) WorkloadMoves {
	version, kind := w.kind.ToAPIVersionAndKind()
	told := WorkloadMoves{
		APIVersion: version, Kind: kind, Namespace: w.namespace, Name: w.name, Clusters: []ClusterChange{},
		scales: w.binding.BindingSpec().Replicas > 0,
	}
	was := replicasOf(before)
	is := replicasOf(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := ClusterChange{Name: name, Change: same, Before: was[name], After: is[name]}
		_, had := was[name]
		_, has := is[name]
		switch {
		case !had:
			c.Change = gained
		case !has:
			c.Change = lost
		case c.Before != c.After:
			c.Change = changed
		}
		told.Moves += int64(max(0, c.After-c.Before))
		told.Clusters = append(told.Clusters, c)
	}
	return told
}

func replicasOf(clusters []workv1alpha2.TargetCluster) map[string]int32 {
	replicas := make(map[string]int32, len(clusters))
	for _, target := range clusters {
		replicas[target.Name] = target.Replicas
	}
	return replicas
}
