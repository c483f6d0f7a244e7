// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/scheduling/division"
)

// divideCompletions returns how many completions of a Job a cluster gets, as its share
// of the replicas is; false for objects without completions, and if each cluster
// gets all of them.
func divideCompletions(
	b workv1alpha2.Binding, chain interpret.Chain, object *unstructured.Unstructured, targets []workv1alpha2.TargetCluster,
) (shares map[string]int32, divided bool) {
	placement := b.BindingSpec().Placement
	all, has := chain.GetCompletions(object)
	if !has || placement == nil || placement.ReplicaScheduling == nil ||
		placement.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDivided {
		return nil, false
	}
	var parties []division.Party
	for _, target := range targets {
		parties = append(parties, division.Party{Cluster: target.Name, Weight: int64(target.Replicas)})
	}
	shares = map[string]int32{}
	for _, each := range division.Webster(int64(all), parties, division.TieBreakOf(string(b.BindingSpec().Resource.UID))) {
		shares[each.Cluster] = each.Replicas
	}
	return shares, true
}
