// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boundtoken decides which cluster names the holder of a bootstrap
// token may join under. An administrator binds a token to names of clusters
// when making it, and may let the hub accept these clusters by itself.
//
// Both are groups of the token: the API server puts them into every request
// that is made with it, so they cannot be forged, and nobody has to read the
// Secret of the token. A group that begins as these do and is none of them
// binds the token to nothing, so that what a later release adds never means
// more to this one.
//
// The package decides only: it has no client, no clock and no logger.
package boundtoken

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/util"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

const (
	// marker is between GroupBootstrappers and what a token is bound to.
	marker = clusterv1.GroupBootstrappers + ":"
	// prefixEnd ends the group of a prefix, because groups of tokens must not end
	// as prefixes such as edge- do.
	prefixEnd = ":x"
	// wildcard ends a pattern that stands for all names with the part before it.
	wildcard = "*"
)

// Bounds are what a requester is bound to. The zero value is bound to nothing
// and accepted by nobody but an administrator.
type Bounds struct {
	bound    bool
	patterns []string
	accept   bool
}

// BoundsOf returns the bounds of a requester, by the name and the groups that the API
// server noted.
func BoundsOf(user string, groups []string) Bounds {
	var b Bounds
	for _, group := range groups {
		what, ok := strings.CutPrefix(group, marker)
		switch {
		case !ok:
		case group == clusterv1.GroupBootstrapAutoAccept:
			b.accept = IsTokenUser(user)
		default:
			b.bound = true
			if pattern, ok := patternOf(what); ok {
				b.patterns = append(b.patterns, pattern)
			}
		}
	}
	slices.Sort(b.patterns)
	return b
}

// IsTokenUser reports whether a user is the holder of a bootstrap token, by the whole name: who
// comes in another way may have one that begins alike.
func IsTokenUser(user string) bool {
	id, is := strings.CutPrefix(user, api.BootstrapUserPrefix)
	return is && util.IsValidBootstrapTokenID(id)
}

// patternOf returns the pattern that the rest of a group stands for.
func patternOf(what string) (pattern string, ok bool) {
	if name, ok := strings.CutPrefix(what, clusterv1.BootstrapName); ok {
		return name, checkPattern(name) == nil && !strings.HasSuffix(name, wildcard)
	}
	prefix, ok := strings.CutPrefix(what, clusterv1.BootstrapPrefix)
	if !ok {
		return "", false
	}
	prefix, ok = strings.CutSuffix(prefix, prefixEnd)
	return prefix + wildcard, ok && checkPattern(prefix+wildcard) == nil
}

// IsBound reports whether the requester is bound to names at all.
func (b Bounds) IsBound() bool { return b.bound }

// ClusterPatterns returns what the requester is bound to, sorted: names, and prefixes
// of names followed by *.
func (b Bounds) ClusterPatterns() []string { return slices.Clone(b.patterns) }

// AllowsCluster reports whether the requester may ask to be the cluster. Who is not bound
// may ask for every name.
func (b Bounds) AllowsCluster(cluster string) bool {
	return !b.bound || slices.ContainsFunc(b.patterns, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, wildcard)
		return isPrefix && strings.HasPrefix(cluster, prefix) || pattern == cluster
	})
}

// AcceptsCluster reports whether the hub may accept the cluster by itself when the
// requester asks for it. That is so for no name to which it is not bound.
func (b Bounds) AcceptsCluster(cluster string) bool {
	return b.accept && b.bound && b.AllowsCluster(cluster)
}

// AutoAccept reports whether there are clusters that the hub may accept by itself
// when the requester asks for them.
func (b Bounds) AutoAccept() bool { return b.accept && len(b.patterns) > 0 }

// String says what the requester is bound to, for people.
func (b Bounds) String() string {
	switch {
	case !b.bound:
		return "any cluster"
	case len(b.patterns) == 0:
		return "no cluster"
	default:
		return strings.Join(b.patterns, ", ")
	}
}

// TokenGroups returns the groups of a token that is bound to the patterns and,
// with accept, whose clusters the hub accepts by itself.
func TokenGroups(patterns []string, accept bool) ([]string, error) {
	groups := []string{clusterv1.GroupBootstrappers}
	for _, pattern := range patterns {
		if err := checkPattern(pattern); err != nil {
			return nil, err
		}
		if prefix, ok := strings.CutSuffix(pattern, wildcard); ok {
			groups = append(groups, marker+clusterv1.BootstrapPrefix+prefix+prefixEnd)
		} else {
			groups = append(groups, marker+clusterv1.BootstrapName+pattern)
		}
	}
	if accept && len(patterns) == 0 {
		return nil, errors.New("a token with automatic acceptance must be bound to cluster names")
	}
	if accept {
		groups = append(groups, clusterv1.GroupBootstrapAutoAccept)
	}
	return groups, nil
}

// checkPattern returns what is wrong with a pattern.
func checkPattern(pattern string) error {
	name, isPrefix := strings.CutSuffix(pattern, wildcard)
	if isPrefix && name == "" {
		return fmt.Errorf("the pattern %q matches all clusters; start it with a prefix of their names", pattern)
	}
	if isPrefix {
		name += "x" // stands for the rest of a name
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("the pattern %q is neither a cluster name nor a prefix followed by %s: %s",
			pattern, wildcard, strings.Join(problems, "; "))
	}
	return nil
}
