// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"strings"
)

// The names that agents have on the hub.
const (
	// UserPrefix begins the user name of every agent.
	UserPrefix = "system:open-cluster-management:"
	// GroupManagedClusters has the agents of all clusters.
	GroupManagedClusters = "system:open-cluster-management:managed-clusters"
)

// agentNameBytesMax keeps the common name of a request within what X.509
// implementations show and log without cutting.
const agentNameBytesMax = 63

var agentName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Group returns the group of the agents of one cluster.
func Group(cluster string) string { return UserPrefix + cluster }

// User returns the user name of one agent of a cluster.
func User(cluster, agent string) string { return UserPrefix + cluster + ":" + agent }

// agentOf returns the cluster and the agent that a user name stands for.
func agentOf(user string) (cluster, agent string, ok bool) {
	rest, ok := strings.CutPrefix(user, UserPrefix)
	if !ok {
		return "", "", false
	}
	cluster, agent, ok = strings.Cut(rest, ":")
	if !ok || cluster == "" || len(agent) > agentNameBytesMax || !agentName.MatchString(agent) {
		return "", "", false
	}
	return cluster, agent, true
}

// isAgent tells whether a requester has the identity of an agent, of whichever
// cluster, in its name or in a group.
func isAgent(user string, groups []string) bool {
	if strings.HasPrefix(user, UserPrefix) {
		return true
	}
	for _, group := range groups {
		if strings.HasPrefix(group, UserPrefix) {
			return true
		}
	}
	return false
}
