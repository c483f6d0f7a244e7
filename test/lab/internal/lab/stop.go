// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
)

// killTimeout limits how long the end of the killed processes may take.
const killTimeout = 30 * time.Second

// Stop stops clusters as a power cut would: at once, with everything on their
// nodes, and without a word to those they talk to. What they stored is kept.
func (l *Lab) Stop(ctx context.Context, names ...string) error {
	return l.change(func() error {
		clusters, err := l.clusters(names...)
		if err != nil {
			return err
		}
		for _, c := range clusters {
			if err := c.stop(ctx); err != nil {
				return fmt.Errorf("stop cluster %s: %w", c.Name, err)
			}
			progress("%s: stopped", c.Name)
		}
		return nil
	})
}

func (c *cluster) stop(ctx context.Context) error {
	// Unplugged first, lest the kernel closes the connections of the killed.
	if err := c.namespace().Unplug(); err != nil {
		return err
	}
	if err := kill(ctx, c.group()); err != nil {
		return err
	}
	return removeShimSockets(c.path())
}

// kill kills what is in a control group.
func kill(ctx context.Context, path string) error {
	group, err := cgroup.New(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	return group.Kill(ctx)
}

// removeShimSockets removes the sockets of the shims between containerd and
// the containers of a cluster, which are not in the cluster's directory.
func removeShimSockets(dir string) error {
	addresses, err := filepath.Glob(filepath.Join(dir, "containerd/state/io.containerd.runtime.v2.task/*/*/address"))
	if err != nil {
		return fmt.Errorf("list shims: %w", err)
	}
	for _, file := range addresses {
		address, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read address of shim: %w", err)
		}
		socket := strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://")
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove socket of shim: %w", err)
		}
	}
	return nil
}
