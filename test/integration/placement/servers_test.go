// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement breaks the placement controller while clusters change, and
// sees that each time the PlacementDecisions end as exactly what the Placements
// declare: no cluster missing, none listed twice, and nothing written any more.
// Replica sets lose the API server in the middle of a rollout, and end with one
// work for each cluster.
// With -args -long the fleets are larger and the faults last longer.
package placement

import (
	"flag"
	"os"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/env"
)

var long = flag.Bool("long", false, "larger fleets, and longer faults")

// Servers are the API servers of the tests in this folder, which are of two packages.
var Servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(Servers.RunTests(m)) }
