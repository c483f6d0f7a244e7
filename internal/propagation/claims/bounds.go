// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

const (
	// SuspendedMax is how many clusters a policy suspends by their names.
	SuspendedMax = 1000
	// PreservedMax is how many parts of a status a policy takes along.
	PreservedMax = 100
	// copiedBytesMax is how long that of a policy is, as JSON, which is copied into the binding of each
	// object. All clusters of a large fleet by their names take as much.
	copiedBytesMax = 128 << 10
)

// CheckCopies returns what is wrong with a policy of which too much would be copied into the binding of each
// object: it is not applied. Path is that of its spec.
func CheckCopies(spec *policyv1alpha1.PropagationSpec, path *field.Path) field.ErrorList {
	if s := spec.Suspension; s != nil && s.DispatchingOnClusters != nil && len(s.DispatchingOnClusters.ClusterNames) > SuspendedMax {
		names := path.Child("suspension", "dispatchingOnClusters", "clusterNames")
		return field.ErrorList{field.TooMany(names, len(s.DispatchingOnClusters.ClusterNames), SuspendedMax)}
	}
	for _, state := range StatesPreserved(spec.Failover) {
		if len(state.Rules) > PreservedMax {
			return field.ErrorList{field.TooMany(path.Child("failover"), len(state.Rules), PreservedMax)}
		}
	}
	copied := policyv1alpha1.PropagationSpec{Placement: spec.Placement, Failover: spec.Failover, Suspension: spec.Suspension, SchedulerName: spec.SchedulerName}
	text, err := json.Marshal(copied)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	if len(text) <= copiedBytesMax {
		return nil
	}
	mistake := field.TooLong(path, "", copiedBytesMax) // the message repeats nothing
	mistake.Detail += fmt.Sprintf(": placement, failover and suspension take %d bytes, and are copied into the binding of each object; select clusters by labels instead of names", len(text))
	return field.ErrorList{mistake}
}

// StatesPreserved returns what a policy says about parts of the status that are taken along.
func StatesPreserved(failover *policyv1alpha1.FailoverBehavior) []*policyv1alpha1.StatePreservation {
	var all []*policyv1alpha1.StatePreservation
	if failover == nil {
		return nil
	}
	if a := failover.Application; a != nil && a.StatePreservation != nil {
		all = append(all, a.StatePreservation)
	}
	if c := failover.Cluster; c != nil && c.StatePreservation != nil {
		all = append(all, c.StatePreservation)
	}
	return all
}
