// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
)

// MaxClusters is how many clusters have an address on the bridge.
const MaxClusters = 200

// State is what a lab remembers.
type State struct {
	// Subnet holds the addresses of the host and the clusters.
	Subnet   netip.Prefix `json:"subnet"`
	Clusters []Entry      `json:"clusters"`
}

// Entry is what a lab remembers of a cluster.
type Entry struct {
	Cluster
	// Index, from 1 on, tells the addresses of the cluster from those of
	// the others.
	Index int `json:"index"`
}

// Add remembers clusters; those that are known already stay as they are.
func (s *State) Add(clusters []Cluster) error {
	for _, c := range clusters {
		if known, found := s.Find(c.Name); found {
			if err := known.isLike(c); err != nil {
				return err
			}
			continue
		}
		if other, found := s.otherDisk(c); found {
			return fmt.Errorf("cluster %q shares an etcd with %q, which decided at its start whether that waits for the disk: %t",
				c.Name, other.Name, other.Fsync)
		}
		index := s.freeIndex()
		if index > MaxClusters {
			return fmt.Errorf("a lab has no room for more than %d clusters", MaxClusters)
		}
		s.Clusters = append(s.Clusters, Entry{Cluster: c, Index: index})
	}
	return nil
}

// isLike checks that the entry is of a cluster as another asks for.
func (e Entry) isLike(c Cluster) error {
	if e.Nodeless != c.Nodeless {
		return fmt.Errorf("cluster %q exists already: that it has a node is %t, and was decided at its start", e.Name, !e.Nodeless)
	}
	if c.Fsync && !e.Fsync {
		return fmt.Errorf("cluster %q exists already: that its etcd does not wait for the disk was decided at its start", e.Name)
	}
	if c.SigningDuration.Duration != 0 && e.SigningDuration != c.SigningDuration {
		return fmt.Errorf("cluster %q exists already: its signing duration is %s, and was decided at its start",
			e.Name, e.SigningDuration.Duration)
	}
	return nil
}

// otherDisk finds a cluster whose etcd a new one would share and want otherwise.
func (s *State) otherDisk(c Cluster) (Entry, bool) {
	i := slices.IndexFunc(s.Clusters, func(e Entry) bool { return c.Nodeless && e.Nodeless && e.Fsync != c.Fsync })
	if i < 0 {
		return Entry{}, false
	}
	return s.Clusters[i], true
}

// Find returns what is remembered of the cluster of a name.
func (s *State) Find(name string) (Entry, bool) {
	i := slices.IndexFunc(s.Clusters, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return s.Clusters[i], true
}

func (s *State) freeIndex() int {
	index := 1
	for slices.ContainsFunc(s.Clusters, func(e Entry) bool { return e.Index == index }) {
		index++
	}
	return index
}

// Names returns the names of the clusters.
func (s *State) Names() []string {
	names := make([]string, len(s.Clusters))
	for i, e := range s.Clusters {
		names[i] = e.Name
	}
	return names
}

// Address returns an address of the subnet: the first is that of the host.
func (s *State) Address(host byte) netip.Prefix {
	bytes := s.Subnet.Addr().As4()
	bytes[3] = host
	return netip.PrefixFrom(netip.AddrFrom4(bytes), s.Subnet.Bits())
}

// HasNodes reports whether any cluster has a node.
func (s *State) HasNodes() bool {
	return slices.ContainsFunc(s.Clusters, func(e Entry) bool { return !e.Nodeless })
}

// Load reads the state from a file; a lab without one has no clusters.
func Load(file string) (State, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read state: %w", err)
	}
	var s State
	if err := json.Unmarshal(content, &s); err != nil {
		return State{}, fmt.Errorf("read state from %s: %w", file, err)
	}
	return s, nil
}

// Save writes the state to a file, all of it or nothing.
func (s *State) Save(file string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
