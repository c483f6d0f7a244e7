// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parts lists what an agent does for registration on each cluster that
// has joined: the same for a cluster that connects to its hub (Pull) and for
// one that the hub connects to (Push). It also makes the Registry that keeps
// parts at work.
//
// What else an agent does, such as works, its command gives to it.
package parts

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/agent/clusterinfo"
	"github.com/capstan-io/capstan/internal/agent/clusterspec"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/heartbeat"
	"github.com/capstan-io/capstan/internal/agent/managednamespace"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// RegistrationOptions say what differs between agents.
type RegistrationOptions struct {
	// Status is the part that reports the status; Spec the one that keeps what a
	// Klusterlet says of its cluster, nil for Push clusters, which have none. Their
	// Failed and Clock are set here.
	Status *clusterstatus.StatusPart
	Spec   *clusterspec.SpecPart
	// DiscoverEvery is the time between two looks at the APIs of the member.
	// Defaults to a minute.
	DiscoverEvery time.Duration
	// Clock defaults to the real one.
	Clock clock.Clock
	Log   logr.Logger
}

// RegistrationParts returns what an agent does for registration.
func RegistrationParts(o RegistrationOptions) []fleet.Part {
	failed := func(part string) func(context.Context, error) {
		return func(_ context.Context, err error) {
			o.Log.Info("A part of the agent failed and tries again", "part", part, "problem", err.Error())
		}
	}
	o.Status.Failed, o.Status.Clock = failed("clusterstatus"), o.Clock
	list := []fleet.Part{
		o.Status,
		&clusterinfo.InfoPart{Failed: failed("clusterinfo"), Clock: o.Clock, DiscoverEvery: o.DiscoverEvery},
		&heartbeat.LeasePart{Failed: failed("heartbeat"), Clock: o.Clock},
		&managednamespace.NamespacePart{Failed: failed("managednamespace")},
	}
	if o.Spec != nil {
		o.Spec.Failed = failed("clusterspec")
		list = append(list, o.Spec)
	}
	return list
}

// NewRegistry returns a Registry of the parts that logs what cannot start yet.
// The clock defaults to the real one.
func NewRegistry(log logr.Logger, clk clock.Clock, list ...fleet.Part) *fleet.Registry {
	return fleet.NewRegistry(fleet.RegistryOptions{
		Parts: list, Clock: clk,
		Failed: func(_ context.Context, name fleet.ClusterName, what string, err error) {
			log.Info("A part of the agent cannot start yet", "cluster", name, "part", what, "problem", err.Error())
		},
	})
}
