// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// tpuPod has a container that requests the number of a resource that only this
// case has.
const tpuPod = `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: NS}, spec: {%s containers: [{name: c, image: c, resources: {requests: {example.com/tpu: %d}, limits: {example.com/tpu: %d}}}]}}`

func requests(s *scene) {
	s.admin("{apiVersion: v1, kind: Namespace, metadata: {name: NS}}\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: NS}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: NS-node}}")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.id + "-node"}}
	if err := s.member.client.Status().Patch(s.Context(), node, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"capacity":{"example.com/tpu":"8"},"allocatable":{"example.com/tpu":"8"}}}`))); err != nil {
		s.Fatal(err)
	}
	s.admin(fmt.Sprintf(tpuPod, "placed", "nodeName: NS-node,", 3, 3))
	s.admin(fmt.Sprintf(tpuPod, "waiting", "", 2, 2))
	s.setModels(`[{"grade":0,"ranges":[{"name":"example.com/tpu","min":"0","max":"4"}]},{"grade":1,"ranges":[{"name":"example.com/tpu","min":"4","max":"1k"}]}]`)
	s.summarized("2 waiting, 3 placed, 1 node with four left", func(summary *fleetv1alpha1.ResourceSummary) bool {
		return tpus(summary.Allocating) == "2" && tpus(summary.Allocated) == "3" &&
			len(summary.AllocatableModelings) == 2 && summary.AllocatableModelings[1].Count == 1
	})
	s.admin(fmt.Sprintf(tpuPod, "more", "nodeName: NS-node,", 2, 2))
	s.summarized("5 placed, no node with four left", func(summary *fleetv1alpha1.ResourceSummary) bool {
		return tpus(summary.Allocated) == "5" && summary.AllocatableModelings[1].Count == 0
	})
	s.setModels("null")
	// A hub with the Cluster API asks for every cluster.
	s.summarized("the same, by the nine grades that a cluster has that names none", func(summary *fleetv1alpha1.ResourceSummary) bool {
		return tpus(summary.Allocated) == "5" && tpus(summary.Allocating) == "2" && len(summary.AllocatableModelings) == 9
	})
	if err := s.member.client.Delete(s.Context(), node); err != nil {
		s.Fatal(err)
	}
}

func tpus(list fleetv1alpha1.ResourceList) string {
	quantity := list["example.com/tpu"]
	return quantity.String()
}

// setModels sets the models of the cluster, as JSON.
func (s *scene) setModels(text string) {
	s.Helper()
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: s.clusterName()}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resourceModels":`+text+`}}`))
	eventually(s, "setting the models", func() error { return s.hub.client.Patch(s.Context(), connection, patch) })
}

// summarized waits until the ClusterConnection has a summary as it should be.
func (s *scene) summarized(what string, is func(*fleetv1alpha1.ResourceSummary) bool) {
	s.Helper()
	eventually(s, what, func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := s.hub.client.Get(s.Context(), client.ObjectKey{Name: s.clusterName()}, connection); err != nil {
			return err
		}
		status := connection.Status
		counts := meta.FindStatusCondition(status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary)
		switch {
		case status.ResourceSummary == nil || !is(status.ResourceSummary):
			return errors.New(encode(status.ResourceSummary))
		case counts != nil && counts.Status != metav1.ConditionTrue:
			return errors.New(encode(counts))
		}
		return nil
	})
}
