// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// hostedName is the name of the Klusterlet with hosted agents, and of their
	// namespace.
	hostedName = "hosted1"
	// hostedHub is the name of the ClusterManager with a hosted hub, and of the
	// namespace of its components.
	hostedHub = "hostedhub"
)

// TestHosted lets a cluster be a hub and another one its member that have no pod
// of Capstan: the hub's components and the agents, in both hosted modes, run on a
// third one. It removes all of it again.
func TestHosted(t *testing.T) {
	hub, management, member := inLab(hubName), inLab(allInOneName), inLab(memberName)
	diagnose(t, hub, management, member)
	s := &story{hub: hub, member: member, clusterName: memberName, hubKubeconfig: filepath.Join(t.TempDir(), "hub-kubeconfig")}
	h := &hostedStory{
		story: s, management: management,
		hubAdmin: filepath.Join(t.TempDir(), "hub-admin"), memberKubeconfig: filepath.Join(t.TempDir(), "member-kubeconfig"),
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"deploy the hub in mode Hosted", h.deployHub},
		{"deploy the agents in mode Hosted", h.deploy},
		{"approve and accept by kubectl", h.approveAndAccept},
		{"deliver a workload", s.deliver},
		{"drift is mended", s.mendDrift},
		{"switch to mode SingletonHosted", h.switchToSingleton},
		{"agents take over a new token without a restart", h.newToken},
		{"detach: delete the ManagedCluster", s.deleteManagedCluster},
		{"remove the agents from both clusters", h.remove},
		{"remove the hub", h.removeHub},
	} {
		if !t.Run(step.name, step.run) {
			t.Fatalf("the story ends at %q", step.name)
		}
	}
}

// hostedStory is one whose agents run on the management cluster.
type hostedStory struct {
	*story
	management cluster
	// hubAdmin and memberKubeconfig are files for what is hosted to get to the hub
	// and to the member.
	hubAdmin, memberKubeconfig string
}

func (h *hostedStory) hubVariables() map[string]string {
	return map[string]string{
		"HUB_CONTEXT": h.management.name, "EXTERNAL_HUB_KUBECONFIG": h.hubAdmin, "HUB_KUBECONFIG": h.hubKubeconfig,
		"HOSTED_CLUSTER_MANAGER_NAME": hostedHub,
	}
}

// saveKubeconfig writes the administrator's kubeconfig of a cluster.
func saveKubeconfig(t *testing.T, name, file string) {
	t.Helper()
	kubeconfig, err := theLab.run(t.Context(), "kubeconfig", name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *hostedStory) deployHub(t *testing.T) {
	saveKubeconfig(t, hubName, h.hubAdmin)
	makeTarget(t, "deploy-hub-hosted", h.hubVariables())
	for condition, want := range map[string]string{
		"Applied": "True ClusterManagerApplied", "Progressing": "False ClusterManagerUpToDate",
		"HubRegistrationDegraded": "False RegistrationFunctional",
	} {
		h.management.waitCondition(t, condition, want, "clustermanager/"+hostedHub)
	}
	if pods := h.hub.kubectl(t, "get", "pods", "-A", "-l", "open-cluster-management.io/created-by-clustermanager", "-o", "name"); pods != "" {
		t.Errorf("the hub has pods of Capstan: %s", pods)
	}
	// The webhook of works is on the other cluster, and answers.
	big := fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: big, namespace: default}, data: {a: %s}}`, strings.Repeat("x", 512001))
	h.hub.refused(t, "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: big, namespace: default}\n"+
		"spec: {workload: {manifests: ["+big+"]}}\n", []string{"manifestworkvalidators", "512000"}, "create", "-f", "-")
}

func (h *hostedStory) hostedVariables(mode string) map[string]string {
	variables := h.variables(mode)
	maps.Copy(variables, map[string]string{
		"SPOKE_CONTEXT": h.management.name, "KLUSTERLET_NAME": hostedName, "EXTERNAL_MANAGED_KUBECONFIG": h.memberKubeconfig,
	})
	return variables
}

func (h *hostedStory) deploy(t *testing.T) {
	saveKubeconfig(t, memberName, h.memberKubeconfig)
	makeTarget(t, "deploy-spoke-hosted", h.hostedVariables("Default"))
	h.management.waitCondition(t, "ReadyToApply", "True KlusterletPrepared", "klusterlet/"+hostedName)
}

func (h *hostedStory) approveAndAccept(t *testing.T) {
	h.approve(t)
	h.accept(t, true)
	h.good(t)
}

// good waits until the member is Available and all that runs for it works.
func (h *hostedStory) good(t *testing.T) {
	t.Helper()
	h.isAvailable(t)
	for condition, want := range map[string]string{
		"Applied": "True KlusterletApplied", "Available": "True KlusterletAvailable",
		"RegistrationDesiredDegraded": "False DeploymentsFunctional", "WorkDesiredDegraded": "False DeploymentsFunctional",
		"HubConnectionDegraded": "False HubConnectionFunctional", "Joined": "True Joined",
	} {
		h.management.waitCondition(t, condition, want, "klusterlet/"+hostedName)
	}
}

func (h *hostedStory) switchToSingleton(t *testing.T) {
	makeTarget(t, "apply-spoke-cr-hosted", h.hostedVariables("Singleton"))
	h.management.waitGone(t, "-n", hostedName, "deployment/"+hostedName+"-work-agent")
	h.management.waitGone(t, "-n", hostedName, "secret/external-managed-kubeconfig-work")
	h.good(t)
	h.greet(t, "third")
}

func (h *hostedStory) greet(t *testing.T, text string) {
	t.Helper()
	h.hub.apply(t, fmt.Sprintf(workload, h.clusterName, text))
	h.memberHas(t, "greeting", text)
}

// newToken makes the agents' account on the member anew, so that their token is
// of no use any more.
func (h *hostedStory) newToken(t *testing.T) {
	token := func() string {
		return h.management.jsonpath(t, "{.data.token}", "-n", hostedName, "secret/external-managed-kubeconfig-agent")
	}
	pods := func() string {
		return h.management.jsonpath(t, "{.items[*].metadata.uid} {.items[*].status.containerStatuses[*].restartCount}", "-n", hostedName, "pods")
	}
	before, running := token(), pods()
	h.member.kubectl(t, "-n", agentNamespace, "delete", "serviceaccount", hostedName+"-work-sa")
	// The operator looks at the member every few minutes; this makes it look now.
	h.management.kubectl(t, "annotate", "klusterlet/"+hostedName, "capstan.io/look=now")
	eventually(t, func() error {
		if token() == before {
			return fmt.Errorf("the agents have no new token")
		}
		return nil
	})
	decoded, err := base64.StdEncoding.DecodeString(before)
	if err != nil {
		t.Fatal(err)
	}
	server := h.member.kubectl(t, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	// The member remembers for some seconds that it knew the token.
	eventually(t, func() error {
		_, err := h.member.as(os.DevNull).try(t.Context(), "", "--server", server, "--insecure-skip-tls-verify", "--token", string(decoded), "get", "namespaces")
		if err == nil {
			return fmt.Errorf("the member still takes the token of the account that is gone")
		}
		if !strings.Contains(err.Error(), "provide credentials") && !strings.Contains(err.Error(), "Unauthorized") {
			return err
		}
		return nil
	})
	h.greet(t, "fourth")
	if now := pods(); now != running {
		t.Errorf("the agents were restarted for a new token: pods and restarts were %q, now %q", running, now)
	}
}

func (h *hostedStory) remove(t *testing.T) {
	makeTarget(t, "clean-spoke-hosted", h.hostedVariables("Singleton"))
	h.management.waitGone(t, "namespace", hostedName)
	h.nothingIsLeft(t, h.member)
}

func (h *hostedStory) removeHub(t *testing.T) {
	restarts := h.management.jsonpath(t, "{.items[*].status.containerStatuses[*].restartCount}", "-n", hostedHub, "pods")
	if strings.Trim(restarts, "0 ") != "" {
		t.Errorf("components of the hub were restarted: %s", restarts)
	}
	makeTarget(t, "clean-hub-hosted", h.hubVariables())
	for _, c := range []cluster{h.hub, h.management} {
		c.waitGone(t, "namespace", hostedHub)
		h.nothingIsLeft(t, c)
	}
}
