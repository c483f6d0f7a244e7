// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/remote"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

func TestHostedOperatorRenewsTokensLongBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeHosted)
	const secret = operatorv1.ExternalManagedKubeConfigWorkSecret
	pods := func() map[string]string {
		return h.deployment("hosted", "hosted-work-agent").Spec.Template.Annotations
	}
	_, first := h.as("hosted", secret)
	claims, err := remote.ParseToken(first)
	if err != nil || claims.Kubernetes.ServiceAccount.UID != h.account("hosted-work-sa") {
		t.Fatalf("the token is not one of the agent's account: %+v %v", claims, err)
	}
	if lifetime := time.Duration(claims.Expires-claims.IssuedAt) * time.Second; lifetime != remote.TokenLifetime {
		t.Errorf("the token lives %s, want %s", lifetime, remote.TokenLifetime)
	}
	rolled := pods()

	h.clock.Step(remote.TokenLifetime/2 - time.Hour)
	h.reconcile("hosted")
	if _, same := h.as("hosted", secret); same != first {
		t.Error("a token is renewed that has more than half of its life before it")
	}
	h.clock.Step(2 * time.Hour)
	h.reconcile("hosted")
	_, second := h.as("hosted", secret)
	if second == first {
		t.Error("a token is not renewed when half of its life is over")
	}
	if now := pods(); now[hashOfMember] != rolled[hashOfMember] {
		t.Errorf("agents are rolled for a new token, which they read from its file: %v, were %v", now, rolled)
	}

	h.clock.SetTime(time.Now())
	expect.NoError(t, h.member.admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "hosted-work-sa"}}))
	h.reconcile("hosted")
	_, third := h.as("hosted", secret)
	if claims, err := remote.ParseToken(third); err != nil || claims.Kubernetes.ServiceAccount.UID != h.account("hosted-work-sa") {
		t.Errorf("the token is still of the account that is gone: %+v %v", claims, err)
	}
	expect.NoError(t, h.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hosted", Name: secret}}))
	h.reconcile("hosted")
	h.as("hosted", secret)
}

// hashOfMember is the annotation of pods that rolls them.
const hashOfMember = "capstan.io/member-kubeconfig-hash"

func TestHostedOperatorRollsAgentsWhenTheServerChanges(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeSingletonHosted)
	before := h.deployment("hosted", "hosted-agent").Spec.Template.Annotations[hashOfMember]
	h.managed("hosted", func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		cluster.TLSServerName = "localhost"
		cluster.DisableCompression = true
	})
	h.reconcile("hosted")
	h.prepared("hosted")
	if after := h.deployment("hosted", "hosted-agent").Spec.Template.Annotations[hashOfMember]; after == before || after == "" {
		t.Errorf("the agent goes on with the kubeconfig %q that it has read, now it is %q", before, after)
	}
	found := &corev1.Secret{}
	h.exists(found, "hosted", operatorv1.ExternalManagedKubeConfigAgentSecret)
	kubeconfig, err := clientcmd.Load(found.Data[operatorv1.KubeConfigKey])
	expect.NoError(t, err)
	cluster := kubeconfig.Clusters[kubeconfig.Contexts[kubeconfig.CurrentContext].Cluster]
	if cluster.TLSServerName != "localhost" || !cluster.DisableCompression || len(cluster.CertificateAuthorityData) == 0 {
		t.Errorf("the agent's kubeconfig lacks what the administrator's says of the server: %+v", cluster)
	}
}

func TestHostedOperatorKeepsLookingAtAgentsOfAnUnreachableManagedCluster(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeSingletonHosted)
	h.available("hosted", "hosted-agent")
	h.managed("hosted", unknownHub)
	h.reconcile("hosted")
	h.expect("hosted", operatorv1.KlusterletConditionReadyToApply, metav1.ConditionFalse, operatorv1.KlusterletReasonPrepareFailed)
	h.expect("hosted", operatorv1.KlusterletConditionAvailable, metav1.ConditionTrue, operatorv1.KlusterletReasonAvailable)
	if len(h.get("hosted").Status.RelatedResources) == 0 {
		t.Error("the status forgets what is installed")
	}
	h.managed("hosted")
	h.reconcile("hosted")
	h.prepared("hosted")
}

func TestHostedRemovalTakesEverythingOnBothClusters(t *testing.T) {
	t.Parallel()
	hostedUnderBothRoles(t, func(t *testing.T, h *hostedHarness) {
		h.host("hosted", operatorv1.InstallModeHosted)
		own := h.member.appliedWork("own", string(h.get("hosted").UID))
		foreign := h.member.appliedWork("foreign", "another-agent")
		h.delete("hosted")
		h.reconcileDeleted("hosted")
		h.member.empty()
		marks := map[string]string{operatorv1.LabelCreatedByKlusterlet: "hosted"}
		if left := slices.Concat(h.marked(marks), h.member.marked(marks)); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
		if h.exists(&corev1.Namespace{}, "", "hosted") {
			t.Error("the namespace of the agents is left, with their credentials")
		}
		for _, name := range []string{agentNamespace, operatorv1.DefaultAddOnNamespace} {
			if h.member.exists(&corev1.Namespace{}, "", name) {
				t.Errorf("namespace %q is left on the managed cluster", name)
			}
		}
		for _, name := range []string{manifests.ExecutionRole, manifests.AggregateRole} {
			if h.member.exists(&rbacv1.ClusterRole{}, "", name) {
				t.Errorf("role %q is left on the managed cluster", name)
			}
		}
		if h.member.exists(&workv1.AppliedManifestWork{}, "", own) || !h.member.exists(&workv1.AppliedManifestWork{}, "", foreign) {
			t.Error("of the AppliedManifestWorks, that of this agent has to go, and no other")
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if !h.member.exists(crd, "", "appliedmanifestworks.work.open-cluster-management.io") || crd.Annotations[operatorv1.AnnotationCRDVersion] != "" {
			t.Errorf("the definitions have to stay, without our version: %v", crd.Annotations)
		}
	})
}

func TestHostedRemovalLeavesAnUnreachableManagedClusterBehindInTheEnd(t *testing.T) {
	t.Parallel()
	hostedUnderBothRoles(t, func(t *testing.T, h *hostedHarness) {
		h.host("hosted", operatorv1.InstallModeHosted)
		h.managed("hosted", unknownHub)
		h.delete("hosted")
		if result := h.reconcile("hosted"); result.RequeueAfter != memberRetry {
			t.Errorf("it is tried again after %s, want %s", result.RequeueAfter, memberRetry)
		}
		got := h.expect("hosted", operatorv1.KlusterletConditionApplied, metav1.ConditionFalse, operatorv1.KlusterletReasonApplyFailed)
		if !strings.Contains(got.Message, "left behind after") {
			t.Errorf("the message %q does not say what will become of it", got.Message)
		}
		const key = operatorv1.AnnotationManagedResourcesEvictionTimestamp
		since := h.get("hosted").Annotations[key]
		if _, err := time.Parse(time.RFC3339, since); err != nil {
			t.Errorf("annotation %s is %q, which is no time: %v", key, since, err)
		}
		h.clock.Step(memberGoneAfter - time.Minute)
		h.reconcile("hosted")
		if h.get("hosted").Annotations[key] != since || !h.exists(&corev1.Secret{}, "hosted", operatorv1.ExternalManagedKubeConfigSecret) {
			t.Error("the time begins anew, or the credential is removed before its time")
		}
		h.clock.Step(2 * time.Minute)
		h.reconcileDeleted("hosted")
		if h.exists(&corev1.Namespace{}, "", "hosted") {
			t.Error("the namespace of the agents is left on the management cluster")
		}
		if !h.member.exists(&corev1.ServiceAccount{}, agentNamespace, "hosted-work-sa") {
			t.Fatal("the managed cluster was reached nevertheless, so the test shows nothing")
		}
		// The next Klusterlet of the name finds what was left behind, and removes it.
		h.host("hosted", operatorv1.InstallModeHosted)
		h.managed("hosted", unknownHub)
		h.delete("hosted")
		h.reconcile("hosted")
		h.managed("hosted")
		h.reconcileDeleted("hosted")
		if left := h.member.marked(map[string]string{operatorv1.LabelCreatedByKlusterlet: "hosted"}); len(left) > 0 {
			t.Errorf("the managed cluster came back in time, but %v is left there", left)
		}
	})
}

func TestHostedRemovalWaitsForACredentialThatCanBeMended(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeHosted)
	h.managed("hosted", func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{Token: "expired"}
	})
	h.delete("hosted")
	for range 3 {
		h.reconcile("hosted")
		h.clock.Step(memberGoneAfter)
	}
	got := h.expect("hosted", operatorv1.KlusterletConditionApplied, metav1.ConditionFalse, operatorv1.KlusterletReasonApplyFailed)
	if !strings.Contains(got.Message, "fix secret") {
		t.Errorf("the message %q does not say what to do", got.Message)
	}
	h.managed("hosted")
	h.reconcileDeleted("hosted")
	if left := h.member.marked(map[string]string{operatorv1.LabelCreatedByKlusterlet: "hosted"}); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestOperatorHostsSeveralAgentsBesideEachOther(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("one", operatorv1.InstallModeHosted)
	h.host("two", operatorv1.InstallModeSingletonHosted, func(k *operatorv1.Klusterlet) { k.Spec.Namespace = "open-cluster-management-agent-two" })
	h.host("three", operatorv1.InstallModeHosted) // its accounts beside those of the first
	for _, name := range []string{"one", "two", "three"} {
		h.prepared(name)
	}
	h.delete("one")
	h.reconcileDeleted("one")
	h.member.empty()
	for _, name := range []string{agentNamespace, "open-cluster-management-agent-two", operatorv1.DefaultAddOnNamespace} {
		if !h.member.exists(&corev1.Namespace{}, "", name) {
			t.Errorf("namespace %q is gone though another Klusterlet needs it", name)
		}
	}
	if !h.member.exists(&rbacv1.ClusterRole{}, "", manifests.ExecutionRole) {
		t.Error("the shared role is gone though other Klusterlets need it")
	}
	if !h.exists(&corev1.Namespace{}, "", "two") || h.exists(&corev1.Namespace{}, "", "one") {
		t.Error("of the namespaces of agents, that of the removed one has to go, and no other")
	}
	for _, name := range []string{"two", "three"} {
		h.reconcile(name)
		h.prepared(name)
		h.delete(name)
		h.reconcileDeleted(name)
	}
	if h.member.exists(&rbacv1.ClusterRole{}, "", manifests.ExecutionRole) || h.member.exists(&corev1.Namespace{}, "", operatorv1.DefaultAddOnNamespace) {
		t.Error("what is shared is left after the last Klusterlet")
	}
}

func TestOperatorHostsAgentsOfTheManagementClusterItself(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.grant(memberUser, []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}})
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "self", Labels: map[string]string{operatorv1.LabelOperatedBy: "klusterlet"}}})
	h.secret("self", operatorv1.ExternalManagedKubeConfigSecret, map[string][]byte{"kubeconfig": h.kubeconfig(memberUser)})
	h.klusterlet("self", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeSingletonHosted })
	for range 2 {
		h.reconcile("self")
		h.prepared("self")
	}
	for _, name := range []string{"self", agentNamespace} {
		if !h.exists(&corev1.Namespace{}, "", name) {
			t.Errorf("namespace %q is gone", name)
		}
	}
	h.delete("self")
	h.reconcileDeleted("self")
	for _, name := range []string{"self", agentNamespace, operatorv1.DefaultAddOnNamespace} {
		if h.exists(&corev1.Namespace{}, "", name) {
			t.Errorf("namespace %q is left", name)
		}
	}
	if left := h.marked(map[string]string{operatorv1.LabelCreatedByKlusterlet: "self"}); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestHostedOperatorRefusesWhatWouldRemoveTooMuch(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	for _, name := range []string{"kube-system", "default", operatorNamespace} {
		h.klusterlet(name, func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeHosted })
		h.refuse(name)
		h.expect(name, operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonUnsupportedMode)
		h.delete(name)
		h.reconcileDeleted(name)
		if !h.exists(&corev1.Namespace{}, "", name) {
			t.Errorf("namespace %q was removed", name)
		}
	}
	h.host("hosted", operatorv1.InstallModeHosted)
	h.update("hosted", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeDefault })
	h.refuse("hosted")
	h.update("hosted", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeHosted })
	h.reconcile("hosted")
	h.prepared("hosted")

	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeHosted })
	h.refuse("klusterlet")
}

func TestHostedOperatorMovesTheAccountsWithTheirNamespace(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeSingletonHosted)
	h.grant("agent-of-cluster1", hubRules())
	h.secret("hosted", operatorv1.HubKubeConfigSecret, map[string][]byte{"kubeconfig": h.kubeconfig("agent-of-cluster1"), "cluster-name": []byte("cluster1")})
	h.reconcile("hosted")
	h.ask("hosted")
	h.update("hosted", func(k *operatorv1.Klusterlet) { k.Spec.Namespace = "open-cluster-management-agent-new" })
	h.reconcile("hosted")
	if !h.member.exists(&corev1.Namespace{}, "", agentNamespace) {
		t.Error("the accounts are gone before the agents work with the new ones")
	}
	h.available("hosted", "hosted-agent")
	h.reconcile("hosted")
	if h.member.exists(&corev1.Namespace{}, "", agentNamespace) || !h.member.exists(&corev1.Namespace{}, "", "open-cluster-management-agent-new") {
		t.Error("the accounts are not in the new namespace only")
	}
	if !h.exists(&corev1.Namespace{}, "", "hosted") {
		t.Error("the namespace of the agents is gone")
	}
}
