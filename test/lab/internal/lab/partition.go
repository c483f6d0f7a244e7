// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"slices"
)

// Partition cuts the network between two clusters: what one sends the other is
// lost without a trace.
func (l *Lab) Partition(a, b string) error {
	return l.betweenPair(a, b, func(to, from *cluster) error {
		return to.namespace().Drop(from.address().Addr())
	})
}

// Heal undoes Partition.
func (l *Lab) Heal(a, b string) error {
	return l.betweenPair(a, b, func(to, from *cluster) error {
		return to.namespace().Accept(from.address().Addr())
	})
}

// betweenPair calls a function for either direction between two clusters.
func (l *Lab) betweenPair(a, b string, f func(to, from *cluster) error) error {
	return l.change(func() error {
		if a == b {
			return fmt.Errorf("cluster %s is given twice", a)
		}
		pair, err := l.clusters(a, b)
		if err != nil {
			return err
		}
		return errors.Join(f(pair[0], pair[1]), f(pair[1], pair[0]))
	})
}

// partitions returns the names of the clusters that a cluster is cut off from.
func (c *cluster) partitions() ([]string, error) {
	others, err := c.lab.clusters()
	if err != nil {
		return nil, err
	}
	dropped, err := c.namespace().Dropped()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, other := range others {
		if slices.Contains(dropped, other.address().Addr()) {
			names = append(names, other.Name)
		}
	}
	return names, nil
}
