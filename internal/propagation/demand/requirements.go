// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
)

// requirements returns what each replica needs as bindings say it.
func requirements(needs *interpret.Requirements, namespace string) *workv1alpha2.ReplicaRequirements {
	r := &workv1alpha2.ReplicaRequirements{Namespace: namespace}
	if needs == nil {
		return r
	}
	r.ResourceRequest, r.PriorityClassName = needs.Requests, needs.PriorityClassName
	if needs.HardNodeAffinity != nil || len(needs.NodeSelector) > 0 || len(needs.Tolerations) > 0 {
		r.NodeClaim = &workv1alpha2.NodeClaim{
			HardNodeAffinity: needs.HardNodeAffinity, NodeSelector: needs.NodeSelector, Tolerations: needs.Tolerations,
		}
	}
	return r
}
