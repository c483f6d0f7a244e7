// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// decision is what the hub decides for the binding as things are now.
type decision struct {
	binding.Decision

	// needed says why it decides anew, "" if it does not.
	needed string
}

// decide makes the decision of the hub anew, on what the user may read, with the
// one that is written as the previous one. It is nil if the decision is not the
// hub's, or the clusters may not be read.
func (f *Facts) decide(now time.Time) *decision {
	b := f.Binding.object()
	if f.clustersHidden || !binding.Ours(b) {
		return nil
	}
	clusters := make([]view.Cluster, 0, len(f.Clusters))
	for i := range f.Clusters {
		clusters = append(clusters, view.Whole(&f.Clusters[i], f.Connections[f.Clusters[i].Name]))
	}
	fleet := view.New(clusters...)
	state := binding.StateOf(b)
	state.Neighbours = binding.Beside(b, f.Peers)
	d := &decision{Decision: binding.Decide(fleet, state.Input, now)}
	if is, why := binding.Needs(fleet, state); is {
		d.needed = why
	}
	return d
}

// refused returns why a cluster is not chosen.
func (d *decision) refused(cluster string) string {
	if d == nil {
		return ""
	}
	v, found := d.Verdict(cluster)
	switch {
	case !found:
		return ""
	case v.Chosen:
		return "it would be chosen now"
	default:
		return v.Reason
	}
}

// differs says what the hub would decide now, if that is not what is written.
func (d *decision) differs(written []workv1alpha2.TargetCluster) string {
	if d == nil || d.needed == "" {
		return ""
	}
	if !d.Chosen() {
		return fmt.Sprintf("As of now no other clusters would be chosen: %s.", trimmed(d.Message))
	}
	if slices.EqualFunc(sorted(written), sorted(d.Clusters), alike) {
		return ""
	}
	var names []string
	for _, target := range d.Clusters {
		name := target.Name
		if target.Replicas > 0 {
			name = fmt.Sprintf("%s (%d)", name, target.Replicas)
		}
		names = append(names, name)
	}
	return fmt.Sprintf("As of now the clusters would be %s: the hub decides anew in a moment (%s). If it stays so, \"capstan doctor\" tells whether its propagation controller runs.", list(names), d.needed)
}

func alike(a, b workv1alpha2.TargetCluster) bool {
	return a.Name == b.Name && a.Replicas == b.Replicas && slices.Equal(a.Components, b.Components)
}

func sorted(targets []workv1alpha2.TargetCluster) []workv1alpha2.TargetCluster {
	return slices.SortedFunc(slices.Values(targets), func(a, b workv1alpha2.TargetCluster) int { return cmp.Compare(a.Name, b.Name) })
}

// trimmed is a message without the full stop at its end.
func trimmed(message string) string {
	for len(message) > 0 && message[len(message)-1] == '.' {
		message = message[:len(message)-1]
	}
	return message
}
