// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

// SetSelector returns the selector of the labels of the clusters in a set.
func SetSelector(set *clusterv1beta2.ManagedClusterSet) (labels.Selector, error) {
	switch kind := set.Spec.ClusterSelector.SelectorType; kind {
	case "", clusterv1beta2.SelectorTypeExclusiveClusterSetLabel:
		return labels.SelectorFromSet(labels.Set{clusterv1.LabelClusterSet: set.Name}), nil
	case clusterv1beta2.SelectorTypeLabelSelector:
		// No label selector selects nothing, an empty one everything.
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.ClusterSelector.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("spec.clusterSelector.labelSelector of ManagedClusterSet %q: %w", set.Name, err)
		}
		return selector, nil
	default:
		return nil, fmt.Errorf("spec.clusterSelector.selectorType %q of ManagedClusterSet %q is unknown", kind, set.Name)
	}
}

// JoinsByLabels reports whether a set has a cluster because of labels of its own: one without
// them, and in the same set by LabelClusterSet, would not be in this set.
func JoinsByLabels(set *clusterv1beta2.ManagedClusterSet, own map[string]string) bool {
	selector, err := SetSelector(set)
	if err != nil || set.Spec.ClusterSelector.SelectorType != clusterv1beta2.SelectorTypeLabelSelector {
		return false // a selector that cannot be read has nobody
	}
	anybody := labels.Set{}
	if exclusive, labelled := own[clusterv1.LabelClusterSet]; labelled {
		anybody[clusterv1.LabelClusterSet] = exclusive
	}
	return selector.Matches(labels.Set(own)) && !selector.Matches(anybody)
}
