// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// tokenPatience is how long the token controller may take to fill a secret.
const tokenPatience = 2 * time.Minute

// TestTheRegistrationAgentGetsNoTokenOfAnotherAccount attacks with the rights of
// the agent that joins: a secret of type service-account-token makes Kubernetes
// write a token of any account of its namespace into it, and the agent may read
// secrets of two names.
func TestTheRegistrationAgentGetsNoTokenOfAnotherAccount(t *testing.T) {
	t.Parallel()
	h := startHosted(t)
	h.startTokens()
	for name, mode := range map[string]operatorv1.InstallMode{
		"default": operatorv1.InstallModeDefault, "singleton": operatorv1.InstallModeSingleton,
		"hosted": operatorv1.InstallModeHosted, "singletonhosted": operatorv1.InstallModeSingletonHosted,
	} {
		t.Run(string(mode), func(t *testing.T) {
			here := *h.harness
			here.t = t
			both := &hostedHarness{harness: &here, member: h.member}
			// What someone has put there before the operator came.
			namespace := "open-cluster-management-" + name
			if mode == operatorv1.InstallModeHosted || mode == operatorv1.InstallModeSingletonHosted {
				namespace = name
			}
			here.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{operatorv1.LabelOperatedBy: "klusterlet"}}})
			here.create(tokenSecret(namespace, operatorv1.HubKubeConfigPendingSecret, "default"))
			both.host(name, mode, func(k *operatorv1.Klusterlet) { k.Spec.Namespace = "open-cluster-management-" + name })
			klusterlet := here.get(name)

			for _, secret := range []string{operatorv1.HubKubeConfigSecret, operatorv1.HubKubeConfigPendingSecret} {
				live := &corev1.Secret{}
				if !here.exists(live, namespace, secret) || live.Type != corev1.SecretTypeOpaque || len(live.Data) > 0 {
					t.Errorf("secret %q is not made empty and opaque for the agent: %s with %d keys", secret, live.Type, len(live.Data))
				}
			}
			here.ask(name)
			here.expect(name, operatorv1.KlusterletConditionHubConnectionDegraded, metav1.ConditionTrue, "BootstrapSecretMissing,HubKubeConfigSecretMissing")
			if mode == operatorv1.InstallModeSingleton {
				return // its account is that of the work agent
			}
			account := manifests.RegistrationAccount(klusterlet)
			if mode == operatorv1.InstallModeSingletonHosted {
				account = manifests.WorkAccount(klusterlet)
			}

			// These are all ways to a token of the victim with the rights of the account.
			victim := manifests.WorkAccount(klusterlet)
			agent := here.client(cluster.AsUser(here.config, "system:serviceaccount:"+namespace+":"+account,
				"system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated"))
			// The rights of the agent are there: it may write its own secrets.
			pending := &corev1.Secret{}
			key := types.NamespacedName{Namespace: namespace, Name: operatorv1.HubKubeConfigPendingSecret}
			expect.NoError(t, agent.Get(t.Context(), key, pending))
			retyped := pending.DeepCopy()
			retyped.Annotations = map[string]string{corev1.ServiceAccountNameKey: victim}
			expect.NoError(t, agent.Update(t.Context(), retyped))
			retyped.Type = corev1.SecretTypeServiceAccountToken
			if err := agent.Update(t.Context(), retyped); err == nil {
				t.Error("the type of the secret was changed")
			}
			if err := agent.Delete(t.Context(), pending); !apierrors.IsForbidden(err) {
				t.Errorf("the agent deletes secret %q, so that it can be made anew: %v", key, err)
			}
			for _, name := range []string{operatorv1.HubKubeConfigPendingSecret, operatorv1.HubKubeConfigSecret, "any"} {
				if err := agent.Create(t.Context(), tokenSecret(namespace, name, victim)); !apierrors.IsForbidden(err) {
					t.Errorf("the agent creates secret %q for a token of %q: %v", name, victim, err)
				}
			}
			// Whoever may create secrets does get a token, and by then the agent would have, too.
			control := tokenSecret(namespace, "control", victim)
			here.create(control)
			expect.EventuallyTrue(t, tokenPatience, "the token controller fills a secret, without which the attack proves nothing", func() bool {
				expect.NoError(t, here.admin.Get(t.Context(), client.ObjectKeyFromObject(control), control))
				return len(control.Data[corev1.ServiceAccountTokenKey]) > 0
			})
			expect.NoError(t, here.admin.Get(t.Context(), key, pending))
			if len(pending.Data[corev1.ServiceAccountTokenKey]) > 0 {
				t.Errorf("the agent has a token of %q", victim)
			}
		})
	}
}

func tokenSecret(namespace, name, account string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// startTokens runs the controller that puts tokens into secrets.
func (h *harness) startTokens() {
	h.t.Helper()
	dir := h.t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	expect.NoError(h.t, os.WriteFile(kubeconfig, h.env.KubeConfig, 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	expect.NoError(h.t, err)
	command := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+kubeconfig, "--controllers=serviceaccount-token-controller,serviceaccount-controller",
		"--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+filepath.Join(h.env.ControlPlane.APIServer.CertDir, "sa-signer.key"))
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		h.t.Fatalf("starting the token controller (make envtest-assets lays it out): %v", err)
	}
	h.t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			h.t.Error(err)
		}
		_ = command.Wait() // killed
		if h.t.Failed() {
			content, _ := os.ReadFile(log.Name()) // what there is
			h.t.Logf("the token controller said:\n%s", content)
		}
		_ = log.Close()
	})
}
