// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"strings"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// agentNameBytesMax bounds the name of an agent; OCM's have five characters.
const agentNameBytesMax = 63

var agentName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// agentOf returns the cluster and the agent that a user name stands for.
func agentOf(user string) (cluster, agent string, ok bool) {
	rest, ok := strings.CutPrefix(user, clusterv1.UserPrefix)
	if !ok {
		return "", "", false
	}
	cluster, agent, ok = strings.Cut(rest, ":")
	if !ok || cluster == "" || len(agent) > agentNameBytesMax || !agentName.MatchString(agent) {
		return "", "", false
	}
	return cluster, agent, true
}

// isAgent reports whether a requester has the identity of an agent, of whichever
// cluster, in its name or in a group.
func isAgent(user string, groups []string) bool {
	if strings.HasPrefix(user, clusterv1.UserPrefix) {
		return true
	}
	for _, group := range groups {
		if strings.HasPrefix(group, clusterv1.UserPrefix) {
			return true
		}
	}
	return false
}
