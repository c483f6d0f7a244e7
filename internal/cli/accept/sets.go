// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

// byLabel is how a cluster gets into a set that it names itself.
const byLabel = "by its label " + clusterv1.LabelClusterSet

// clusterSetMembership is a ManagedClusterSet that a cluster is in once it is accepted, and what
// that means.
type clusterSetMembership struct {
	set string
	// by says which labels put it there.
	by string
	// missing says that there is no such set, unknown that the user may not look.
	missing, unknown bool
	// bound are the namespaces of the hub from which workloads can be placed on the
	// cluster, and made those that the cluster gets.
	bound, made []string
}

// clusterSetMemberships returns the sets that the cluster asks to be in by its labels, which
// whoever asks to join chooses. The sets that every cluster is in do not count.
func clusterSetMemberships(cluster *clusterv1.ManagedCluster, sets []clusterv1beta2.ManagedClusterSet, bindings []clusterv1beta2.ManagedClusterSetBinding) ([]clusterSetMembership, error) {
	own := cluster.Labels[clusterv1.LabelClusterSet]
	var found []clusterSetMembership
	for i := range sets {
		set := &sets[i]
		by, matches, err := matchClusterSet(cluster, set)
		if err != nil {
			return nil, err
		}
		if !matches {
			continue
		}
		e := clusterSetMembership{set: set.Name, by: by}
		for _, namespace := range set.Spec.ManagedNamespaces {
			e.made = append(e.made, namespace.Name)
		}
		for i := range bindings {
			if bindings[i].Spec.ClusterSet == set.Name {
				e.bound = append(e.bound, bindings[i].Namespace)
			}
		}
		slices.Sort(e.bound)
		found = append(found, e)
	}
	if own != "" && own != clusterv1.DefaultClusterSet && !slices.ContainsFunc(found, func(e clusterSetMembership) bool { return e.set == own }) {
		found = append(found, clusterSetMembership{set: own, by: byLabel, missing: true})
	}
	return found, nil
}

// matchClusterSet reports whether the cluster is in the set, and by which labels.
func matchClusterSet(cluster *clusterv1.ManagedCluster, set *clusterv1beta2.ManagedClusterSet) (by string, matches bool, err error) {
	if set.Name == clusterv1.DefaultClusterSet || set.Name == clusterv1.GlobalClusterSet {
		return "", false, nil
	}
	if set.Spec.ClusterSelector.SelectorType != clusterv1beta2.SelectorTypeLabelSelector {
		return byLabel, cluster.Labels[clusterv1.LabelClusterSet] == set.Name, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.ClusterSelector.LabelSelector)
	if err != nil {
		return "", false, fmt.Errorf("read the selector of ManagedClusterSet %q: %w", set.Name, err)
	}
	if selector.Empty() {
		return "every cluster is", true, nil
	}
	return "by its labels: " + selector.String(), selector.Matches(labels.Set(cluster.Labels)), nil
}

// String says what acceptance into the set means.
func (e clusterSetMembership) String() string {
	text := fmt.Sprintf("ManagedClusterSet %q (%s)", e.set, e.by)
	switch {
	case e.unknown:
		return text + ": you may not read what that allows"
	case e.missing:
		return text + ", which does not exist"
	case len(e.bound) == 0:
		text += ": no namespace is bound to it"
	default:
		text += ": these namespaces can place workloads on the cluster: " + strings.Join(e.bound, ", ")
	}
	if len(e.made) > 0 {
		text += "; the cluster gets the namespaces " + strings.Join(e.made, ", ")
	}
	return text
}

// tellSets shows, before the cluster is accepted, which sets it asks to be in.
func (a *acceptCommand) tellSets(ctx context.Context, cluster *clusterv1.ManagedCluster) error {
	found, err := a.readSetMemberships(ctx, cluster)
	if err != nil || len(found) == 0 {
		return err
	}
	fmt.Fprintf(a.session.ErrOut, "Cluster %q asks to be in:\n", cluster.Name)
	for _, e := range found {
		fmt.Fprintf(a.session.ErrOut, "  %s\n", e)
	}
	return nil
}

func (a *acceptCommand) readSetMemberships(ctx context.Context, cluster *clusterv1.ManagedCluster) ([]clusterSetMembership, error) {
	sets := &clusterv1beta2.ManagedClusterSetList{}
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	err := a.read.List(ctx, sets)
	if err == nil {
		err = a.read.List(ctx, bindings)
	}
	if apierrors.IsForbidden(err) {
		if own := cluster.Labels[clusterv1.LabelClusterSet]; own != "" {
			return []clusterSetMembership{{set: own, by: byLabel, unknown: true}}, nil
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out which sets cluster %q asks to be in: %w", cluster.Name, err)
	}
	return clusterSetMemberships(cluster, sets.Items, bindings.Items)
}
