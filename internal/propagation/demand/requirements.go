// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
)

// claimListMax is how many tolerations, and terms of its node affinity, of a pod template bindings say. No
// cluster is chosen by them.
const claimListMax = 100

// checkNeeds returns what is wrong with replicas that request more resources than bindings say.
func checkNeeds(needs *interpret.Requirements) error {
	if needs == nil || len(needs.Requests) <= view.RequestsMax {
		return nil
	}
	return fmt.Errorf("each replica requests %d resources, and no more than %d are compared with what clusters have: request fewer", len(needs.Requests), view.RequestsMax)
}

// requestsOf returns what each replica requests, but for what is less than nothing.
func requestsOf(needs *interpret.Requirements) corev1.ResourceList {
	negative := func(_ corev1.ResourceName, amount resource.Quantity) bool { return amount.Sign() < 0 }
	requests := maps.Clone(needs.Requests)
	maps.DeleteFunc(requests, negative)
	return requests
}

// replicaNeeds returns what each replica needs as bindings say it.
func replicaNeeds(needs *interpret.Requirements, namespace string) *workv1alpha2.ReplicaRequirements {
	r := &workv1alpha2.ReplicaRequirements{Namespace: namespace}
	if needs == nil {
		return r
	}
	r.Namespace = cmp.Or(needs.Namespace, namespace)
	r.ResourceRequest, r.PriorityClassName, r.NodeClaim = requestsOf(needs), needs.PriorityClassName, nodeClaim(needs)
	return r
}

// componentRequirements returns what each replica of a part needs as bindings say
// it, nil if that is nothing.
func componentRequirements(needs *interpret.Requirements) *workv1alpha2.ComponentReplicaRequirements {
	if needs == nil {
		return nil
	}
	return &workv1alpha2.ComponentReplicaRequirements{
		NodeClaim: nodeClaim(needs), ResourceRequest: requestsOf(needs), PriorityClassName: needs.PriorityClassName,
	}
}

// nodeClaim returns which nodes will do, nil if all do.
func nodeClaim(needs *interpret.Requirements) *workv1alpha2.NodeClaim {
	if needs.HardNodeAffinity == nil && len(needs.NodeSelector) == 0 && len(needs.Tolerations) == 0 {
		return nil
	}
	claim := &workv1alpha2.NodeClaim{HardNodeAffinity: needs.HardNodeAffinity, NodeSelector: needs.NodeSelector, Tolerations: needs.Tolerations}
	BoundNodeClaim(claim)
	return claim
}

// BoundNodeClaim leaves out what bindings do not say of nodes, and nobody keeps: the last of long lists, whose
// elements may take many times the memory that they take as JSON.
func BoundNodeClaim(claim *workv1alpha2.NodeClaim) {
	claim.Tolerations = firstOf(claim.Tolerations)
	if required := claim.HardNodeAffinity; required != nil && len(required.NodeSelectorTerms) > claimListMax {
		claim.HardNodeAffinity = &corev1.NodeSelector{NodeSelectorTerms: firstOf(required.NodeSelectorTerms)}
	}
}

// firstOf returns the beginning of a list, which does not keep the rest in memory.
func firstOf[T any](list []T) []T {
	if len(list) <= claimListMax {
		return list
	}
	return slices.Clone(list[:claimListMax])
}
