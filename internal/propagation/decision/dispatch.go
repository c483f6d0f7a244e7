// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"k8s.io/apimachinery/pkg/util/sets"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// DispatchDecision says which clusters get no changes for now.
type DispatchDecision struct {
	Reason
	// Said says that the policy says anything about it: or else works stay as somebody
	// suspended them.
	Said     bool
	clusters sets.Set[string]
}

// DecideDispatch decides which clusters of a binding get changes: all, if the code is Dispatched,
// or none or not all, if it is DispatchSuspended or ClustersSuspended. Beside names of
// clusters, a dispatching that is false says nothing.
func DecideDispatch(spec *workv1alpha2.ResourceBindingSpec) DispatchDecision {
	d := DispatchDecision{Reason: Reason{Code: Dispatched}}
	switch s := spec.Suspension; {
	case s == nil:
		return d
	case s.Dispatching != nil && *s.Dispatching:
		d.Code = DispatchSuspended
	case s.DispatchingOnClusters != nil && len(s.DispatchingOnClusters.ClusterNames) > 0:
		d.clusters = sets.New(s.DispatchingOnClusters.ClusterNames...)
		d.Reason = Reason{Code: ClustersSuspended, Detail: JoinNames(sets.List(d.clusters))}
	}
	d.Said = spec.Suspension.Dispatching != nil || spec.Suspension.DispatchingOnClusters != nil
	return d
}

// SuspendsCluster reports whether a cluster gets no changes.
func (d DispatchDecision) SuspendsCluster(name string) bool {
	return d.Code == DispatchSuspended || d.clusters.Has(name)
}
