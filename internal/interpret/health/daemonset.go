// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// daemonSet follows the API of apps/v1: status counts nodes, the ones that
// should have a pod and those that have one, of the current template, that is
// available. With OnDelete the user decides when a pod is replaced, so older
// ones are no lack.
func daemonSet(object map[string]any) Health {
	if h, ok := seen(object); !ok {
		return h
	}
	want := fields.IntOr(0, object, "status", "desiredNumberScheduled")
	scheduled := fields.IntOr(0, object, "status", "currentNumberScheduled")
	updated := fields.IntOr(0, object, "status", "updatedNumberScheduled")
	readyOnes := fields.IntOr(0, object, "status", "numberReady")
	available := fields.IntOr(0, object, "status", "numberAvailable")
	onDelete := fields.String(object, "spec", "updateStrategy", "type") == "OnDelete"
	switch {
	case want == 0:
		return healthy("NoNodeMatches", "No node is to have a pod.")
	case scheduled < want:
		return progressing("PodsMissing", "%d of %d nodes have their pod.", scheduled, want)
	case updated < want && !onDelete:
		return progressing("RolloutInProgress", "%d of %d pods are of the current template.", updated, want)
	case readyOnes < want:
		return progressing("PodsUnavailable", "%d of %d pods are ready.", readyOnes, want)
	case available < want:
		return progressing("PodsUnavailable", "%d of %d pods are available.", available, want)
	}
	return healthy("PodsAvailable", "%d of %d pods are available.", available, want)
}
