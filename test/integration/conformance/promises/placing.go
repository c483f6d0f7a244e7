// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func placing() []TestCase {
	return []TestCase{
		{Name: "a Placement chooses the cluster by a claim", Run: placedByClaim},
		{Name: "a Placement chooses the cluster by a label, and drops it with the label", Run: placedByLabel},
		{Name: "a ManifestWorkReplicaSet delivers to the cluster while a Placement chooses it, changes with its template, and reports that it has rolled out", Run: replicated},
	}
}

// place applies a Placement of the name of the cluster in the namespace of the
// case on the hub, where all clusters may be chosen.
func (s *Scene) place(spec string) {
	s.Helper()
	s.Hub.ApplyText(s, s.fill(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: NS}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: NS}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: %s, namespace: NS}
spec:
  predicates:
  - requiredClusterSelector: %s`, s.ClusterName(), spec)))
}

// placed waits until the decision is the cluster, or nothing.
func (s *Scene) placed(want ...string) {
	s.Helper()
	installation.Eventually(s, fmt.Sprintf("the decision is %q", want), func() error {
		decision := &clusterv1beta1.PlacementDecision{}
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: s.ClusterName() + "-decision-1"}, decision); err != nil {
			return err
		}
		var has []string
		for _, d := range decision.Status.Decisions {
			has = append(has, d.ClusterName)
		}
		if !slices.Equal(has, want) {
			return fmt.Errorf("it is %q", has)
		}
		return nil
	})
}

func placedByClaim(s *Scene) {
	s.place(fmt.Sprintf("{claimSelector: {matchExpressions: [{key: NS, operator: In, values: [%s]}]}}", s.ClusterName()))
	s.placed()
	s.admin("{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: NS}, spec: {value: " + s.ClusterName() + "}}")
	s.placed(s.ClusterName())
}

func placedByLabel(s *Scene) {
	s.place(fmt.Sprintf("{labelSelector: {matchLabels: {NS: %s}}}", s.ClusterName()))
	s.placed()
	s.PatchManaged(s, fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, s.ID, s.ClusterName()))
	s.placed(s.ClusterName())
	s.PatchManaged(s, fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, s.ID))
	s.placed()
}

// replicate applies a ManifestWorkReplicaSet of the name of the cluster, for the
// Placement of this name, that delivers a ConfigMap.
func (s *Scene) replicate(value string) {
	s.Helper()
	s.Hub.ApplyText(s, s.fill(fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: %[1]s, namespace: NS}
spec:
  placementRefs: [{name: %[1]s, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1}}}]
  manifestWorkTemplate: {workload: {manifests: [%[2]s]}}`, s.ClusterName(), configMap("a", value))))
}

func replicated(s *Scene) {
	s.Namespace()
	s.place(fmt.Sprintf("{labelSelector: {matchLabels: {NS: %s}}}", s.ClusterName()))
	s.replicate("one")
	s.PatchManaged(s, fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, s.ID, s.ClusterName()))
	s.Has("a", "one")
	s.replicate("two")
	s.Has("a", "two")
	installation.Eventually(s, "the replica set has rolled out", func() error {
		set := &workv1alpha1.ManifestWorkReplicaSet{}
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: s.ClusterName()}, set); err != nil {
			return err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, workv1alpha1.ConditionPlacementRolledOut)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != set.Generation {
			return fmt.Errorf("its conditions are %s", installation.Encode(set.Status.Conditions))
		}
		return nil
	})
	s.PatchManaged(s, fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, s.ID))
	s.HasNot("a")
}
