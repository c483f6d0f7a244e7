// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// servers are the API servers of the tests of this package.
var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

// startHub starts an API server with the kinds of a hub. They are those that this package
// returns and not files: the check of the proof tables changes the former.
func startHub(t *testing.T) *rest.Config {
	t.Helper()
	hub, err := HubCRDs()
	expect.NoError(t, err)
	propagation, err := PropagationCRDs()
	expect.NoError(t, err)
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDs = slices.Concat(hub, propagation) })
	return config
}
