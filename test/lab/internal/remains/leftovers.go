// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/capstan-io/capstan/test/lab/internal/cgroup"
	"github.com/capstan-io/capstan/test/lab/internal/daemon"
	"github.com/capstan-io/capstan/test/lab/internal/machine"
	"github.com/capstan-io/capstan/test/lab/internal/network"
)

// Find lists what the machine has of the lab: all of it while clusters
// run, and nothing after Remove. Like Remove, it does not rely on the lab's state.
func (l Lab) Find() ([]string, error) {
	var left []string
	var errs []error
	for _, search := range []struct {
		kind string
		find func() ([]string, error)
	}{
		{"process", l.processes},
		{"control group", func() ([]string, error) { return cgroup.Find(l.Group) }},
		{"mount", l.mounts},
		{"network namespace", func() ([]string, error) { return network.FindNamespaces(l.ID + "-") }},
		{"network interface", func() ([]string, error) { return network.FindLinks(l.ID) }},
		{"iptables rule", func() ([]string, error) { return network.FindRules(l.ID) }},
		{"file", l.files},
	} {
		found, err := search.find()
		if err != nil {
			errs = append(errs, err)
		}
		for _, what := range found {
			left = append(left, search.kind+" "+what)
		}
	}
	return left, errors.Join(errs...)
}

// processes lists the processes that are in the lab's control group, and the
// daemons that work in its directory wherever they are.
func (l Lab) processes() ([]string, error) {
	group, err := cgroup.New(l.Group)
	if err != nil {
		return nil, err
	}
	members, err := group.Processes()
	if err != nil {
		return nil, err
	}
	isMember := make(map[int]bool, len(members))
	for _, pid := range members {
		isMember[pid] = true
	}
	all, err := daemon.Processes()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, p := range all {
		if isMember[p.ID] || l.isDaemon(p) {
			found = append(found, fmt.Sprintf("%d (%s)", p.ID, p.Args[0]))
		}
	}
	return found, nil
}

// daemonNames are what the processes that work in the lab's directory are
// called by. Others that name the directory are users of the lab.
var daemonNames = map[string]bool{
	"etcd": true, "kube-apiserver": true, "kube-controller-manager": true, "kube-scheduler": true,
	"kubelet": true, "kube-proxy": true, "coredns": true, "provisioner": true,
	"containerd": true, "containerd-shim-runc-v2": true,
}

func (l Lab) isDaemon(p daemon.Process) bool {
	return daemonNames[filepath.Base(p.Args[0])] && strings.Contains(strings.Join(p.Args, " "), l.Dir+"/")
}

// mounts lists where something is mounted below the lab's directory, in the
// order of mounting.
func (l Lab) mounts() ([]string, error) {
	dir, err := filepath.EvalSymlinks(l.Dir) // As the kernel knows it.
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find state directory: %w", err)
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	points := make([]string, len(mounts))
	for i, mount := range mounts {
		points[i] = mount.Mountpoint
	}
	return points, nil
}

// files lists what the lab has put into its directory, and elsewhere.
func (l Lab) files() ([]string, error) {
	found, err := l.strayFiles()
	for _, name := range stateFiles {
		if path := filepath.Join(l.Dir, name); machine.Exists(path) {
			found = append(found, path)
		}
	}
	return found, err
}
