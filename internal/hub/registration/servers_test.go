// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"os"
	"testing"

	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// servers are the API servers of the tests of this package.
var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

func startHub(t testing.TB, o registration.SetupOptions) *hub.RegistrationHub {
	t.Helper()
	return hub.StartRegistration(t, servers, "../../../config/crd", o)
}
