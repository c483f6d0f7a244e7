// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// memberUser is who the operator is on a managed cluster.
const memberUser = "installer"

// hostedHarness is an operator on a management cluster with a managed cluster
// beside it, on which it may do what docs/spec/operator/klusterlet.md says.
type hostedHarness struct {
	*harness
	member *harness
}

// hostedOperators are for tests that need a fresh Klusterlet only.
var hostedOperators = env.NewFixtures(servers, startHosted)

// takeHosted returns an operator that cleans up both clusters when the test ends.
func takeHosted(t *testing.T, from *env.Fixtures[*hostedHarness]) *hostedHarness {
	t.Helper()
	both := from.TakeFixture(t)
	as := func(t testing.TB) *hostedHarness {
		here, there := *both.harness, *both.member
		here.t, there.t = t, t
		return &hostedHarness{harness: &here, member: &there}
	}
	both.clock.SetTime(time.Now()) // that of the API servers
	env.WhenDone(t, func(t testing.TB) {
		done := as(t)
		done.clean()
		done.member.empty()
	})
	return as(t)
}

func startHosted(t testing.TB) *hostedHarness {
	t.Helper()
	return host(t, start(t))
}

// host gives the operator a managed cluster.
func host(t testing.TB, h *harness) *hostedHarness {
	t.Helper()
	environment, memberConfig := servers.Start(t)
	member := &harness{t: t, env: environment, config: memberConfig}
	member.admin = member.client(memberConfig)
	rules, _, err := config.Rules(config.Klusterlet)
	expect.NoError(t, err)
	member.grant(memberUser, append(rules, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"},
	}))
	return &hostedHarness{harness: h, member: member}
}

// managed writes the secret that leads to the managed cluster.
func (h *hostedHarness) managed(name string, change ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) {
	h.t.Helper()
	h.secret(name, operatorv1.ExternalManagedKubeConfigSecret, map[string][]byte{"kubeconfig": h.member.kubeconfig(memberUser, change...)})
}

// host makes a Klusterlet of the mode whose managed cluster can be reached.
func (h *hostedHarness) host(name string, mode operatorv1.InstallMode, change ...func(*operatorv1.Klusterlet)) {
	h.t.Helper()
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{operatorv1.LabelOperatedBy: "klusterlet"}}})
	h.managed(name)
	h.klusterlet(name, append(change, func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = mode })...)
	h.reconcile(name)
}

func (h *hostedHarness) prepared(name string) {
	h.t.Helper()
	h.expect(name, operatorv1.KlusterletConditionReadyToApply, metav1.ConditionTrue, operatorv1.KlusterletReasonPrepared)
	h.expect(name, operatorv1.KlusterletConditionApplied, metav1.ConditionTrue, operatorv1.KlusterletReasonApplied)
}

func TestHostedOperatorInstallsEachPartWhereItBelongs(t *testing.T) {
	t.Parallel()
	hostedUnderBothRoles(t, func(t *testing.T, h *hostedHarness) {
		h.host("hosted", operatorv1.InstallModeHosted)
		h.prepared("hosted")
		for _, name := range []string{"hosted-registration-agent", "hosted-work-agent"} {
			container := h.deployment("hosted", name).Spec.Template.Spec.Containers[0]
			expect.TextHas(t, name+" "+strings.Join(container.Args, " "), "--spoke-kubeconfig=/spoke/config/kubeconfig")
		}
		for _, name := range []string{"appliedmanifestworks.work.open-cluster-management.io", "clusterclaims.cluster.open-cluster-management.io"} {
			if !h.member.exists(&apiextensionsv1.CustomResourceDefinition{}, "", name) {
				t.Errorf("definition %q is missing on the managed cluster", name)
			}
		}
		for _, name := range []string{agentNamespace, operatorv1.DefaultAddOnNamespace} {
			if !h.member.exists(&corev1.Namespace{}, "", name) {
				t.Errorf("namespace %q is missing on the managed cluster", name)
			}
			if h.exists(&corev1.Namespace{}, "", name) {
				t.Errorf("namespace %q is on the management cluster, where nobody needs it", name)
			}
		}
		if h.exists(&rbacv1.ClusterRoleBinding{}, "", "open-cluster-management:hosted-work:execution-admin") {
			t.Error("the agent is an administrator of the management cluster")
		}
		for _, name := range []string{"hosted-registration-sa", "hosted-work-sa"} {
			if !h.exists(&corev1.ServiceAccount{}, "hosted", name) || !h.member.exists(&corev1.ServiceAccount{}, agentNamespace, name) {
				t.Errorf("ServiceAccount %q is missing on one of the clusters", name)
			}
		}
		expect.TextHas(t, strings.Join(h.get("hosted").Finalizers, " "), operatorv1.FinalizerKlusterletCleanup, operatorv1.FinalizerKlusterletHostedCleanup)
		before := h.get("hosted").ResourceVersion
		if result := h.reconcile("hosted"); result.RequeueAfter != memberResync {
			t.Errorf("the managed cluster is looked at again after %s, want %s", result.RequeueAfter, memberResync)
		}
		if h.get("hosted").ResourceVersion != before {
			t.Error("a pass with nothing to do changes the Klusterlet")
		}
	})
}

func TestHostedOperatorInstallsOneAgentInModeSingletonHosted(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeHosted)
	h.update("hosted", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeSingletonHosted })
	h.reconcile("hosted")
	h.prepared("hosted")
	h.deployment("hosted", "hosted-agent")
	if !h.exists(&corev1.Secret{}, "hosted", operatorv1.ExternalManagedKubeConfigAgentSecret) {
		t.Error("the agent has no kubeconfig of the managed cluster")
	}
	for _, name := range []string{operatorv1.ExternalManagedKubeConfigRegistrationSecret, operatorv1.ExternalManagedKubeConfigWorkSecret} {
		if h.exists(&corev1.Secret{}, "hosted", name) {
			t.Errorf("secret %q of the mode before is left, and nobody renews its token", name)
		}
	}
}

func TestHostedOperatorTellsWhyTheManagedClusterCannotBeWorkedOn(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.klusterlet("hosted", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeHosted })
	h.member.grant("stranger", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}})
	for _, step := range []struct {
		problem string
		data    map[string][]byte
		reason  string
		message string
	}{
		{"there is no secret", nil, operatorv1.JoinReasonManagedKubeconfigMissing, `secret "hosted/external-managed-kubeconfig" does not exist`},
		{"the key is called otherwise", map[string][]byte{"config": {1}}, operatorv1.JoinReasonManagedKubeconfigMissing, `has no key "kubeconfig"`},
		{"it is no kubeconfig", map[string][]byte{"kubeconfig": []byte("{")}, operatorv1.JoinReasonManagedKubeconfigMalformed, "not a valid kubeconfig"},
		{"nothing listens there", map[string][]byte{"kubeconfig": h.member.kubeconfig(memberUser, unknownHub)}, operatorv1.JoinReasonManagedClusterUnreachable, "the managed cluster"},
		{"it is another cluster's credential", map[string][]byte{"kubeconfig": h.member.kubeconfig(memberUser, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Token: "unknown"}
		})}, operatorv1.JoinReasonManagedClusterUnauthorized, "rejects the credential"},
		{"the CA is another's", map[string][]byte{"kubeconfig": h.member.kubeconfig(memberUser, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.CertificateAuthorityData = h.env.Config.CAData
		})}, operatorv1.JoinReasonManagedClusterUntrusted, "certificate-authority-data"},
		{"it may do nothing", map[string][]byte{"kubeconfig": h.member.kubeconfig("stranger")}, operatorv1.JoinReasonManagedClusterForbidden, "create namespaces"},
	} {
		if step.data != nil {
			h.secret("hosted", operatorv1.ExternalManagedKubeConfigSecret, step.data)
		}
		if result := h.reconcile("hosted"); result.RequeueAfter != memberRetry {
			t.Errorf("%s: it is tried again after %s, want %s", step.problem, result.RequeueAfter, memberRetry)
		}
		got := h.expect("hosted", operatorv1.KlusterletConditionReadyToApply, metav1.ConditionFalse, operatorv1.KlusterletReasonPrepareFailed)
		if !strings.Contains(got.Message, step.message) {
			t.Errorf("%s: the message is %q, want one with %q", step.problem, got.Message, step.message)
		}
		h.expect("hosted", operatorv1.KlusterletConditionApplied, metav1.ConditionFalse, operatorv1.KlusterletReasonManagedClusterResourceApplyFailed)
		h.expect("hosted", operatorv1.KlusterletJoined, metav1.ConditionFalse, step.reason)
	}
	if finalizers := h.get("hosted").Finalizers; len(finalizers) != 1 {
		t.Errorf("nothing is installed on the managed cluster, but the finalizers are %v", finalizers)
	}
	h.managed("hosted")
	h.reconcile("hosted")
	h.prepared("hosted")
	h.expect("hosted", operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonBootstrapSecretMissing)
}

// as returns the configuration by which a hosted agent works on its member, with
// the token that the kubeconfig names as a file.
func (h *hostedHarness) as(name, secret string) (*rest.Config, string) {
	h.t.Helper()
	found := &corev1.Secret{}
	if !h.exists(found, name, secret) {
		h.t.Fatalf("secret %s/%s is missing", name, secret)
	}
	return cluster.TokenAccess(h.t, found, manifests.MemberToken)
}

func TestHostedOperatorGivesAgentsWhatTheyNeedAndNothingMore(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeHosted)
	for _, agent := range []struct {
		secret  string
		rules   []rbacv1.PolicyRule
		refused rbacv1.PolicyRule
	}{
		{
			operatorv1.ExternalManagedKubeConfigRegistrationSecret, h.c.Rules.Registration.Cluster,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}},
		},
		{
			operatorv1.ExternalManagedKubeConfigWorkSecret, h.c.Rules.Work.Cluster,
			rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"}},
		},
	} {
		config, _ := h.as("hosted", agent.secret)
		for _, rule := range agent.rules {
			for _, single := range singles(rule) {
				env.WaitAllowed(t.Context(), t, config, env.SelfReview(), "", single, true)
			}
		}
		env.NeverAllowed(t, config, env.SelfReview(), "", agent.refused)
	}
	// What works have is up to the built-in role admin, among others.
	config, _ := h.as("hosted", operatorv1.ExternalManagedKubeConfigWorkSecret)
	for _, binding := range []string{"execution", "aggregate", "execution-admin"} {
		if !h.member.exists(&rbacv1.ClusterRoleBinding{}, "", "open-cluster-management:hosted-work:"+binding) {
			t.Errorf("the binding %q of the work agent is missing", binding)
		}
	}
	env.WaitAllowed(t.Context(), t, config, env.SelfReview(), "", build.AccessRule("", "namespaces", "create"), true)
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "made-by-a-work"}}
	if err := h.client(config).Create(t.Context(), created); err != nil {
		t.Errorf("the work agent cannot create what a work has: %v", err)
	}
	if !h.member.exists(&corev1.Namespace{}, "", "made-by-a-work") {
		t.Error("the work agent works on another cluster than its member")
	}
	for _, rule := range h.c.Rules.Work.Home {
		for _, single := range singles(rule) {
			env.WaitAllowed(t.Context(), t, h.config, env.UserReview("system:serviceaccount:hosted:hosted-work-sa"), "hosted", single, true)
			env.NeverAllowed(t, h.config, env.UserReview("system:serviceaccount:hosted:hosted-work-sa"), operatorNamespace, single)
		}
	}
}

// account returns the UID of an agent's account on the member.
func (h *hostedHarness) account(name string) types.UID {
	h.t.Helper()
	account := &corev1.ServiceAccount{}
	if !h.member.exists(account, agentNamespace, name) {
		h.t.Fatalf("ServiceAccount %q is missing on the managed cluster", name)
	}
	return account.UID
}
