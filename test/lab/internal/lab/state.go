// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// maxClusters is how many clusters have an address on the bridge.
const maxClusters = 200

// state is what a lab remembers.
type state struct {
	// Subnet holds the addresses of the host and the clusters.
	Subnet   netip.Prefix `json:"subnet"`
	Clusters []entry      `json:"clusters"`
}

// entry is what a lab remembers of a cluster.
type entry struct {
	Cluster
	// Index, from 1 on, tells the addresses of the cluster from those of
	// the others.
	Index int `json:"index"`
}

// add remembers clusters; those that are known already stay as they are.
func (s *state) add(clusters []Cluster) error {
	for _, c := range clusters {
		if known, found := s.find(c.Name); found {
			if err := known.isLike(c); err != nil {
				return err
			}
			continue
		}
		index := s.freeIndex()
		if index > maxClusters {
			return fmt.Errorf("a lab has no room for more than %d clusters", maxClusters)
		}
		s.Clusters = append(s.Clusters, entry{Cluster: c, Index: index})
	}
	return nil
}

// isLike checks that the entry is of a cluster as another asks for.
func (e entry) isLike(c Cluster) error {
	if e.Nodeless != c.Nodeless {
		return fmt.Errorf("cluster %q exists already: that it has a node is %t, and was decided at its start", e.Name, !e.Nodeless)
	}
	if c.SigningDuration.Duration != 0 && e.SigningDuration != c.SigningDuration {
		return fmt.Errorf("cluster %q exists already: its signing duration is %s, and was decided at its start",
			e.Name, e.SigningDuration.Duration)
	}
	return nil
}

func (s *state) find(name string) (entry, bool) {
	i := slices.IndexFunc(s.Clusters, func(e entry) bool { return e.Name == name })
	if i < 0 {
		return entry{}, false
	}
	return s.Clusters[i], true
}

func (s *state) freeIndex() int {
	index := 1
	for slices.ContainsFunc(s.Clusters, func(e entry) bool { return e.Index == index }) {
		index++
	}
	return index
}

func (s *state) names() []string {
	names := make([]string, len(s.Clusters))
	for i, e := range s.Clusters {
		names[i] = e.Name
	}
	return names
}

// hasNodes tells whether any cluster has a node.
func (s *state) hasNodes() bool {
	return slices.ContainsFunc(s.Clusters, func(e entry) bool { return !e.Nodeless })
}

func (l *Lab) stateFile() string {
	return filepath.Join(l.dir, "lab.json")
}

// load reads the state; a lab without a state file has no clusters.
func (l *Lab) load() error {
	content, err := os.ReadFile(l.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		l.state = state{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(content, &l.state); err != nil {
		return fmt.Errorf("read state from %s: %w", l.stateFile(), err)
	}
	return nil
}

// save writes the state, all of it or nothing.
func (l *Lab) save() error {
	content, err := json.MarshalIndent(l.state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	temporary := l.stateFile() + ".new"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(temporary, l.stateFile()); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
