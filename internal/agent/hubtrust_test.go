// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/join"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// publish makes cluster-info with the bundle, and lets everybody read it.
func (h hub) publish(bundle []byte) {
	h.T.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters[""] = &clientcmdapi.Cluster{Server: h.Config.Host, CertificateAuthorityData: bundle}
	kubeconfig, err := clientcmd.Write(*config)
	expect.NoError(h.T, err)
	meta := metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	expect.NoError(h.T, h.Client.Create(h.T.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{meta.Name}, Verbs: []string{"get"},
	}}}))
	expect.NoError(h.T, h.Client.Create(h.T.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "system:anonymous"}},
	}))
	expect.NoError(h.T, h.Client.Create(h.T.Context(), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"kubeconfig": string(kubeconfig)}}))
}

func TestAuthoritiesThatTheHubPublishesAreFollowed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	successor, err := certs.NewAuthority("successor", time.Now())
	expect.NoError(t, err)
	both := append(slices.Clone(h.Config.CAData), successor.CertPEM...)
	h.publish(both)
	often := func(o *agent.PullAgentOptions) {
		o.FollowEvery, o.DiscoverEvery = 50*time.Millisecond, 100*time.Millisecond
	}
	at, r := h.JoinCluster("trusts", often)
	expect.NoError(t, h.Client.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "trusts"}}))
	h.awaitConnection("trusts", "the authorities that the agent trusts", func(s *fleetv1alpha1.ClusterConnectionStatus) bool {
		return slices.Equal(s.HubAuthorities, certs.PublicKeyPins(both))
	})
	stored := h.ReadSecret("trusts", join.HubSecret)
	kubeconfig, err := clientcmd.Load(stored.Data["kubeconfig"])
	expect.NoError(t, err)
	for _, cluster := range kubeconfig.Clusters {
		if got := certs.PublicKeyPins(cluster.CertificateAuthorityData); !slices.Equal(got, certs.PublicKeyPins(both)) {
			t.Errorf("the stored kubeconfig has the authorities %v, want %v", got, certs.PublicKeyPins(both))
		}
	}
	// Another process of the agent is the same member, although the bootstrap
	// kubeconfig has another CA now, and stores nothing anew.
	r.Stop()
	again := h.RunAgent(at, often)
	h.AwaitState("the agent to work again", func() (string, bool) {
		reason, message := again.Agent.HandshakeStep()
		return fmt.Sprint(reason, message), reason == operatorv1.JoinReasonJoined
	})
	if n := len(h.ListRequests("trusts")); n != 1 {
		t.Errorf("there are %d certificate signing requests, want that of the join only", n)
	}
	if now := h.ReadSecret("trusts", join.HubSecret); now.ResourceVersion != stored.ResourceVersion {
		t.Error("the credential was stored anew although nothing has changed")
	}
}
