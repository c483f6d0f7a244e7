// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

func placing() []testCase {
	return []testCase{
		{name: "a Placement chooses the cluster by a claim", run: placedByClaim},
		{name: "a Placement chooses the cluster by a label, and drops it with the label", run: placedByLabel},
		{name: "a ManifestWorkReplicaSet delivers to the cluster while a Placement chooses it, changes with its template, and reports that it has rolled out", run: replicated},
	}
}

// place applies a Placement of the name of the cluster in the namespace of the
// case on the hub, where all clusters may be chosen.
func (s *scene) place(spec string) {
	s.Helper()
	s.hub.apply(s, s.fill(fmt.Sprintf(`
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
  - requiredClusterSelector: %s`, s.clusterName(), spec)))
}

// placed waits until the decision is the cluster, or nothing.
func (s *scene) placed(want ...string) {
	s.Helper()
	eventually(s, fmt.Sprintf("the decision is %q", want), func() error {
		decision := &clusterv1beta1.PlacementDecision{}
		if err := s.hub.client.Get(s.Context(), client.ObjectKey{Namespace: s.id, Name: s.clusterName() + "-decision-1"}, decision); err != nil {
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

func placedByClaim(s *scene) {
	s.place(fmt.Sprintf("{claimSelector: {matchExpressions: [{key: NS, operator: In, values: [%s]}]}}", s.clusterName()))
	s.placed()
	s.admin("{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ClusterClaim, metadata: {name: NS}, spec: {value: " + s.clusterName() + "}}")
	s.placed(s.clusterName())
}

func placedByLabel(s *scene) {
	s.place(fmt.Sprintf("{labelSelector: {matchLabels: {NS: %s}}}", s.clusterName()))
	s.placed()
	s.patch(s, fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, s.id, s.clusterName()))
	s.placed(s.clusterName())
	s.patch(s, fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, s.id))
	s.placed()
}

// replicate applies a ManifestWorkReplicaSet of the name of the cluster, for the
// Placement of this name, that delivers a ConfigMap.
func (s *scene) replicate(value string) {
	s.Helper()
	s.hub.apply(s, s.fill(fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: %[1]s, namespace: NS}
spec:
  placementRefs: [{name: %[1]s, rolloutStrategy: {type: Progressive, progressive: {maxConcurrency: 1}}}]
  manifestWorkTemplate: {workload: {manifests: [%[2]s]}}`, s.clusterName(), configMap("a", value))))
}

func replicated(s *scene) {
	s.namespace()
	s.place(fmt.Sprintf("{labelSelector: {matchLabels: {NS: %s}}}", s.clusterName()))
	s.replicate("one")
	s.patch(s, fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, s.id, s.clusterName()))
	s.has("a", "one")
	s.replicate("two")
	s.has("a", "two")
	eventually(s, "the replica set has rolled out", func() error {
		set := &workv1alpha1.ManifestWorkReplicaSet{}
		if err := s.hub.client.Get(s.Context(), client.ObjectKey{Namespace: s.id, Name: s.clusterName()}, set); err != nil {
			return err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, workv1alpha1.ConditionPlacementRolledOut)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != set.Generation {
			return fmt.Errorf("its conditions are %s", encode(set.Status.Conditions))
		}
		return nil
	})
	s.patch(s, fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, s.id))
	s.hasNot("a")
}
