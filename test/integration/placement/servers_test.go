// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"os"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/env"
)

// Servers are the API servers of the tests in this folder, which are of two packages.
var Servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(Servers.RunTests(m)) }
