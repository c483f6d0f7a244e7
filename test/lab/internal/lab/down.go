// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
			l.unmount(),
			network.RemoveNamespaces(l.ID()+"-"),
			network.Bridge{Name: l.ID()}.Remove(),
			group.Remove(),
			l.removeStrayFiles(),
		)
		if err != nil {
			return err
		}
		if err := errors.Join(l.removeDir(), removeEmptyDirs()); err != nil {
			return err
		}
		l.progress.Step("lab %s: removed", l.dir)
		return nil
	})
}

// unmount unmounts all that is mounted below the lab's directory.
func (l *Lab) unmount() error {
	mounts, err := l.mounts()
	if err != nil {
		return err
	}
	// What was mounted last may be on what was mounted before.
	slices.Reverse(mounts)
	var errs []error
	for _, mount := range mounts {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", mount, err))
		}
	}
	return errors.Join(errs...)
}

// removeStrayFiles removes the lab's files that are not in its directory.
func (l *Lab) removeStrayFiles() error {
	files, err := l.strayFiles()
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove stray file: %w", err))
		}
	}
	return errors.Join(errs...)
}

// strayFiles lists the lab's files that are not in its directory.
func (l *Lab) strayFiles() ([]string, error) {
	stray, err := shimSockets(filepath.Join(l.dir, "clusters", "*"))
	if err != nil {
		return nil, err
	}
	results, err := filepath.Glob(filepath.Join(cniResultDir, "*"))
	if err != nil {
		return nil, fmt.Errorf("list network attachments: %w", err)
	}
	for _, file := range results {
		// The file names the network namespace of the pod, by its path.
		if content, err := os.ReadFile(file); err == nil && bytes.Contains(content, []byte(l.dir+"/")) {
			stray = append(stray, file)
		}
	}
	links, err := filepath.Glob(filepath.Join(containerLogDir, "*"))
	if err != nil {
		return nil, fmt.Errorf("list container logs: %w", err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, l.dir+"/") {
			stray = append(stray, link)
		}
	}
	return stray, nil
}

// pluginSocket is where a kubelet listens for device plugins, and goes on to
// exist when it is killed. The path is the same for all kubelets of a machine.
const pluginSocket = "/var/lib/kubelet/device-plugins/kubelet.sock"

// emptyDirs are directories that the daemons of a node, and what they call,
// make outside of the lab's; each stands before the one it is in.
var emptyDirs = []string{
	filepath.Dir(pluginSocket), "/var/lib/kubelet",
	containerLogDir,
	cniResultDir, filepath.Dir(cniResultDir),
	"/run/containerd/s", "/run/containerd", "/run/mount",
}

// removeEmptyDirs removes the directories that the lab may have made for good
// and nobody uses.
func removeEmptyDirs() error {
	var errs []error
	if connection, err := net.Dial("unix", pluginSocket); err == nil {
		errs = append(errs, connection.Close()) // The kubelet of somebody else.
	} else if errors.Is(err, unix.ECONNREFUSED) {
		errs = append(errs, os.Remove(pluginSocket))
	}
	for _, dir := range emptyDirs {
		err := os.Remove(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
			errs = append(errs, fmt.Errorf("remove empty directory: %w", err))
		}
	}
	return errors.Join(errs...)
}

// stateFiles are what the lab puts into its directory.
var stateFiles = []string{"clusters", "etcd", "kubeconfig", "lab.json", "lab.json.new", "lock"}

// removeDir removes what the lab has put in its directory, and the directory
// if nothing else is in it.
func (l *Lab) removeDir() error {
	for _, name := range stateFiles {
		if err := os.RemoveAll(filepath.Join(l.dir, name)); err != nil {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.Remove(l.dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}
