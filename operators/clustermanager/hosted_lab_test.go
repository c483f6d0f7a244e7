// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// installer is who the operator is on a hub that it does not run on.
const installer = "installer"

// hostedLab is the operator on a management cluster with a hub beside it, on
// which it may do what docs/spec/operator/clustermanager.md says.
type hostedLab struct {
	*lab
	hubEnv    *envtest.Environment
	hubConfig *rest.Config
	// hubAdmin is the client of the hub's administrator.
	hubAdmin client.Client
}

// hostedLabs are for tests that need no more than to begin without a hub, as hubLabs are.
var hostedLabs = env.NewFixtures(servers, newHostedLab)

func newHostedLab(t testing.TB) *hostedLab {
	t.Helper()
	l := &hostedLab{lab: newLab(t)}
	l.namespace = testName
	l.hubEnv, l.hubConfig = servers.Start(t)
	admin, err := client.New(l.hubConfig, client.Options{Scheme: l.client.Scheme()})
	expect.NoError(t, err)
	l.hubAdmin = admin
	rules, _, err := config.Rules(config.ClusterManager)
	expect.NoError(t, err)
	cluster.GrantUser(t, l.hubAdmin, l.hubConfig, installer, append(rules,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices", "endpointslices/restricted"},
			Verbs: []string{"create", "get", "list", "patch", "delete"},
		})...)
	cluster.GrantUser(t, l.hubAdmin, l.hubConfig, "stranger", build.AccessRule("", "pods", "get"))
	return l
}

// lead writes the secret that leads to the hub.
func (l *hostedLab) lead(t testing.TB, data map[string][]byte) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testName, Labels: map[string]string{operatorv1.LabelOperatedBy: "cluster-manager"}}}
	if err := l.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	cluster.PutObject(t, l.client, build.Secret(testName, operatorv1.ExternalHubKubeConfigSecret, data))
}

// leadAs leads to the hub as the user.
func (l *hostedLab) leadAs(t testing.TB, user string) {
	t.Helper()
	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: cluster.UserKubeconfig(t, l.hubEnv, user)})
}

// leadNowhere makes the hub unreachable.
func (l *hostedLab) leadNowhere(t testing.TB) {
	t.Helper()
	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: cluster.UserKubeconfig(t, l.hubEnv, installer, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		cluster.Server = "https://hub.invalid:6443"
	})})
}

// host makes a ClusterManager of mode Hosted, whose hub is removed after the test.
func (l *hostedLab) host(t testing.TB, change func(*operatorv1.ClusterManager)) {
	t.Helper()
	env.WhenDone(t, func(t testing.TB) {
		cluster.EndNamespace(t, l.hubAdmin, testName)
		// The operator leaves a namespace alone that it installed nothing in. The next
		// test must not find in it what leads to the hub.
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testName}}
		if err := l.client.Delete(t.Context(), namespace); client.IgnoreNotFound(err) != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
		cluster.EndNamespace(t, l.client, testName)
	})
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.DeployOption = operatorv1.ClusterManagerDeployOption{
			Mode: operatorv1.InstallModeHosted,
			Hosted: &operatorv1.HostedClusterManagerConfiguration{
				RegistrationWebhookConfiguration: operatorv1.HostedWebhookConfiguration{Address: "hooks.example.com", Port: 30443},
				WorkWebhookConfiguration:         operatorv1.HostedWebhookConfiguration{Address: "192.0.2.7", Port: 31443},
			},
		}
		if change != nil {
			change(cm)
		}
	})
}

// installed makes a hosted hub that is settled.
func (l *hostedLab) installed(t testing.TB) {
	t.Helper()
	l.leadAs(t, installer)
	l.host(t, nil)
	l.settle(t)
}

func (l *hostedLab) onHub(t testing.TB, object client.Object, name, namespace string) bool {
	t.Helper()
	return cluster.ObjectExists(t, l.hubAdmin, object, namespace, name)
}

// as returns the configuration by which a component works on the hub, and its
// token, which the kubeconfig names as a file.
func (l *hostedLab) as(t testing.TB, account string) (*rest.Config, string) {
	t.Helper()
	secret := &corev1.Secret{}
	if !l.exists(t, secret, manifests.HubSecret(account), testName) {
		t.Fatalf("the account %s has no kubeconfig of the hub", account)
	}
	return cluster.TokenAccess(t, secret, manifests.HubToken)
}

// removeHosted deletes the ClusterManager and makes passes until it is gone.
func (l *hostedLab) removeHosted(t testing.TB) {
	t.Helper()
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	l.finishRemoval(t)
}

func (l *hostedLab) finishRemoval(t testing.TB) {
	t.Helper()
	for range passesMax {
		cm := &operatorv1.ClusterManager{}
		if !l.exists(t, cm, testName, "") {
			return
		}
		if _, err := l.controller.Reconcile(t.Context(), cm); err != nil {
			t.Fatalf("removal: %v", err)
		}
		cluster.EndNamespace(t, l.hubAdmin, testName)
		l.endNamespace(t)
		<-time.After(gonePause)
	}
	t.Fatalf("the removal does not end: %+v", l.get(t).Status.Conditions)
}
