// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/join"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// BootstrapConfig returns the kubeconfig of an identity with a role.
func (h *Hub) BootstrapConfig(user, role string) clientcmdapi.Config {
	h.T.Helper()
	who := h.AddUser(user)
	if role != "" {
		expect.NoError(h.T, client.IgnoreAlreadyExists(h.Client.Create(h.T.Context(), build.ClusterRoleBinding(user, role, build.UserSubject(user)))))
		granted := &rbacv1.ClusterRole{}
		expect.NoError(h.T, h.Client.Get(h.T.Context(), client.ObjectKey{Name: role}, granted))
		env.WaitAllowed(h.T.Context(), h.T, h.Config, env.UserReview(user), "", granted.Rules[0], true)
	}
	cfg := who.Config()
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"hub": {
			Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "hub", AuthInfo: "u"}},
		CurrentContext: "c",
	}
}

// MakeHome makes what the Klusterlet operator does for the registration agent: a
// namespace with the secrets that it may write but not create, and an identity
// with exactly its permissions.
func (h *Hub) MakeHome(namespace string) AgentHome {
	h.T.Helper()
	ctx := h.T.Context()
	cluster.CreateObjects(h.T, h.Client, build.Namespace(namespace),
		build.Secret(namespace, join.HubSecret, nil), build.Secret(namespace, join.PendingSecret, nil))
	everywhere, namespaced, err := config.Rules(config.RegistrationAgent)
	expect.NoError(h.T, err)
	everywhere = append(everywhere, build.AccessRule(aboutv1alpha1.GroupName, "clusterproperties", "get", "list", "watch")) // as with feature gate ClusterProperty
	user := "home-" + namespace
	subject := build.UserSubject(user)
	cluster.CreateObjects(h.T, h.Client,
		build.ClusterRole(user, everywhere...), build.NamespacedRole(namespace, user, namespaced...),
		build.ClusterRoleBinding(user, user, subject), build.RoleBinding(namespace, user, user, subject))
	review := env.UserReview(user)
	env.WaitAllowed(ctx, h.T, h.Config, review, "", everywhere[0], true)
	env.WaitAllowed(ctx, h.T, h.Config, review, namespace, namespaced[0], true)
	cfg := h.AddUser(user).Config()
	cfg.QPS, cfg.Burst = -1, 0
	return AgentHome{Namespace: namespace, Config: cfg}
}

// SetBootstrap writes the secret with the bootstrap kubeconfig.
func (h *Hub) SetBootstrap(namespace string, kubeconfig clientcmdapi.Config) {
	h.T.Helper()
	data, err := clientcmd.Write(kubeconfig)
	expect.NoError(h.T, err)
	cluster.PutObject(h.T, h.Client, build.Secret(namespace, join.BootstrapSecret, map[string][]byte{"kubeconfig": data}))
}

// RunningAgent is an agent that runs.
type RunningAgent struct {
	Agent *agent.PullAgent
	Stop  func()
}

// RunAgent starts an agent; it ends with the test or with stop.
func (h *Hub) RunAgent(at AgentHome, change func(*agent.PullAgentOptions)) *RunningAgent {
	h.T.Helper()
	options := agent.PullAgentOptions{
		Home: at.Config, Member: at.Config, Namespace: at.Namespace, ClusterName: at.Namespace,
		Claims: true, Log: quiet(h.T),
	}
	options.ClaimRules.CustomMax = 20
	if change != nil {
		change(&options)
	}
	a, err := agent.NewPullAgent(options)
	expect.NoError(h.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.RunAgent(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(expect.Patience):
			h.T.Errorf("the agent did not end within %s", expect.Patience)
		}
	})
	h.T.Cleanup(stop)
	return &RunningAgent{Agent: a, Stop: stop}
}

// quiet logs to the test as long as it runs.
func quiet(t testing.TB) logr.Logger {
	if os.Getenv("AGENT_TEST_LOG") == "" {
		return logr.Discard()
	}
	return testr.NewWithInterface(t, testr.Options{})
}

// JoinCluster brings an agent into the hub.
func (h *Hub) JoinCluster(name string, change func(*agent.PullAgentOptions)) (AgentHome, *RunningAgent) {
	h.T.Helper()
	at := h.MakeHome(name)
	h.SetBootstrap(name, h.BootstrapConfig("bootstrap-"+name, "bootstrap"))
	r := h.RunAgent(at, change)
	h.SignRequest(h.AwaitRequest(name), -time.Minute, time.Hour)
	h.AcceptCluster(name)
	h.AwaitAvailable(name)
	return at, r
}

// AwaitReason waits for the ConfigMap to tell the reason, and returns its message.
func (h *Hub) AwaitReason(namespace, reason string) string {
	h.T.Helper()
	var message string
	h.AwaitState("the reason "+reason, func() (string, bool) {
		cm := &corev1.ConfigMap{}
		err := h.Client.Get(h.T.Context(), client.ObjectKey{Namespace: namespace, Name: operatorv1.JoinStatusConfigMap}, cm)
		message = cm.Data["message"]
		return fmt.Sprint(cm.Data, err), cm.Data["reason"] == reason
	})
	return message
}

// ReadSecret returns a secret of an agent, or nil.
func (h *Hub) ReadSecret(namespace, name string) *corev1.Secret {
	h.T.Helper()
	secret := &corev1.Secret{}
	err := h.Client.Get(h.T.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	expect.NoError(h.T, err)
	return secret
}
