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

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// badInput gives the Klusterlet what users get wrong. Each mistake is told by
// the Klusterlet, and mending it mends the state.
func (s *story) badInput(t *testing.T) {
	klusterlet := "klusterlet/klusterlet"
	good, err := os.ReadFile(s.hubKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range []struct {
		name, reason string
		kubeconfig   string
	}{
		{"malformed kubeconfig", "BootstrapSecretMalformed", "this is no kubeconfig"},
		{"wrong CA", "HubCertificateUntrusted", s.changed(t, func(c *api.Cluster, _ *api.AuthInfo) {
			other, err := clientcmd.LoadFromFile(theLab.KubeconfigPath())
			if err != nil {
				t.Fatal(err)
			}
			c.CertificateAuthorityData = other.Clusters[other.Contexts[memberName].Cluster].CertificateAuthorityData
		})},
		{"expired token", "BootstrapUnauthorized", s.changed(t, func(_ *api.Cluster, a *api.AuthInfo) { a.Token = "expired" })},
		{"unreachable hub", "HubUnreachable", s.changed(t, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://127.0.0.1:1" })},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			s.putBootstrap(t, mistake.kubeconfig)
			s.member.AwaitCondition(t, "Joined", "False "+mistake.reason, klusterlet)
			t.Log(s.member.ReadCondition(t, "Joined", klusterlet))
			s.putBootstrap(t, string(good))
			s.member.AwaitCondition(t, "Joined", "False WaitingForCSRApproval", klusterlet)
		})
	}
	t.Run("unknown feature gate", func(t *testing.T) {
		patch := func(gates string) {
			s.member.RunKubectl(t, "patch", "klusterlet", "klusterlet", "--type=merge", "-p",
				fmt.Sprintf(`{"spec":{"registrationConfiguration":{"featureGates":%s}}}`, gates))
		}
		patch(`[{"feature":"Nonsense","mode":"Enable"}]`)
		s.member.AwaitCondition(t, "ValidFeatureGates", "False InvalidFeatureGatesExisting", klusterlet)
		if message := s.member.ReadCondition(t, "ValidFeatureGates", klusterlet); !strings.Contains(message, "Nonsense") {
			t.Errorf("the condition does not name the gate: %s", message)
		}
		patch("null")
		s.member.AwaitCondition(t, "ValidFeatureGates", "True FeatureGatesAllValid", klusterlet)
	})
	t.Run("cluster name that is no namespace", func(t *testing.T) {
		s.hub.IsRefused(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: a.b}}", []string{"a.b"}, "create", "-f", "-")
	})
}

// changed returns the bootstrap kubeconfig with a mistake in it.
func (s *story) changed(t *testing.T, change func(*api.Cluster, *api.AuthInfo)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(s.hubKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	change(config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo])
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// putBootstrap makes the text the bootstrap kubeconfig of the member.
func (s *story) putBootstrap(t *testing.T, kubeconfig string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := s.member.RunKubectl(t, "-n", agentNamespace, "create", "secret", "generic", "bootstrap-hub-kubeconfig",
		"--from-file=kubeconfig="+file, "--dry-run=client", "-o", "yaml")
	s.member.ApplyText(t, secret)
}
