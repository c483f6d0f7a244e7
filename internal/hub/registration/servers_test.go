// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"os"
	"testing"

	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// servers are the API servers of the tests of this package.
var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

// Hubs are of the kinds that several tests share, one after the other: a test has clusters of
// its own, and removes them.
var (
	clusterHubs   = hubsWith(clusterOptions)
	uniqueHubs    = hubsWith(uniqueOptions)
	projectedHubs = hubsWith(projectedOptions)
	guardedHubs   = env.NewFixtures(servers, func(t testing.TB) *hub.RegistrationHub {
		t.Helper()
		o := clusterOptions(t)
		o.AgentLabels = agentlabels.AllowedKeys{"env"}
		h := startHub(t, o)
		h.InstallGuards(t)
		return h
	})
)

func hubsWith(options func(testing.TB) registration.SetupOptions) *env.Fixtures[*hub.RegistrationHub] {
	return env.NewFixtures(servers, func(t testing.TB) *hub.RegistrationHub {
		t.Helper()
		return startHub(t, options(t))
	})
}

func clusterOptions(t testing.TB) registration.SetupOptions {
	t.Helper()
	return registration.SetupOptions{Gates: hub.ResolveGates(t, nil), OwnNamespace: "open-cluster-management-hub"}
}

// uniqueOptions are those of a hub on which one cluster has one name.
func uniqueOptions(t testing.TB) registration.SetupOptions {
	t.Helper()
	return registration.SetupOptions{Gates: hub.ResolveGates(t, map[string]bool{"UniqueClusterIdentity": true}), OwnNamespace: "open-cluster-management-hub"}
}

// projectedOptions are those of a hub with the Cluster API.
func projectedOptions(t testing.TB) registration.SetupOptions {
	t.Helper()
	o := clusterOptions(t)
	o.Mirror = true
	return o
}

// removeClusters deletes clusters, one after the other, and waits until each is gone.
func removeClusters(t testing.TB, h *hub.RegistrationHub, names ...string) {
	t.Helper()
	for _, name := range names {
		expect.NoError(t, h.Client.Delete(t.Context(), hub.NewCluster(name, false)))
		h.IsGone(t, hub.NewCluster(name, false))
	}
}

func startHub(t testing.TB, o registration.SetupOptions) *hub.RegistrationHub {
	t.Helper()
	return hub.StartRegistration(t, servers, "../../../config/crd", o)
}
