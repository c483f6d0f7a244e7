// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgroup keeps track of processes by the control group they are in.
//
// A control group is a better record of daemons than a file of process
// numbers: children belong to it whoever started them, it outlives the program
// that made it, and it never names a process that has gone.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
)

// killInterval is the time between two looks at a group that is being killed.
const killInterval = 50 * time.Millisecond

// accounting is the controller in whose hierarchy processes are looked for.
// Where there is one hierarchy only, its name does not matter.
const accounting = "memory"

// Group is a control group, in every hierarchy of control groups there is.
type Group struct {
	path    string
	manager cgroups.Manager
}

// New returns the group with an absolute path, which need not exist.
func New(path string) (*Group, error) {
	m, err := manager.New(&cgroups.Cgroup{
		Path:      path,
		Resources: &cgroups.Resources{SkipDevices: true},
	})
	if err != nil {
		return nil, fmt.Errorf("find control group %s: %w", path, err)
	}
	return &Group{path: path, manager: m}, nil
}

// Create makes the group if it does not exist.
func (g *Group) Create() error {
	const noProcess = -1
	if err := g.manager.Apply(noProcess); err != nil {
		return fmt.Errorf("create control group %s: %w", g.path, err)
	}
	return nil
}

// Join moves the calling process into the group, which it makes if needed.
func (g *Group) Join() error {
	if err := g.manager.Apply(os.Getpid()); err != nil {
		return fmt.Errorf("join control group %s: %w", g.path, err)
	}
	return nil
}

// Processes returns the numbers of the processes in the group and the groups
// below it.
func (g *Group) Processes() ([]int, error) {
	for g.exists() {
		pids, err := cgroups.GetAllPids(g.manager.Path(accounting))
		if err == nil {
			return pids, nil
		}
		// A group that is removed while the list is made spoils the list.
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			return nil, fmt.Errorf("list processes of control group %s: %w", g.path, err)
		}
	}
	return nil, nil
}

// Memory returns the bytes of memory that the processes in the group and the
// groups below it hold, without the files that the kernel caches for them.
func (g *Group) Memory() (uint64, error) {
	if !g.exists() {
		return 0, nil
	}
	stats, err := g.manager.GetStats()
	if err != nil {
		return 0, fmt.Errorf("read statistics of control group %s: %w", g.path, err)
	}
	if cgroups.IsCgroup2UnifiedMode() {
		return stats.MemoryStats.Stats["anon"], nil
	}
	return stats.MemoryStats.Stats["total_rss"], nil
}

// Kill kills the processes in the group and the groups below it, and returns
// when none is left.
func (g *Group) Kill(ctx context.Context) error {
	for {
		pids, err := g.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of control group %s outlive SIGKILL: %w", len(pids), g.path, ctx.Err())
		case <-time.After(killInterval):
		}
	}
}

// Remove removes the group and the groups below it; no process may be left.
func (g *Group) Remove() error {
	if err := g.manager.Destroy(); err != nil {
		return fmt.Errorf("remove control group %s: %w", g.path, err)
	}
	return nil
}

// mountPoint is where the hierarchies of control groups are: the only one, or
// each in a directory of its own.
const mountPoint = "/sys/fs/cgroup"

// Find lists the directories of the group with an absolute path, in any
// hierarchy.
func Find(path string) ([]string, error) {
	var dirs []string
	for _, pattern := range []string{filepath.Join(mountPoint, path), filepath.Join(mountPoint, "*", path)} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("find control group %s: %w", path, err)
		}
		dirs = append(dirs, found...)
	}
	return dirs, nil
}

func (g *Group) exists() bool {
	return cgroups.PathExists(g.manager.Path(accounting))
}
