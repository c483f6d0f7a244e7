// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"os"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/env"
)

// servers are the API servers of the tests of this package.
var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }
