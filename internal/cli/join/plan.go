// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"strings"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// hubFleet is what the hub knows about its clusters.
type hubFleet struct {
	clusters    map[string]*clusterv1.ManagedCluster
	connections map[string]*fleetv1alpha1.ClusterConnection
}

// joinPlan is what is there already of a cluster that joins.
type joinPlan struct {
	// cluster is the ManagedCluster; nil if it has to be made.
	cluster *clusterv1.ManagedCluster
	// wasPull says that the cluster has joined with an agent of its own, whose
	// place the push agent takes.
	wasPull bool
}

// decideJoin tells what joining takes: the cluster with the identity wants to have
// the name. Neither may be somebody else's. Whoever may ask to join can register any name
// with any identity, and labels of his choice, so asRegistered has to say that what waits
// under the name is to be accepted as it is.
func decideJoin(f hubFleet, name, id string, asRegistered bool) (joinPlan, error) {
	if other := f.joinedNameOf(id, name); other != "" {
		return joinPlan{}, alreadyRegisteredError(name, id, fmt.Sprintf("this cluster has joined under the name %q", other),
			"Use that name, or remove it first: \"capstan unjoin %[1]s\", or \"capstan unregister %[1]s\" if it has an agent of its own.", other)
	}
	cluster := f.clusters[name]
	connection := f.connections[name]
	if cluster == nil && connection == nil {
		return joinPlan{}, nil
	}
	known := view.FromCluster(cluster, connection)
	pull := cluster != nil && known.Mode == view.Pull
	leave := "unjoin"
	if pull {
		leave = "unregister"
	}
	switch is := known.KnownIdentity(); {
	case is != "" && is != id:
		return joinPlan{}, alreadyRegisteredError(name, id, fmt.Sprintf("%q is another cluster, %s", name, is),
			"Choose another name. If the other cluster is gone for good, \"capstan %s %s\" frees its name.", leave, name)
	case cluster == nil:
		return joinPlan{}, nil
	case !cluster.DeletionTimestamp.IsZero():
		return joinPlan{}, exit.Next(fmt.Errorf("cluster %q is about to leave the hub", name),
			"Wait for that with \"capstan %s %s\", and then join again.", leave, name)
	case pull && is == "" && known.Joined:
		return joinPlan{}, alreadyRegisteredError(name, id, fmt.Sprintf("%q has an agent of its own, which does not report which cluster it is in", name),
			"Choose another name. If it is this cluster, \"capstan unregister %s\" first.", name)
	}
	if err := f.checkWaiting(name, id, asRegistered); err != nil {
		return joinPlan{}, err
	}
	return joinPlan{cluster: cluster, wasPull: pull && known.Joined}, nil
}

// checkWaiting returns an error for a name under which somebody has asked to join, unless
// the user says that it is to be accepted as it is.
func (f hubFleet) checkWaiting(name, id string, asRegistered bool) error {
	if asRegistered || f.clusters[name].Spec.HubAcceptsClient {
		return nil
	}
	labels := "no labels"
	if chosen := view.ChosenLabels(f.clusters[name]); len(chosen) > 0 {
		labels = "these labels, by which policies, Placements and sets choose what it is sent: " + strings.Join(chosen, ", ")
	}
	return alreadyRegisteredError(name, id, fmt.Sprintf("%q is on the hub and not accepted, with %s", name, labels),
		"If that is meant to be this cluster, run the command again with --%s. If not, choose another name, or free this one: \"kubectl delete managedcluster %s\".", flagAsRegistered, name)
}

// alreadyRegisteredError is the error for a name or a cluster that is taken. Its beginning
// is what karmadactl says, for scripts that look for it.
func alreadyRegisteredError(name, id, why, next string, args ...any) error {
	return exit.Next(fmt.Errorf("the cluster ID %s or the cluster name %s has been registered: %s", id, name, why), next, args...)
}

// joinedNameOf returns under which name but this one a cluster has joined, or nothing.
func (f hubFleet) joinedNameOf(id, but string) string {
	var clusters []view.Cluster
	add := func(name string) {
		cluster := view.FromCluster(f.clusters[name], f.connections[name])
		cluster.Name = name
		clusters = append(clusters, cluster)
	}
	for name := range f.clusters {
		add(name)
	}
	for name := range f.connections {
		if f.clusters[name] == nil {
			add(name)
		}
	}
	if same := view.NewFleet(clusters...).SameIdentity(id, but); len(same) > 0 {
		return same[0].Name
	}
	return ""
}
