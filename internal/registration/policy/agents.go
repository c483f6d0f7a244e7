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

// Agents are the names of the agents that were given a certificate of a cluster
// since its ManagedCluster was created, separated by commas, or AnyAgent, or both.
// The zero value is none.
type Agents string

// Names returns the names, without AnyAgent.
func (a Agents) Names() []string {
	return slices.DeleteFunc(a.entries(), func(entry string) bool { return entry == AnyAgent })
}

// Has tells whether an agent is named. AnyAgent names none.
func (a Agents) Has(agent string) bool { return slices.Contains(a.Names(), agent) }

// Any tells whether AnyAgent is among them.
func (a Agents) Any() bool { return slices.Contains(a.entries(), AnyAgent) }

// With returns the agents and one more, which may be AnyAgent. That stays where
// it is: of those that it stands for, the first that becomes known by its name
// need not be the one at work.
func (a Agents) With(agent string) Agents {
	entries := a.entries()
	if slices.Contains(entries, agent) {
		return a
	}
	return Agents(strings.Join(append(entries, agent), ","))
}

// entries leaves out what can be no name.
func (a Agents) entries() []string {
	return slices.DeleteFunc(strings.Split(string(a), ","), func(entry string) bool {
		return entry != AnyAgent && !agentName.MatchString(entry)
	})
}
