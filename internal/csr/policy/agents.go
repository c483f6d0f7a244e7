// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
)

// AnyAgent stands for all agents that have a certificate in the name of a
// cluster: who they are was not noted when they got it.
const AnyAgent Agents = "*"

// Agents are the names of the agents that were given a certificate of a cluster
// since its ManagedCluster was created, separated by commas, or AnyAgent. The
// zero value is none.
type Agents string

// Names returns the names; none for AnyAgent.
func (a Agents) Names() []string {
	if a == AnyAgent {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(a), ","), func(name string) bool { return !agentName.MatchString(name) })
}

// Has tells whether an agent is named. AnyAgent names none.
func (a Agents) Has(agent string) bool { return slices.Contains(a.Names(), agent) }

// With returns the agents and one more. Once one is known by its name,
// AnyAgent does not count any more.
func (a Agents) With(agent string) Agents {
	if a.Has(agent) {
		return a
	}
	return Agents(strings.Join(append(a.Names(), agent), ","))
}
