// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
)

// AnyAgent stands for all agents that have a certificate in the name of a
// cluster: who they are was not noted when they got it.
const AnyAgent = "*"

// AgentNames are the names of the agents that were given a certificate of a cluster
// since its ManagedCluster was created, separated by commas, or AnyAgent, or both.
// The zero value is none.
type AgentNames string

// NamedAgents returns the names, without AnyAgent.
func (a AgentNames) NamedAgents() []string {
	return slices.DeleteFunc(a.validEntries(), func(entry string) bool { return entry == AnyAgent })
}

// HasAgent reports whether an agent is named. AnyAgent names none.
func (a AgentNames) HasAgent(agent string) bool { return slices.Contains(a.NamedAgents(), agent) }

// allowsAgain reports whether an agent may be one whose request was approved before: it is
// named, or nobody is.
func (a AgentNames) allowsAgain(agent string) bool {
	named := a.NamedAgents()
	return len(named) == 0 || slices.Contains(named, agent)
}

// HasAnyAgent reports whether AnyAgent is among them.
func (a AgentNames) HasAnyAgent() bool { return slices.Contains(a.validEntries(), AnyAgent) }

// WithAgent returns the agents and one more, which may be AnyAgent. That stays where
// it is: of those that it stands for, the first that becomes known by its name
// need not be the one at work.
func (a AgentNames) WithAgent(agent string) AgentNames {
	entries := a.validEntries()
	if slices.Contains(entries, agent) {
		return a
	}
	return AgentNames(strings.Join(append(entries, agent), ","))
}

// validEntries leaves out what can be no name.
func (a AgentNames) validEntries() []string {
	return slices.DeleteFunc(strings.Split(string(a), ","), func(entry string) bool {
		return entry != AnyAgent && !agentName.MatchString(entry)
	})
}
