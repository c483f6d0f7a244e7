// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"cmp"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
)

// replicaNeeds returns what each replica needs as bindings say it.
func replicaNeeds(needs *interpret.Requirements, namespace string) *workv1alpha2.ReplicaRequirements {
	r := &workv1alpha2.ReplicaRequirements{Namespace: namespace}
	if needs == nil {
		return r
	}
	r.Namespace = cmp.Or(needs.Namespace, namespace)
	r.ResourceRequest, r.PriorityClassName, r.NodeClaim = needs.Requests, needs.PriorityClassName, nodeClaim(needs)
	return r
}

// componentRequirements returns what each replica of a part needs as bindings say
// it, nil if that is nothing.
func componentRequirements(needs *interpret.Requirements) *workv1alpha2.ComponentReplicaRequirements {
	if needs == nil {
		return nil
	}
	return &workv1alpha2.ComponentReplicaRequirements{
		NodeClaim: nodeClaim(needs), ResourceRequest: needs.Requests, PriorityClassName: needs.PriorityClassName,
	}
}

// nodeClaim returns which nodes will do, nil if all do.
func nodeClaim(needs *interpret.Requirements) *workv1alpha2.NodeClaim {
	if needs.HardNodeAffinity == nil && len(needs.NodeSelector) == 0 && len(needs.Tolerations) == 0 {
		return nil
	}
	return &workv1alpha2.NodeClaim{HardNodeAffinity: needs.HardNodeAffinity, NodeSelector: needs.NodeSelector, Tolerations: needs.Tolerations}
}
