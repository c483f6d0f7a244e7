// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
	"github.com/capstan-io/capstan/test/lab/internal/network"
)

// Directories outside of the lab's, with files that containerd and the kubelet
// leave behind when they are killed.
const (
	containerLogDir = "/var/log/containers"
	cniResultDir    = "/var/lib/cni/results"
)

// Down removes the lab and everything that belongs to it. It does not rely on
// the lab's state, so that it also removes what is left of a broken one.
func (l *Lab) Down(ctx context.Context) error {
	return l.alone(func() error {
		if err := kill(ctx, l.group()); err != nil {
			return err
		}
		group, err := cgroup.New(l.group())
		if err != nil {
			return err
		}
		err = errors.Join(
			unmount(l.dir),
			network.RemoveNamespaces(l.ID()+"-"),
			network.Bridge{Name: l.ID()}.Remove(),
			group.Remove(),
			l.removeStrayFiles(),
		)
		if err != nil {
			return err
		}
		return l.removeDir()
	})
}

// unmount unmounts all that is mounted below a directory.
func unmount(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // As the kernel knows it.
	if err != nil {
		return fmt.Errorf("find state directory: %w", err)
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	// What was mounted last may be on what was mounted before.
	slices.Reverse(mounts)
	var errs []error
	for _, mount := range mounts {
		if err := unix.Unmount(mount.Mountpoint, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", mount.Mountpoint, err))
		}
	}
	return errors.Join(errs...)
}

// removeStrayFiles removes the lab's files that are not in its directory.
func (l *Lab) removeStrayFiles() error {
	dirs, err := filepath.Glob(filepath.Join(l.dir, "clusters", "*"))
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, removeShimSockets(dir))
	}
	results, err := filepath.Glob(filepath.Join(cniResultDir, "*"))
	if err != nil {
		return fmt.Errorf("list network attachments: %w", err)
	}
	for _, file := range results {
		// The file names the network namespace of the pod, by its path.
		if content, err := os.ReadFile(file); err == nil && bytes.Contains(content, []byte(l.dir+"/")) {
			errs = append(errs, os.Remove(file))
		}
	}
	links, err := filepath.Glob(filepath.Join(containerLogDir, "*"))
	if err != nil {
		return fmt.Errorf("list container logs: %w", err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, l.dir+"/") {
			errs = append(errs, os.Remove(link))
		}
	}
	return errors.Join(errs...)
}

// removeDir removes what the lab has put in its directory, and the directory
// if nothing else is in it.
func (l *Lab) removeDir() error {
	for _, name := range []string{"clusters", "etcd", "kubeconfig", "lab.json", "lab.json.new", "lock"} {
		if err := os.RemoveAll(filepath.Join(l.dir, name)); err != nil {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.Remove(l.dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}
