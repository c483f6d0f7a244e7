// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gc empties the namespace of a cluster that is being deleted: add-ons
// first, then works, and of each kind those of the lowest cleanup priority
// first. It waits for the agent to clean up the member, says what it waits
// for, and gives up on an agent that does not answer when it is told to.
//
// The package has no controller of its own; that of the cluster's life calls it.
package gc

// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;delete;patch
// +kubebuilder:rbac:groups=addon.open-cluster-management.io,resources=managedclusteraddons,verbs=get;list;watch;delete;patch
