// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remains finds and removes what a machine has of a lab, without the
// lab's state, so that it does so for a broken one, too.
package remains

import (
	"bytes"
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
	"github.com/capstan-io/capstan/test/lab/internal/machine"
	"github.com/capstan-io/capstan/test/lab/internal/network"
)

// Directories outside of the lab's, with files that containerd and the kubelet
// leave behind when they are killed.
const (
	containerLogDir = "/var/log/containers"
	cniResultDir    = "/var/lib/cni/results"
)

// Lab tells what is a lab's: what is in its directory and in its control group,
// and what is named after it.
type Lab struct{ Dir, ID, Group string }

// Remove removes what is left of a lab of which no process runs any more.
func (l Lab) Remove() error {
	group, err := cgroup.New(l.Group)
	if err != nil {
		return err
	}
	err = errors.Join(
		l.unmount(),
		network.RemoveNamespaces(l.ID+"-"),
		network.Bridge{Name: l.ID}.Remove(),
		group.Remove(),
		l.removeStrayFiles(),
	)
	if err != nil {
		return err
	}
	return errors.Join(l.removeDir(), removeEmptyDirs())
}

// unmount unmounts all that is mounted below the lab's directory.
func (l Lab) unmount() error {
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
func (l Lab) removeStrayFiles() error {
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
func (l Lab) strayFiles() ([]string, error) {
	stray, err := ShimSockets(filepath.Join(l.Dir, "clusters", "*"))
	if err != nil {
		return nil, err
	}
	results, err := filepath.Glob(filepath.Join(cniResultDir, "*"))
	if err != nil {
		return nil, fmt.Errorf("list network attachments: %w", err)
	}
	for _, file := range results {
		// The file names the network namespace of the pod, by its path.
		if content, err := os.ReadFile(file); err == nil && bytes.Contains(content, []byte(l.Dir+"/")) {
			stray = append(stray, file)
		}
	}
	links, err := filepath.Glob(filepath.Join(containerLogDir, "*"))
	if err != nil {
		return nil, fmt.Errorf("list container logs: %w", err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, l.Dir+"/") {
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
func (l Lab) removeDir() error {
	for _, name := range stateFiles {
		if err := os.RemoveAll(filepath.Join(l.Dir, name)); err != nil {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.Remove(l.Dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove state directory: %w", err)
	}
	return nil
}

// ShimSockets lists the sockets of the shims between containerd and the
// containers of a cluster, which are not in the cluster's directory. The
// directory may be a pattern.
func ShimSockets(dir string) ([]string, error) {
	addresses, err := filepath.Glob(filepath.Join(dir, "containerd/state/io.containerd.runtime.v2.task/*/*/address"))
	if err != nil {
		return nil, fmt.Errorf("list shims: %w", err)
	}
	var sockets []string
	for _, file := range addresses {
		address, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // The container has ended since it was listed.
		}
		if err != nil {
			return nil, fmt.Errorf("read address of shim: %w", err)
		}
		socket := strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://")
		if machine.Exists(socket) {
			sockets = append(sockets, socket)
		}
	}
	return sockets, nil
}
