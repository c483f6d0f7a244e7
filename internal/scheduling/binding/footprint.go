// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// Footprint is what replicas of an object take of a cluster.
type Footprint struct {
	replica view.Amounts
	parts   []partFootprint
}

// partFootprint is what a replica of a part takes.
type partFootprint struct {
	name    string
	replica view.Amounts
}

// Footprint returns what the replicas of the object take.
func (in PlacementInput) Footprint() Footprint {
	var f Footprint
	if in.Requirements != nil {
		f.replica = podAmounts(in.Requirements.ResourceRequest)
	} else {
		f.replica = podAmounts(nil)
	}
	for _, part := range in.Components {
		f.parts = append(f.parts, partFootprint{name: part.Name, replica: podAmounts(requestedResources(part))})
	}
	return f
}

// podAmounts returns what a pod takes, as which it counts, too.
func podAmounts(list corev1.ResourceList) view.Amounts {
	amounts := view.AmountsOf(list)
	amounts[corev1.ResourcePods] = 1000
	return amounts
}

// AdditionalAmounts returns what an object takes more of a cluster than it did, to be assumed
// until the cluster reports it; empty if that is nothing. Less than no replicas are none:
// a binding can say any number.
func (f Footprint) AdditionalAmounts(now, before workv1alpha2.TargetCluster) view.Amounts {
	taken := view.Amounts{}
	add := func(now, before int32, replica view.Amounts) {
		replicas := int64(max(0, now)) - int64(max(0, before))
		if replicas <= 0 {
			return
		}
		for name, amount := range replica {
			taken[name] = view.AddAmounts(taken[name], view.MultiplyAmount(amount, replicas))
		}
	}
	add(now.Replicas, before.Replicas, f.replica)
	is := replicasOf(now.Components)
	was := replicasOf(before.Components)
	for _, part := range f.parts {
		add(is[part.name], was[part.name], part.replica)
	}
	return taken
}

// AssumeTargets adds to what is assumed of clusters what an object takes more of them than it
// did, for the decisions that come after. It returns what is assumed then.
func (f Footprint) AssumeTargets(assumed map[string]view.Amounts, before, after []workv1alpha2.TargetCluster) map[string]view.Amounts {
	had := map[string]workv1alpha2.TargetCluster{}
	for _, target := range before {
		had[target.Name] = target
	}
	if assumed == nil {
		assumed = map[string]view.Amounts{}
	}
	for _, target := range after {
		for name, amount := range f.AdditionalAmounts(target, had[target.Name]) {
			if assumed[target.Name] == nil {
				assumed[target.Name] = view.Amounts{}
			}
			assumed[target.Name][name] = view.AddAmounts(assumed[target.Name][name], amount)
		}
	}
	return assumed
}
