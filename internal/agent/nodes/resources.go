// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A member makes up names of resources as it likes, a million in one node. Those beyond these
// bounds do not count, neither of a node nor of all nodes together.
const (
	// resourcesMax is how many resources count. The hub takes no more of a ManagedCluster.
	resourcesMax = 128
	// namesBytesMax is how long their names may be together. The hub takes no more of them either.
	namesBytesMax = 8 << 10
	// resourceBytesMax is how long the name of a resource is in Kubernetes: that of a
	// domain, a slash, and that of a label.
	resourceBytesMax = 253 + 1 + 63
)

// countedResources returns the names of the resources in the lists that count: the first ones,
// whatever order the lists have. Those that each node has come before all others.
func countedResources(lists ...corev1.ResourceList) []corev1.ResourceName {
	var counted []corev1.ResourceName
	for _, list := range lists {
		for name := range list {
			at, known := slices.BinarySearchFunc(counted, name, CompareResources)
			if known || at == resourcesMax || !isResourceName(name) {
				continue
			}
			counted = slices.Insert(counted[:min(len(counted), resourcesMax-1)], at, name)
		}
	}
	bytes := 0
	for i, name := range counted {
		if bytes += len(name); bytes > namesBytesMax {
			return counted[:i]
		}
	}
	return counted
}

// isResourceName reports whether Kubernetes may have a resource of a name. The hub counts any other characters as several.
func isResourceName(name corev1.ResourceName) bool {
	other := func(r rune) bool {
		return r != '-' && r != '_' && (r < '.' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	return len(name) <= resourceBytesMax && !strings.ContainsFunc(string(name), other)
}

// CompareResources orders the names of resources: those that each node has come before all others.
func CompareResources(a, b corev1.ResourceName) int {
	return cmp.Or(cmp.Compare(resourceRank(a), resourceRank(b)), cmp.Compare(a, b))
}

// IsUsualResource reports whether each node has a resource. Any other may be made up.
func IsUsualResource(name corev1.ResourceName) bool { return resourceRank(name) == 0 }

// resourceRank is 0 for what each node has.
func resourceRank(name corev1.ResourceName) int {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage:
		return 0
	default:
		return 1
	}
}

// slimResources returns a list with those resources only that count.
func slimResources(list corev1.ResourceList) corev1.ResourceList {
	names := countedResources(list)
	if len(names) == len(list) {
		return list
	}
	slim := make(corev1.ResourceList, len(names))
	for _, name := range names {
		slim[name] = list[name]
	}
	return slim
}
