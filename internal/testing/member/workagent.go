// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member makes members of a hub that are API servers, for tests of what agents do there.
package member

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/agent/work/hubfile"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/testing/background"
)

// WorkAgent is an agent of a Pull cluster that reconciles works, and does nothing else.
type WorkAgent struct {
	// ClusterName is that of the ManagedCluster, AgentID what the records of the works name.
	ClusterName, AgentID string
	// HubKubeconfig is how the agent reaches the hub.
	HubKubeconfig []byte
	Member        *rest.Config
}

// RunWorkAgent runs an agent until the test ends.
func RunWorkAgent(t testing.TB, agent WorkAgent) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hub-kubeconfig")
	if err := os.WriteFile(file, agent.HubKubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	follower := hubfile.NewKubeconfigFollower(hubfile.FollowerOptions{
		File: file, ClusterName: agent.ClusterName, AgentID: agent.AgentID, Member: agent.Member, Log: logr.Discard(),
		Registry: fleet.NewRegistry(fleet.RegistryOptions{Parts: RunWorkParts(t)}),
	})
	background.RunUntilEnd(t, "the work agent of "+agent.ClusterName, follower.RunFollower)
}

// RunWorkParts runs the part of agents that reconciles works until the test ends, and returns
// it for an agent, which may have others.
func RunWorkParts(t testing.TB) []fleet.Part {
	t.Helper()
	part, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	if err != nil {
		t.Fatalf("making the part for works: %v", err)
	}
	background.RunUntilEnd(t, "the part for works", part.Start)
	return []fleet.Part{part}
}
