// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

const (
	agentNamespace    = "open-cluster-management-agent"
	hubNamespace      = "open-cluster-management-hub"
	operatorNamespace = "open-cluster-management"
	clusterNameLabel  = "open-cluster-management.io/cluster-name"
)

// TestHubAndSpoke is the life of a hub and a member, from the installation to
// the removal of both. The steps build on each other, so the first that fails
// ends it.
func TestHubAndSpoke(t *testing.T) {
	hub, member := theLab.Cluster(hubName), theLab.Cluster(memberName)
	harness.DiagnoseFailure(t, hub, member)
	s := &story{hub: hub, member: member, clusterName: memberName, hubKubeconfig: filepath.Join(t.TempDir(), "hub-kubeconfig")}

	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"deploy the hub", s.deployHub},
		{"deploy the spoke in Default mode", s.deploySpoke("Default")},
		{"the Klusterlet shows what it is waiting for", s.waitsForApproval},
		{"mistakes are told and can be mended", s.badInput},
		{"approve and accept by kubectl", s.approveAndAccept},
		{"every condition of the operators is good", s.operatorsAreGood},
		{"deliver a workload", s.deliver},
		{"drift is mended", s.mendDrift},
		{"no component has logged an error", s.noErrors},
		{"bad manifests and works are told", s.badWorks},
		{"the hub is told what runs, and an executor limits what may", s.reports},
		{"permissions are as committed", s.permissionsAreAsCommitted},
		{"attacks from a bootstrap identity are refused", s.attackAsBootstrap},
		{"attacks from an agent are refused", s.attackAsAgent},
		{"nothing restarts on a starved machine", s.survives(pressure{works: 10, busy: 12, lasts: 45 * time.Second})},
		{"the certificate is renewed without a restart", s.renewal},
		{"the hub's API server goes away and comes back", s.hubOutage}, // while the certificate is young
		{"deny and accept again", s.denyAndAccept},
		{"a denied cluster that comes back stays out", s.deniedComesBack},
		{"agents and operators are killed while works change", s.chaos},
		{"switch to Singleton mode", s.switchToSingleton},
		{"detach: delete the ManagedCluster and the Klusterlet, and nobody logs an error", s.leaveWithoutErrors},
		{"join again after a clean removal", s.joinAgain},
		{"delete the Klusterlet while the hub is down", s.deleteKlusterletWithoutHub},
		{"delete the ClusterManager while a cluster is unreachable", s.deleteClusterManager},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("the story ends at %q", step.name)
		}
	}
}

// story is a hub and a member with what the steps need to know.
type story struct {
	hub, member   harness.Cluster
	clusterName   string
	hubKubeconfig string // bootstrap kubeconfig that deploy-hub writes
}

func (s *story) variables(mode string) map[string]string {
	return map[string]string{
		"HUB_CONTEXT": s.hub.Name, "SPOKE_CONTEXT": s.member.Name, "HUB_KUBECONFIG": s.hubKubeconfig,
		"MANAGED_CLUSTER_NAME": s.clusterName, "KLUSTERLET_MODE": mode,
	}
}

func (s *story) deployHub(t *testing.T) {
	theLab.MakeTarget(t, "deploy-hub", s.variables("Default"))
	s.hub.AwaitCondition(t, "Applied", "True ClusterManagerApplied", "clustermanager/cluster-manager")
	s.hub.AwaitCondition(t, "Progressing", "False ClusterManagerUpToDate", "clustermanager/cluster-manager")
	if info, err := os.Stat(s.hubKubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bootstrap kubeconfig has to be there and be private: %v, %v", info, err)
	}
}

func (s *story) deploySpoke(mode string) func(*testing.T) {
	return func(t *testing.T) { theLab.MakeTarget(t, "deploy-spoke", s.variables(mode)) }
}

func (s *story) waitsForApproval(t *testing.T) {
	s.member.AwaitCondition(t, "Joined", "False WaitingForCSRApproval", "klusterlet/klusterlet")
	message := s.member.ReadCondition(t, "Joined", "klusterlet/klusterlet")
	if !strings.Contains(message, "kubectl certificate approve") {
		t.Errorf("the condition does not say how to get on: %s", message)
	}
}

// approve approves the certificate requests of the cluster that wait.
func (s *story) approve(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() error {
		switch approved, err := s.approveWaiting(t); {
		case err != nil:
			return err
		case approved == 0:
			return fmt.Errorf("no certificate signing request of cluster %s waits for approval", s.clusterName)
		}
		return nil
	})
}

// approveWaiting approves the certificate requests of the cluster that wait now, and returns how many
// there are. One that the hub approves or deletes meanwhile is an error that the next look mends.
func (s *story) approveWaiting(t *testing.T) (int, error) {
	t.Helper()
	list, err := s.hub.TryKubectl(t.Context(), "", "get", "csr", "-l", clusterNameLabel+"="+s.clusterName,
		"-o", `go-template={{range .items}}{{if not .status.conditions}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}`)
	if err != nil {
		return 0, err
	}
	names := strings.Fields(list)
	if len(names) > 0 {
		_, err = s.hub.TryKubectl(t.Context(), "", append([]string{"certificate", "approve"}, names...)...)
	}
	return len(names), err
}

func (s *story) accept(t *testing.T, accepted bool) {
	t.Helper()
	s.retry(t, "", "patch", "managedcluster", s.clusterName, "--type=merge",
		"-p", fmt.Sprintf(`{"spec":{"hubAcceptsClient":%t}}`, accepted))
}

func (s *story) approveAndAccept(t *testing.T) {
	s.approve(t)
	s.accept(t, true)
	s.isAvailable(t)
	s.member.AwaitCondition(t, "HubConnectionDegraded", "False HubConnectionFunctional", "klusterlet/klusterlet")
}

func (s *story) isAvailable(t *testing.T) {
	t.Helper()
	object := "managedcluster/" + s.clusterName
	s.hub.AwaitCondition(t, "HubAcceptedManagedCluster", "True HubClusterAdminAccepted", object)
	s.hub.AwaitCondition(t, "ManagedClusterJoined", "True ManagedClusterJoined", object)
	s.hub.AwaitCondition(t, "ManagedClusterConditionAvailable", "True ManagedClusterAvailable", object)
}

func (s *story) operatorsAreGood(t *testing.T) {
	for condition, want := range map[string]string{
		"Applied": "True ClusterManagerApplied", "Progressing": "False ClusterManagerUpToDate",
		"HubRegistrationDegraded": "False RegistrationFunctional", "HubPlacementDegraded": "False",
		"ValidFeatureGates": "True FeatureGatesAllValid",
	} {
		s.hub.AwaitCondition(t, condition, want, "clustermanager/cluster-manager")
	}
	for condition, want := range map[string]string{
		"Applied": "True KlusterletApplied", "Available": "True KlusterletAvailable",
		"RegistrationDesiredDegraded": "False DeploymentsFunctional", "WorkDesiredDegraded": "False DeploymentsFunctional",
		"HubConnectionDegraded": "False HubConnectionFunctional", "ValidFeatureGates": "True FeatureGatesAllValid",
		"Joined": "True Joined",
	} {
		s.member.AwaitCondition(t, condition, want, "klusterlet/klusterlet")
	}
	if claims := s.hub.ReadPath(t, "{.status.version.kubernetes}", "managedcluster/"+s.clusterName); !strings.HasPrefix(claims, "v1.") {
		t.Errorf("the ManagedCluster has no Kubernetes version: %q", claims)
	}
	if cpu := s.hub.ReadPath(t, "{.status.capacity.cpu}", "managedcluster/"+s.clusterName); cpu == "" {
		t.Error("the ManagedCluster has no CPU capacity")
	}
}

// nothingIsLeft fails the test if a cluster still has something of Capstan.
func (s *story) nothingIsLeft(t *testing.T, c harness.Cluster) {
	t.Helper()
	harness.Eventually(t, func() error { return c.FindLeftovers(t.Context()) })
}
