// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
)

// killInterval is the time between two looks at whether a killed daemon is
// gone.
const killInterval = 20 * time.Millisecond

// Process is a process of the machine.
type Process struct {
	ID int
	// Args are the arguments, the name first. There is at least one.
	Args []string
}

// Processes lists the processes of the machine, without those that only the
// kernel knows and those that have ended but are not yet reaped.
func Processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var processes []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if args := arguments(pid); len(args) > 0 {
			processes = append(processes, Process{ID: pid, Args: args})
		}
	}
	return processes, nil
}

// arguments returns the arguments of a process, none if it has ended.
func arguments(pid int) []string {
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(cmdline) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
}

// IsRunning reports whether a daemon runs: whether a process of its name is in
// its control group.
func IsRunning(spec Spec) (bool, error) {
	pids, err := find(spec)
	return len(pids) > 0, err
}

// Kill kills a daemon, and returns when it does not run.
func Kill(ctx context.Context, spec Spec) error {
	for {
		pids, err := find(spec)
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
			return fmt.Errorf("%s outlives SIGKILL: %w", spec.Name, ctx.Err())
		case <-time.After(killInterval):
		}
	}
}

// find returns the processes of a daemon.
func find(spec Spec) ([]int, error) {
	group, err := cgroup.New(spec.Group)
	if err != nil {
		return nil, err
	}
	members, err := group.Processes()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, pid := range members {
		if args := arguments(pid); len(args) > 0 && args[0] == spec.Name {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
