// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
	"github.com/capstan-io/capstan/test/lab/internal/daemon"
	"github.com/capstan-io/capstan/test/lab/internal/remains"
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
			l.progress.Step("%s: stopped", c.Name)
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
	sockets, err := remains.ShimSockets(c.path())
	if err != nil {
		return err
	}
	for _, socket := range sockets {
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove socket of shim: %w", err)
		}
	}
	return nil
}

// StopComponents kills single daemons of a cluster; the rest of it goes on. Up
// and Start start them again.
func (l *Lab) StopComponents(ctx context.Context, name string, components ...string) error {
	return l.change(func() error {
		clusters, err := l.clusters(name)
		if err != nil {
			return err
		}
		for _, component := range components {
			if err := clusters[0].stopComponent(ctx, component); err != nil {
				return fmt.Errorf("stop %s of cluster %s: %w", component, name, err)
			}
			l.progress.Step("%s: %s stopped", name, component)
		}
		return nil
	})
}

func (c *cluster) stopComponent(ctx context.Context, component string) error {
	var own []string
	for _, spec := range (components{c}).all() {
		if spec.Group != c.daemonGroup() {
			continue // Other clusters need it too.
		}
		if spec.Name == component {
			ctx, cancel := context.WithTimeout(ctx, killTimeout)
			defer cancel()
			return daemon.Kill(ctx, spec)
		}
		own = append(own, spec.Name)
	}
	return fmt.Errorf("the cluster has no such component of its own (it has: %s)", strings.Join(own, ", "))
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
