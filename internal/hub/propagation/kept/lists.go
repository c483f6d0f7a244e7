// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"slices"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/affinity"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// boundList returns the beginning of a list that is longer than it may be, with one element more than that:
// who checks it still sees that it is too long. An element of two bytes of JSON may take a hundred in memory.
func boundList[T any](list []T, most int) []T {
	if len(list) <= most+1 {
		return list
	}
	return slices.Clone(list[:most+1])
}

func boundPlacement(placement *policyv1alpha1.Placement) {
	if placement != nil {
		placement.ClusterTolerations = boundList(placement.ClusterTolerations, affinity.TolerationsMax)
	}
}

func boundSuspension(suspension *policyv1alpha1.Suspension) {
	if suspension != nil && suspension.DispatchingOnClusters != nil {
		suspension.DispatchingOnClusters.ClusterNames = boundList(suspension.DispatchingOnClusters.ClusterNames, claims.SuspendedMax)
	}
}

func boundFailover(failover *policyv1alpha1.FailoverBehavior) {
	for _, state := range claims.StatesPreserved(failover) {
		state.Rules = boundList(state.Rules, claims.PreservedMax)
	}
}

// boundPolicy bounds the lists of a policy that its schema did not bound always.
func boundPolicy(spec *policyv1alpha1.PropagationSpec) {
	boundPlacement(&spec.Placement)
	boundSuspension(spec.Suspension)
	boundFailover(spec.Failover)
}

// boundBinding bounds the lists of a binding that its schema did not bound always.
func boundBinding(spec *workv1alpha2.ResourceBindingSpec) {
	boundPlacement(spec.Placement)
	boundFailover(spec.Failover)
	spec.RequiredBy = references.BoundReferrers(spec.RequiredBy)
	if spec.Suspension != nil {
		boundSuspension(&spec.Suspension.Suspension)
	}
	if needs := spec.ReplicaRequirements; needs != nil && needs.NodeClaim != nil {
		demand.BoundNodeClaim(needs.NodeClaim)
	}
	for i := range spec.Components {
		if needs := spec.Components[i].ReplicaRequirements; needs != nil && needs.NodeClaim != nil {
			demand.BoundNodeClaim(needs.NodeClaim)
		}
	}
}
