// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"net/netip"
	"slices"

	"github.com/capstan-io/capstan/test/lab/internal/inventory"
	"github.com/capstan-io/capstan/test/lab/internal/machine"
	"github.com/capstan-io/capstan/test/lab/internal/network"
)

// subnets holds the subnets that labs take theirs from.
var subnets = netip.MustParsePrefix("172.30.0.0/16")

// Up makes and starts the clusters of a configuration, beside those the lab
// has already. A configuration without clusters starts those the lab has.
func (l *Lab) Up(ctx context.Context, config inventory.Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	return l.change(func() error {
		if err := l.state.Add(config.Clusters); err != nil {
			return err
		}
		clusters, err := l.clusters()
		if err != nil {
			return err
		}
		if err := l.bringUp(ctx, clusters); err != nil {
			return err
		}
		return l.writeKubeconfig()
	})
}

// Start starts clusters that were stopped.
func (l *Lab) Start(ctx context.Context, names ...string) error {
	return l.change(func() error {
		clusters, err := l.clusters(names...)
		if err != nil {
			return err
		}
		return l.bringUp(ctx, clusters)
	})
}

// bringUp makes what clusters need of the machine, and starts them.
func (l *Lab) bringUp(ctx context.Context, clusters []*cluster) error {
	if err := machine.CheckPrerequisites(l.state.HasNodes()); err != nil {
		return err
	}
	if err := machine.RaiseKernelLimits(); err != nil {
		return err
	}
	if err := l.ensureNetwork(); err != nil {
		return err
	}
	return startClusters(ctx, clusters)
}

// ensureNetwork chooses a subnet if the lab has none, remembers it, and makes
// the bridge.
func (l *Lab) ensureNetwork() error {
	if !l.state.Subnet.IsValid() {
		// Every lab begins its search elsewhere: so labs that start at the
		// same time do not choose the same subnet, and a lab that is made anew
		// gets the subnet it had.
		subnet, err := network.FreeSubnet(subnets, l.place.hash()[0])
		if err != nil {
			return err
		}
		l.state.Subnet = subnet
	}
	if err := l.state.Save(l.place.stateFile()); err != nil {
		return err
	}
	if err := l.bridge().Ensure(); err != nil {
		return err
	}
	l.progress.Step("lab %s: network %s at the bridge %s", l.place.dir, l.state.Subnet, l.bridge().Name)
	return nil
}

// IsEmpty reports whether the lab has no clusters.
func (l *Lab) IsEmpty() bool {
	return len(l.state.Clusters) == 0
}

// HasNodes reports whether the lab has, with the clusters of a configuration,
// any with a node.
func (l *Lab) HasNodes(config inventory.Config) bool {
	withNode := func(c inventory.Cluster) bool { return !c.Nodeless }
	return l.state.HasNodes() || slices.ContainsFunc(config.Clusters, withNode)
}
