// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/capstan-io/capstan/internal/agent/clusterinfo"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/heartbeat"
	"github.com/capstan-io/capstan/internal/agent/managednamespace"
	"github.com/capstan-io/capstan/internal/fleet"
)

// Parts returns what an agent of a Pull cluster does for registration once it
// has joined, but for what a Klusterlet says: a Push cluster has none.
func Parts(log logr.Logger, claims clusterstatus.ClaimRules) []fleet.Part {
	failed := func(part string) func(context.Context, error) {
		return func(_ context.Context, err error) {
			log.Info("A part of the agent failed and tries again", "part", part, "problem", err.Error())
		}
	}
	return []fleet.Part{
		&clusterstatus.Part{Claims: true, ClaimRules: claims, Failed: failed("clusterstatus")},
		&clusterinfo.Part{Failed: failed("clusterinfo")},
		&heartbeat.Part{Failed: failed("heartbeat")},
		&managednamespace.Part{Failed: failed("managednamespace")},
	}
}
