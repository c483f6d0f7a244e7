// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

// reactionMax is how long the operator may take to react to an event: far less
// than any of its intervals, so that only a watch can be the cause.
const reactionMax = 25 * time.Second

func TestTheOperatorReactsByWatchWithItsOwnRoleOnly(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.grant("joiner", bootstrapRules())
	h.grant("member", hubRules())
	h.startManager()

	h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.ClusterName = "" })
	h.eventually("the agents are installed", func() bool {
		return meta.IsStatusConditionTrue(h.get("klusterlet").Status.Conditions, operatorv1.KlusterletConditionApplied)
	})
	h.secret(agentNamespace, operatorv1.BootstrapHubKubeConfigSecret, map[string][]byte{"kubeconfig": h.kubeconfig("joiner")})
	h.eventually("the credential to join with is checked", func() bool {
		return h.reason(degradedType) == "BootstrapSecretFunctional,HubKubeConfigSecretMissing"
	})
	h.secret(agentNamespace, operatorv1.HubKubeConfigSecret, map[string][]byte{
		"kubeconfig": h.kubeconfig("member"), "cluster-name": []byte("made-up"),
	})
	h.eventually("the work agent starts", func() bool {
		return *h.deployment(agentNamespace, "klusterlet-work-agent").Spec.Replicas == 1
	})
	h.eventually("the cluster has joined", func() bool { return h.reason(operatorv1.KlusterletJoined) == operatorv1.JoinReasonJoined })
	expect.NoError(t, h.admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "klusterlet-work-sa"}}))
	h.eventually("what was deleted comes back", func() bool {
		return h.exists(&corev1.ServiceAccount{}, agentNamespace, "klusterlet-work-sa")
	})
	h.delete("klusterlet")
	h.eventually("the Klusterlet goes", func() bool {
		return apierrors.IsNotFound(h.admin.Get(t.Context(), types.NamespacedName{Name: "klusterlet"}, &operatorv1.Klusterlet{}))
	})
}

func TestTheOperatorHostsAgentsByWatchWithItsOwnRoleOnly(t *testing.T) {
	t.Parallel()
	h := startHosted(t)
	h.startManager()
	h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeSingletonHosted })
	h.eventually("it is told what is missing", func() bool {
		return h.reason(operatorv1.KlusterletJoined) == operatorv1.JoinReasonManagedKubeconfigMissing
	})
	h.managed("klusterlet")
	h.eventually("the agents are installed", func() bool {
		return meta.IsStatusConditionTrue(h.get("klusterlet").Status.Conditions, operatorv1.KlusterletConditionApplied)
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "klusterlet", Name: operatorv1.ExternalManagedKubeConfigAgentSecret}}
	expect.NoError(t, h.admin.Delete(t.Context(), secret))
	h.eventually("a deleted credential of an agent comes back", func() bool {
		return h.exists(&corev1.Secret{}, "klusterlet", operatorv1.ExternalManagedKubeConfigAgentSecret)
	})
	h.delete("klusterlet")
	h.eventually("the Klusterlet goes", func() bool {
		return apierrors.IsNotFound(h.admin.Get(t.Context(), types.NamespacedName{Name: "klusterlet"}, &operatorv1.Klusterlet{}))
	})
	if left := h.member.marked(map[string]string{operatorv1.LabelCreatedByKlusterlet: "klusterlet"}); len(left) > 0 {
		t.Errorf("left over on the managed cluster: %v", left)
	}
}

// startManager runs the operator as it is in its pod, until the test ends.
func (h *harness) startManager() {
	h.t.Helper()
	user, err := h.env.AddUser(envtest.User{Name: operatorUser}, h.config)
	expect.NoError(h.t, err)
	caching, err := OperatorCacheOptions()
	expect.NoError(h.t, err)
	allowed, err := permissions.ReviewOperatorRole(h.t.Context(), h.client(user.Config()))
	expect.NoError(h.t, err)
	mgr := cluster.NewManager(h.t, user.Config(), ctrl.Options{Scheme: h.admin.Scheme(), Cache: caching, Client: allowed.ClientOptions()})
	expect.NoError(h.t, SetupKlusterletOperator(mgr, h.c.Settings, allowed, nil))
	cluster.RunManager(h.t, mgr)
}

func (h *harness) reason(conditionType string) string {
	h.t.Helper()
	condition := meta.FindStatusCondition(h.get("klusterlet").Status.Conditions, conditionType)
	if condition == nil {
		return ""
	}
	return condition.Reason
}

func (h *harness) eventually(what string, is func() bool) {
	h.t.Helper()
	h.within(reactionMax, what, is)
}

func (h *harness) within(limit time.Duration, what string, is func() bool) {
	h.t.Helper()
	expect.EventuallyTrue(h.t, limit, what, is, func() string {
		return fmt.Sprintf("the status is %+v", h.get("klusterlet").Status.Conditions)
	})
}
