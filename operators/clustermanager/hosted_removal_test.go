// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// left names what is left of the ClusterManager on a cluster.
func (l *hostedLab) left(t testing.TB, c client.Client) []string {
	t.Helper()
	var names []string
	for _, list := range []client.ObjectList{
		&corev1.NamespaceList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		&appsv1.DeploymentList{}, &discoveryv1.EndpointSliceList{},
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{},
		&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
		&policyv1.PodDisruptionBudgetList{}, &apiextensionsv1.CustomResourceDefinitionList{},
	} {
		expect.NoError(t, c.List(t.Context(), list, client.MatchingLabels{operatorv1.LabelCreatedByClusterManager: testName}))
		expect.NoError(t, eachItem(list, func(o client.Object) { names = append(names, o.GetNamespace()+"/"+o.GetName()) }))
	}
	return names
}

func TestHostedHubRemovesEverythingOnBothClusters(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	l.removeHosted(t)
	if left := l.left(t, l.hubAdmin); len(left) > 0 {
		t.Errorf("left on the hub: %q", left)
	}
	if left := l.left(t, l.client); len(left) > 0 {
		t.Errorf("left on the management cluster: %q", left)
	}
	if l.onHub(t, &corev1.Namespace{}, testName, "") || l.exists(t, &corev1.Namespace{}, testName, "") {
		t.Error("the namespace is left, with the credentials in it")
	}
}

func TestHostedHubCanBeTheManagementClusterItself(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: cluster.WriteKubeconfig(t, l.adminConfig)})
	l.host(t, nil)
	l.settle(t)
	l.writes = 0
	l.onePass(t)
	if l.writes != 0 {
		t.Errorf("what is installed for the hub and for the pods is not left alone: %d writes", l.writes)
	}
	for _, name := range []string{"cluster-manager-registration-webhook", "cluster-manager-work-webhook"} {
		if !l.exists(t, &corev1.Service{}, name, testName) {
			t.Errorf("the Service %s of the hub was pruned from the management cluster", name)
		}
	}
	l.removeHosted(t)
	if left := l.left(t, l.client); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestHostedRemovalLeavesAnUnreachableHubBehindInTheEnd(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	l.leadNowhere(t)
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	const key = operatorv1.AnnotationHubResourcesEvictionTimestamp
	result, err := l.pass(t)
	if err != nil || result.RequeueAfter != hubRetry {
		t.Errorf("it is tried again after %s with error %v, want %s", result.RequeueAfter, err, hubRetry)
	}
	deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting)
	if deleting.Reason != operatorv1.ClusterManagerReasonWaitingForHub || !strings.Contains(deleting.Message, "left behind after") {
		t.Errorf("Deleting is %+v", deleting)
	}
	since := l.get(t).Annotations[key]
	if _, err := time.Parse(time.RFC3339, since); err != nil {
		t.Errorf("annotation %s is %q, which is no time: %v", key, since, err)
	}
	l.clock.SetTime(l.clock.Now().Add(hubGoneAfter - time.Minute))
	l.onePass(t)
	if l.get(t).Annotations[key] != since || len(l.deployments(t)) == 0 {
		t.Error("the time begins anew, or the hub is removed before its time")
	}
	l.clock.SetTime(l.clock.Now().Add(2 * time.Minute))
	l.finishRemoval(t)
	if left := l.left(t, l.client); len(left) > 0 {
		t.Errorf("left on the management cluster: %q", left)
	}
	if !l.onHub(t, &corev1.ServiceAccount{}, "work-webhook-sa", testName) {
		t.Fatal("the hub was reached nevertheless, so the test shows nothing")
	}
	// The next ClusterManager of the name finds what was left behind, and removes it.
	l.installed(t)
	l.removeHosted(t)
	if left := l.left(t, l.hubAdmin); len(left) > 0 {
		t.Errorf("left on the hub: %q", left)
	}
}

func TestHostedRemovalWaitsForACredentialThatCanBeMended(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: cluster.UserKubeconfig(t, l.hubEnv, installer, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{Token: "expired"}
	})})
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	for range 3 {
		l.onePass(t)
		l.clock.SetTime(l.clock.Now().Add(hubGoneAfter))
	}
	if deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting); !strings.Contains(deleting.Message, "fix secret") {
		t.Errorf("Deleting is %+v, which does not say what to do", deleting)
	}
	l.leadAs(t, installer)
	l.finishRemoval(t)
	if left := l.left(t, l.hubAdmin); len(left) > 0 {
		t.Errorf("left on the hub: %q", left)
	}
}

func TestHostedHubThatWasNeverReachedHoldsNothingUp(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.leadNowhere(t)
	l.host(t, nil)
	l.onePass(t)
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	l.onePass(t)
	if l.exists(t, &operatorv1.ClusterManager{}, testName, "") {
		t.Error("the removal waits for a hub that nothing was installed on")
	}
}

func TestHostedHubNameMustBeThatOfANamespaceOfItsOwn(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	for _, name := range []string{"kube-system", "default", operatorv1.DefaultOperatorNamespace, "with.dots"} {
		cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: name}}
		cm.Spec.DeployOption = operatorv1.ClusterManagerDeployOption{
			Mode: operatorv1.InstallModeHosted,
			Hosted: &operatorv1.HostedClusterManagerConfiguration{
				RegistrationWebhookConfiguration: operatorv1.HostedWebhookConfiguration{Address: "a.example"},
				WorkWebhookConfiguration:         operatorv1.HostedWebhookConfiguration{Address: "b.example"},
			},
		}
		l.create(t, cm)
		if _, err := l.controller.Reconcile(t.Context(), cm); !errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("%s: the pass ended with %v, want a terminal error", name, err)
		}
		expect.NoError(t, l.client.Delete(t.Context(), cm))
		l.exists(t, cm, name, "")
		if _, err := l.controller.Reconcile(t.Context(), cm); err != nil {
			t.Errorf("%s: removal: %v", name, err)
		}
		if l.exists(t, cm, name, "") {
			t.Errorf("%s: it does not go", name)
		}
		if namespace := (&corev1.Namespace{}); name != "with.dots" && (!l.exists(t, namespace, name, "") || !namespace.DeletionTimestamp.IsZero()) {
			t.Errorf("the namespace %s was removed", name)
		}
	}
}

func TestHostedHubAddressesAreNeeded(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.leadAs(t, installer)
	l.host(t, func(cm *operatorv1.ClusterManager) { cm.Spec.DeployOption.Hosted = nil })
	l.refuses(t, "no address")
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.DeployOption.Hosted = &operatorv1.HostedClusterManagerConfiguration{
			RegistrationWebhookConfiguration: operatorv1.HostedWebhookConfiguration{Address: "a.example"},
			WorkWebhookConfiguration:         operatorv1.HostedWebhookConfiguration{Address: "b.example"},
		}
	})
	l.settle(t)
}

func TestModeOfAHubCannotBeChanged(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.DeployOption.Mode = operatorv1.InstallModeDefault })
	l.refuses(t, "delete the ClusterManager")
	l.removeHosted(t)
	if left := append(l.left(t, l.hubAdmin), l.left(t, l.client)...); len(left) > 0 {
		t.Errorf("left over after a change of the mode: %q", left)
	}
}

// refuses expects that the spec is told to be a mistake.
func (l *hostedLab) refuses(t testing.TB, why string) {
	t.Helper()
	if _, err := l.pass(t); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v, want a terminal error", err)
	}
	applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
	if applied.Reason != operatorv1.ClusterManagerReasonConfigurationNotSupported || !strings.Contains(applied.Message, why) {
		t.Errorf("Applied is %+v, want one with %q", applied, why)
	}
}
