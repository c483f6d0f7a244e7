// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

const degradedType = operatorv1.KlusterletConditionHubConnectionDegraded

// TestOperatorTellsWhyTheClusterDoesNotJoin walks through everything that can be wrong on the way into the
// fleet; each step is mended and leads to the next.
func TestOperatorTellsWhyTheClusterDoesNotJoin(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	const k = "klusterlet"
	const bootstrap, hub = operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret
	h.klusterlet(k)
	h.reconcile(k)
	h.ask(k)
	h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonBootstrapSecretMissing)
	h.expect(k, degradedType, metav1.ConditionTrue, "BootstrapSecretMissing,HubKubeConfigSecretMissing")

	another, err := certs.NewAuthority("another", time.Now())
	expect.NoError(t, err)
	for _, step := range []struct {
		reason     string
		kubeconfig []byte
		joined     string
		degraded   string
		message    string
	}{
		{"a kubeconfig that is none", []byte("rubbish"), operatorv1.JoinReasonBootstrapSecretMalformed, "BootstrapSecretError", "not a valid kubeconfig"},
		{
			"a port where nothing listens", h.kubeconfig("stranger", unknownHub),
			operatorv1.JoinReasonHubUnreachable, "BootstrapSecretError", "https://127.0.0.1:1",
		},
		{
			"the CA of another hub", h.kubeconfig("stranger", func(c *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = another.CertPEM }),
			operatorv1.JoinReasonHubCertificateUntrusted, "BootstrapSecretError", "certificate-authority-data",
		},
		{
			"an expired token", h.kubeconfig("stranger", func(_ *clientcmdapi.Cluster, a *clientcmdapi.AuthInfo) {
				*a = clientcmdapi.AuthInfo{Token: "expired"}
			}),
			operatorv1.JoinReasonBootstrapUnauthorized, "BootstrapSecretError", "expired",
		},
		{
			"a user without permissions", h.kubeconfig("stranger"),
			operatorv1.JoinReasonBootstrapForbidden, "BootstrapSecretUnauthorized", "create managedclusters",
		},
	} {
		h.secret(agentNamespace, bootstrap, map[string][]byte{"kubeconfig": step.kubeconfig})
		h.reconcile(k)
		h.ask(k)
		got := h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionFalse, step.joined)
		if !strings.Contains(got.Message, step.message) {
			t.Errorf("%s: the message %q does not have %q", step.reason, got.Message, step.message)
		}
		h.expect(k, degradedType, metav1.ConditionTrue, step.degraded+",HubKubeConfigSecretMissing")
	}

	h.grant("joiner", bootstrapRules())
	h.secret(agentNamespace, bootstrap, map[string][]byte{"kubeconfig": h.kubeconfig("joiner")})
	h.ask(k)
	h.expect(k, degradedType, metav1.ConditionTrue, "BootstrapSecretFunctional,HubKubeConfigSecretMissing")
	h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonAgentNotRunning)
	h.runPod(k, manifests.RegistrationApp, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	h.reconcile(k)
	h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonAgentStarting)
	h.report(operatorv1.JoinReasonWaitingForCSRApproval, "kubectl certificate approve cluster1-abc")
	h.reconcile(k)
	if got := h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonWaitingForCSRApproval); !strings.Contains(got.Message, "kubectl certificate approve") {
		t.Errorf("the message %q does not have the command that helps", got.Message)
	}

	h.secret(agentNamespace, hub, map[string][]byte{"cluster-name": []byte("cluster1")})
	h.reconcile(k)
	h.expect(k, degradedType, metav1.ConditionTrue, "BootstrapSecretFunctional,HubKubeConfigMissing")
	h.secret(agentNamespace, hub, map[string][]byte{"cluster-name": []byte("cluster1"), "kubeconfig": h.kubeconfig("member")})
	h.reconcile(k)
	h.expect(k, degradedType, metav1.ConditionUnknown, operatorv1.JoinReasonChecking)
	if replicas := *h.deployment(agentNamespace, "klusterlet-work-agent").Spec.Replicas; replicas != 1 {
		t.Errorf("the work agent has %d replicas though its credential is there, want 1", replicas)
	}
	h.report(operatorv1.JoinReasonWaitingForAcceptance, "kubectl patch managedcluster cluster1")
	h.ask(k)
	h.expect(k, degradedType, metav1.ConditionTrue, "BootstrapSecretFunctional,HubKubeConfigUnauthorized")
	h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonWaitingForAcceptance)

	h.grant("member", hubRules())
	h.report(operatorv1.JoinReasonJoined, "")
	h.ask(k)
	h.expect(k, degradedType, metav1.ConditionFalse, operatorv1.KlusterletReasonHubConnectionFunctional)
	h.expect(k, operatorv1.KlusterletJoined, metav1.ConditionTrue, operatorv1.JoinReasonJoined)

	h.secret(agentNamespace, bootstrap, map[string][]byte{"kubeconfig": []byte("rubbish")})
	h.ask(k)
	h.reconcile(k)
	h.expect(k, degradedType, metav1.ConditionFalse, operatorv1.KlusterletReasonHubConnectionFunctional)
}

// report writes what the agent would.
func (h *harness) report(reason, message string) {
	h.t.Helper()
	status := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: operatorv1.JoinStatusConfigMap},
		Data:       map[string]string{operatorv1.JoinStatusReasonKey: reason, operatorv1.JoinStatusMessageKey: message},
	}
	if h.exists(&corev1.ConfigMap{}, agentNamespace, operatorv1.JoinStatusConfigMap) {
		expect.NoError(h.t, h.admin.Update(h.t.Context(), status))
		return
	}
	h.create(status)
}

// runPod makes a pod of the agent with a container in the state.
func (h *harness) runPod(klusterlet, app string, state corev1.ContainerState) {
	h.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: agentNamespace, Name: app,
			Labels: map[string]string{operatorv1.LabelCreatedByKlusterlet: klusterlet, "app": app},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "capstan:test"}}},
	}
	h.create(pod)
	pod.Status = corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", Image: "capstan:test", State: state}}}
	expect.NoError(h.t, h.admin.Status().Update(h.t.Context(), pod))
}

func TestOperatorTellsWhyTheAgentDoesNotRun(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.grant("joiner", bootstrapRules())
	h.klusterlet("klusterlet")
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace}})
	h.secret(agentNamespace, operatorv1.BootstrapHubKubeConfigSecret, map[string][]byte{"kubeconfig": h.kubeconfig("joiner")})
	h.ask("klusterlet")
	h.runPod("klusterlet", manifests.RegistrationApp, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "ImagePullBackOff", Message: "no such image",
	}})
	h.reconcile("klusterlet")
	got := h.expect("klusterlet", operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonAgentNotRunning)
	if !strings.Contains(got.Message, "ImagePullBackOff: no such image") {
		t.Errorf("the message %q does not tell what the pod waits for", got.Message)
	}
}

func TestHubsAreAskedOnlyWhenItIsTime(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace}})
	h.klusterlet("klusterlet")
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "klusterlet"}}
	next := func() time.Duration {
		t.Helper()
		result, err := h.probe.Reconcile(t.Context(), request)
		expect.NoError(t, err)
		return result.RequeueAfter
	}
	if got := next(); got != 30*time.Second {
		t.Errorf("a hub that does not let the agent in is asked again after %s, want 30s", got)
	}
	h.clock.Step(10 * time.Second)
	if got := next(); got != 20*time.Second {
		t.Errorf("an event that changes nothing leads to a request: next after %s, want 20s", got)
	}
	h.grant("member", hubRules())
	h.secret(agentNamespace, operatorv1.HubKubeConfigSecret, map[string][]byte{"kubeconfig": h.kubeconfig("member")})
	if got := next(); got != 5*time.Minute {
		t.Errorf("a changed secret is not seen at once: next after %s, want 5m as the hub lets the agent in", got)
	}
}

func TestOperatorMovesTheAgentsWithTheirCredential(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	const next = "open-cluster-management-agent-next"
	h.grant("member", hubRules())
	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	h.secret(agentNamespace, operatorv1.BootstrapHubKubeConfigSecret, map[string][]byte{"kubeconfig": []byte("x")})
	h.secret(agentNamespace, operatorv1.HubKubeConfigSecret, map[string][]byte{"kubeconfig": h.kubeconfig("member"), "cluster-name": []byte("cluster1")})
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.Namespace = next })
	h.reconcile("klusterlet")
	for _, name := range []string{operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret} {
		if !h.exists(&corev1.Secret{}, next, name) {
			t.Errorf("secret %q did not move along", name)
		}
	}
	h.ask("klusterlet")
	if !h.exists(&corev1.Namespace{}, "", agentNamespace) {
		t.Fatal("the old namespace is removed before the agents in the new one run")
	}
	h.available(next, "klusterlet-registration-agent")
	h.available(next, "klusterlet-work-agent")
	h.reconcile("klusterlet")
	if h.exists(&corev1.Namespace{}, "", agentNamespace) {
		t.Error("the old namespace is left though the agents in the new one work")
	}
	if !h.exists(&corev1.Namespace{}, "", next) {
		t.Error("the new namespace is gone")
	}
}
