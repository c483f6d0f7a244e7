// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
	"github.com/capstan-io/capstan/test/lab/internal/daemon"
	"github.com/capstan-io/capstan/test/lab/internal/inventory"
)

// The states of a cluster.
const (
	StateRunning  = "running"
	StateDegraded = "degraded"
	StateStopped  = "stopped"
)

// Status tells how a cluster is.
type Status struct {
	inventory.Cluster
	State string
	URL   string
	// Memory is what the processes of the cluster hold, pods included.
	Memory uint64
	// Missing are the daemons that should run but do not.
	Missing []string
	// CutOff are the clusters this one is partitioned from.
	CutOff []string
}

// Status tells how the clusters are.
func (l *Lab) Status() ([]Status, error) {
	clusters, err := l.clusters()
	if err != nil {
		return nil, err
	}
	statuses := make([]Status, len(clusters))
	for i, c := range clusters {
		if statuses[i], err = c.status(); err != nil {
			return nil, err
		}
	}
	return statuses, nil
}

func (c *cluster) status() (Status, error) {
	status := Status{Cluster: c.Cluster, URL: c.url(), State: StateStopped}
	group, err := cgroup.New(c.group())
	if err != nil {
		return Status{}, err
	}
	if status.Memory, err = group.Memory(); err != nil {
		return Status{}, err
	}
	for _, spec := range (components{c}).all() {
		running, err := daemon.IsRunning(spec)
		if err != nil {
			return Status{}, err
		}
		switch {
		case !running:
			status.Missing = append(status.Missing, spec.Name)
		case spec.Group == c.daemonGroup(): // An etcd of all clusters tells nothing.
			status.State = StateRunning
		}
	}
	if status.State == StateRunning && len(status.Missing) > 0 {
		status.State = StateDegraded
	}
	if status.CutOff, err = c.partitions(); err != nil {
		return Status{}, err
	}
	return status, nil
}
