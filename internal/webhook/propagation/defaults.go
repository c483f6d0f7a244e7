// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"slices"
	"strconv"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/webhook/patch"
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
func completePropagation(spec *policyv1alpha1.PropagationSpec, namespace string, changes *patch.JSONPatch) {
	completeSelectors(spec.ResourceSelectors, namespace, changes)
	imports := slices.ContainsFunc(spec.ResourceSelectors, func(s policyv1alpha1.ResourceSelector) bool { return s.Kind == serviceImport })
	if imports && !spec.PropagateDeps {
		changes.SetField(true, "spec", "propagateDeps")
	}
	completeSpread(spec.Placement.SpreadConstraints, changes)
	if s := spec.Placement.ReplicaScheduling; s != nil && s.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDivided && s.ReplicaDivisionPreference == "" {
		changes.SetField(policyv1alpha1.ReplicaDivisionPreferenceWeighted, "spec", "placement", "replicaScheduling", "replicaDivisionPreference")
	}
	if spec.Failover == nil || spec.Failover.Application == nil {
		return
	}
	if a := spec.Failover.Application; isGracefulPurge(a.PurgeMode) && a.GracePeriodSeconds == nil {
		changes.SetField(gracePeriodDefault, "spec", "failover", "application", "gracePeriodSeconds")
	}
}

// completeSelectors lets selectors of a policy in a namespace select there.
func completeSelectors(selectors []policyv1alpha1.ResourceSelector, namespace string, changes *patch.JSONPatch) {
	for i := range selectors {
		if namespace != "" && selectors[i].Namespace == "" {
			changes.SetField(namespace, "spec", "resourceSelectors", strconv.Itoa(i), "namespace")
		}
	}
}

// completeSpread makes constraints that name nothing count clusters, and adds how
// many clusters are chosen where only their groups are counted.
func completeSpread(constraints []policyv1alpha1.SpreadConstraint, changes *patch.JSONPatch) {
	byField := false
	byCluster := false
	for i := range constraints {
		c := constraints[i]
		at := strconv.Itoa(i)
		if c.SpreadByField == "" && c.SpreadByLabel == "" {
			c.SpreadByField = policyv1alpha1.SpreadByCluster
			changes.SetField(c.SpreadByField, "spec", "placement", "spreadConstraints", at, "spreadByField")
		}
		if c.MinGroups == 0 {
			changes.SetField(minGroupsDefault, "spec", "placement", "spreadConstraints", at, "minGroups")
		}
		byField = byField || c.SpreadByField != ""
		byCluster = byCluster || c.SpreadByField == policyv1alpha1.SpreadByCluster
	}
	if byField && !byCluster {
		clusters := policyv1alpha1.SpreadConstraint{SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: minGroupsDefault}
		changes.AppendItem(clusters, "spec", "placement", "spreadConstraints")
	}
}

// isGracefulPurge reports whether objects are created elsewhere before they are removed,
// by either name of the mode.
func isGracefulPurge(mode policyv1alpha1.PurgeMode) bool {
	return mode == policyv1alpha1.PurgeModeGracefully || mode == policyv1alpha1.PurgeModeGraciously
}
