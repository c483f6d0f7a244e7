// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"slices"

	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// gracePeriodDefault is for how many seconds objects stay at most in a cluster
// that they are moved away from.
const gracePeriodDefault = 600

// minGroupsDefault is how many groups a spread constraint wants at least.
const minGroupsDefault = 1

// serviceImport is the kind of services of other clusters, which need what is
// derived from them.
const serviceImport = "ServiceImport"

// completePropagation fills in what a policy leaves open. The namespace is that of
// the policy, empty for one that is for all.
func completePropagation(spec *policyv1alpha1.PropagationSpec, namespace string) {
	completeSelectors(spec.ResourceSelectors, namespace)
	if slices.ContainsFunc(spec.ResourceSelectors, func(s policyv1alpha1.ResourceSelector) bool { return s.Kind == serviceImport }) {
		spec.PropagateDeps = true
	}
	spec.Placement.SpreadConstraints = completeSpread(spec.Placement.SpreadConstraints)
	if s := spec.Placement.ReplicaScheduling; s != nil && s.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided && s.ReplicaDivisionPreference == "" {
		s.ReplicaDivisionPreference = policyv1alpha1.ReplicaDivisionPreferenceWeighted
	}
	if spec.Failover == nil || spec.Failover.Application == nil {
		return
	}
	if a := spec.Failover.Application; gracefully(a.PurgeMode) && a.GracePeriodSeconds == nil {
		a.GracePeriodSeconds = ptr.To[int32](gracePeriodDefault)
	}
}

// completeSelectors lets selectors of a policy in a namespace select there.
func completeSelectors(selectors []policyv1alpha1.ResourceSelector, namespace string) {
	for i := range selectors {
		if namespace != "" && selectors[i].Namespace == "" {
			selectors[i].Namespace = namespace
		}
	}
}

// completeSpread makes constraints that name nothing count clusters, and adds how
// many clusters are chosen where only their groups are counted.
func completeSpread(constraints []policyv1alpha1.SpreadConstraint) []policyv1alpha1.SpreadConstraint {
	byField, byCluster := false, false
	for i := range constraints {
		c := &constraints[i]
		if c.SpreadByField == "" && c.SpreadByLabel == "" {
			c.SpreadByField = policyv1alpha1.SpreadByCluster
		}
		if c.MinGroups == 0 {
			c.MinGroups = minGroupsDefault
		}
		byField = byField || c.SpreadByField != ""
		byCluster = byCluster || c.SpreadByField == policyv1alpha1.SpreadByCluster
	}
	if byField && !byCluster {
		constraints = append(constraints, policyv1alpha1.SpreadConstraint{SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: minGroupsDefault})
	}
	return constraints
}

// gracefully tells whether objects are created elsewhere before they are removed,
// by either name of the mode.
func gracefully(mode policyv1alpha1.PurgeMode) bool {
	return mode == policyv1alpha1.PurgeModeGracefully || mode == policyv1alpha1.PurgeModeGraciously
}
