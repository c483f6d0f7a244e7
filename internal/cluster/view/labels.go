// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"maps"
	"slices"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// ChosenLabels returns the labels of a cluster that it may have chosen when it asked to
// join, each as KEY=VALUE and in the order of the keys: all but what the hub itself adds,
// which is whom the cluster waits for and the default set.
func ChosenLabels(cluster *clusterv1.ManagedCluster) []string {
	var chosen []string
	for _, key := range slices.Sorted(maps.Keys(cluster.Labels)) {
		value := cluster.Labels[key]
		if key == clusterv1.LabelAwaitingAcceptance || key == clusterv1.LabelClusterSet && value == clusterv1.DefaultClusterSet {
			continue
		}
		chosen = append(chosen, key+"="+value)
	}
	return chosen
}

// LabelsOfHub returns the labels that the agent of the cluster may not change, which are
// therefore the word of somebody on the hub.
func (c *Cluster) LabelsOfHub() map[string]string {
	labels := maps.Clone(c.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return c.agentLabels.AllowsKey(key) })
	return labels
}
