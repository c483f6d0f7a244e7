// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lab runs Kubernetes clusters as plain processes of this machine.
//
// A [Lab] is a set of clusters that share a state directory, a bridge and a
// parent control group. All three are named after the state directory, so that
// a lab can be removed even if nothing is left of its state, and labs with
// different directories do not meet.
package lab

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-io/capstan/test/lab/internal/etcd"
	"github.com/capstan-io/capstan/test/lab/internal/inventory"
	"github.com/capstan-io/capstan/test/lab/internal/machine"
	"github.com/capstan-io/capstan/test/lab/internal/network"
	"github.com/capstan-io/capstan/test/lab/internal/program"
	"github.com/capstan-io/capstan/test/lab/internal/progress"
	"github.com/capstan-io/capstan/test/lab/internal/remains"
)

// maxDirLength keeps the paths of the sockets below the directory within what
// the kernel allows.
const maxDirLength = 40

// Lab is a set of clusters.
type Lab struct {
	place    place
	state    inventory.State
	progress *progress.Progress
}

// DirVariable is the environment variable with the state directory to use if
// none is given.
const DirVariable = "LAB_DIR"

// DefaultDir returns the state directory to use if none is given.
func DefaultDir() string {
	return cmp.Or(os.Getenv(DirVariable), "/var/lib/capstan-lab")
}

// Open returns the lab with a state directory, which need not exist. What it
// does, it tells by steps.
func Open(dir string, steps *progress.Progress) (*Lab, error) {
	l, err := New(dir, steps)
	if err != nil {
		return nil, err
	}
	if l.state, err = inventory.Load(l.place.stateFile()); err != nil {
		return nil, err
	}
	return l, nil
}

// New returns the lab with a state directory without reading its state, which
// is enough to take it down.
func New(dir string, steps *progress.Progress) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, machine.ErrNotRoot
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find state directory: %w", err)
	}
	if len(dir) > maxDirLength {
		return nil, fmt.Errorf("the state directory %s is longer than %d characters, "+
			"which is too long for the sockets in it: choose another with --dir or %s", dir, maxDirLength, DirVariable)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	return &Lab{place: place{dir: dir, bin: filepath.Dir(self)}, progress: steps}, nil
}

// change calls a function that changes the lab, with its latest state, while no
// other process does.
func (l *Lab) change(f func() error) error {
	return l.alone(func() (err error) {
		if l.state, err = inventory.Load(l.place.stateFile()); err != nil {
			return err
		}
		return f()
	})
}

// alone calls a function while no other process changes the lab.
func (l *Lab) alone(f func() error) error {
	if err := os.MkdirAll(l.place.dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	unlock, err := lock(filepath.Join(l.place.dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

// lock waits until it is the only holder of a lock file.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// Dir is the lab's state directory.
func (l *Lab) Dir() string { return l.place.dir }

// ID is what the lab's parts outside of its directory are called, or begin
// with.
func (l *Lab) ID() string { return l.place.id() }

// bridge is the switch the clusters are plugged into. The host has the first
// address on it.
func (l *Lab) bridge() network.Bridge {
	return network.Bridge{Name: l.place.id(), Address: l.state.Address(1)}
}

// clusters returns the clusters with the given names, or all if none is given.
func (l *Lab) clusters(names ...string) ([]*cluster, error) {
	if len(names) == 0 {
		names = l.state.Names()
	}
	clusters := make([]*cluster, 0, len(names))
	for _, name := range names {
		entry, found := l.state.Find(name)
		if !found {
			return nil, fmt.Errorf("there is no cluster %q in the lab %s (it has: %s)",
				name, l.place.dir, cmp.Or(strings.Join(l.state.Names(), ", "), "none"))
		}
		clusters = append(clusters, &cluster{Entry: entry, lab: l})
	}
	return clusters, nil
}

// place is where a lab is on its machine. What is not in its directory is named
// after that.
type place struct {
	dir string
	// bin is the directory with the executables and images that clusters run.
	bin string
}

// hash tells the lab from labs with other directories.
func (p place) hash() [sha256.Size]byte { return sha256.Sum256([]byte(p.dir)) }

func (p place) id() string {
	sum := p.hash()
	return "lab-" + hex.EncodeToString(sum[:3])
}

// group is the control group that holds the control groups of the clusters.
func (p place) group() string { return "/" + p.id() }

// program returns the path of the executable with the programs of Kubernetes.
func (p place) program() string { return filepath.Join(p.bin, program.Name) }

func (p place) stateFile() string { return filepath.Join(p.dir, "lab.json") }

func (p place) remains() remains.Lab { return remains.Lab{Dir: p.dir, ID: p.id(), Group: p.group()} }

// sharedEtcd is the etcd of all clusters without a node.
func (p place) sharedEtcd() etcd.Etcd {
	return etcd.Etcd{
		Dir: filepath.Join(p.dir, "etcd"),
		// No cluster has this name, for it is no DNS label.
		Group: filepath.Join(p.group(), "_etcd"),
		Log:   filepath.Join(p.dir, "etcd", "etcd.log"),
	}
}
