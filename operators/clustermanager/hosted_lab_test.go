// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/env"
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

func newHostedLab(t *testing.T) *hostedLab {
	t.Helper()
	l := &hostedLab{lab: newLab(t)}
	l.namespace = testName
	l.hubEnv, l.hubConfig = servers.Start(t)
	admin, err := client.New(l.hubConfig, client.Options{Scheme: l.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	l.hubAdmin = admin
	rules, _, err := config.Rules(config.ClusterManager)
	if err != nil {
		t.Fatal(err)
	}
	l.grantOnHub(t, installer, append(rules,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices", "endpointslices/restricted"},
			Verbs: []string{"create", "get", "list", "patch", "delete"},
		}))
	l.grantOnHub(t, "stranger", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}})
	return l
}

func (l *hostedLab) grantOnHub(t *testing.T, user string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	} {
		if err := l.hubAdmin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	env.WaitAllowed(t.Context(), t, l.hubConfig, authorizationv1.SubjectAccessReviewSpec{User: user}, "", rules[0], true)
}

// kubeconfig returns a kubeconfig of the hub for the user, changed by the function.
func (l *hostedLab) kubeconfig(t *testing.T, user string, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	added, err := l.hubEnv.AddUser(envtest.User{Name: user}, l.hubConfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfigOf(t, added.Config(), change)
}

func kubeconfigOf(t *testing.T, with *rest.Config, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster := &clientcmdapi.Cluster{Server: "https://" + strings.TrimPrefix(with.Host, "https://"), CertificateAuthorityData: with.CAData}
	auth := &clientcmdapi.AuthInfo{ClientCertificateData: with.CertData, ClientKeyData: with.KeyData}
	if change != nil {
		change(cluster, auth)
	}
	encoded, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "hub",
		Contexts:       map[string]*clientcmdapi.Context{"hub": {Cluster: "hub", AuthInfo: "user"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"hub": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": auth},
	})
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// lead writes the secret that leads to the hub.
func (l *hostedLab) lead(t *testing.T, data map[string][]byte) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testName, Labels: map[string]string{operatorv1.LabelOperatedBy: "cluster-manager"}}}
	if err := l.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testName, Name: operatorv1.ExternalHubKubeConfigSecret}, Data: data,
	}
	err := l.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = l.client.Update(ctx, secret)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// leadAs leads to the hub as the user.
func (l *hostedLab) leadAs(t *testing.T, user string) {
	t.Helper()
	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: l.kubeconfig(t, user, nil)})
}

// leadNowhere makes the hub unreachable.
func (l *hostedLab) leadNowhere(t *testing.T) {
	t.Helper()
	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: l.kubeconfig(t, installer, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		cluster.Server = "https://hub.invalid:6443"
	})})
}

// host makes a ClusterManager of mode Hosted, whose hub is removed after the test.
func (l *hostedLab) host(t *testing.T, change func(*operatorv1.ClusterManager)) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		endNamespace(ctx, t, l.hubAdmin, testName)
		// The operator leaves a namespace alone that it installed nothing in. The next
		// test must not find in it what leads to the hub.
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testName}}
		if err := l.client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
		endNamespace(ctx, t, l.client, testName)
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
func (l *hostedLab) installed(t *testing.T) {
	t.Helper()
	l.leadAs(t, installer)
	l.host(t, nil)
	l.settle(t)
}

func (l *hostedLab) onHub(t *testing.T, object client.Object, name, namespace string) bool {
	t.Helper()
	err := l.hubAdmin.Get(t.Context(), client.ObjectKey{Name: name, Namespace: namespace}, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatalf("reading %T %q of the hub: %v", object, name, err)
	}
	return err == nil
}

// as returns the configuration by which a component works on the hub, and its
// token, which the kubeconfig names as a file.
func (l *hostedLab) as(t *testing.T, account string) (*rest.Config, string) {
	t.Helper()
	secret := &corev1.Secret{}
	if !l.exists(t, secret, manifests.HubSecret(account), testName) {
		t.Fatalf("the account %s has no kubeconfig of the hub", account)
	}
	kubeconfig, err := clientcmd.Load(secret.Data[operatorv1.KubeConfigKey])
	if err != nil {
		t.Fatal(err)
	}
	user := kubeconfig.AuthInfos[kubeconfig.Contexts[kubeconfig.CurrentContext].AuthInfo]
	if user.TokenFile != manifests.HubToken || user.Token != "" || len(user.ClientKeyData) > 0 {
		t.Errorf("%s logs in with something else than the file of its token: %+v", account, user)
	}
	user.TokenFile, user.Token = "", string(secret.Data[operatorv1.TokenKey])
	with, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return with, user.Token
}

// removeHosted deletes the ClusterManager and makes passes until it is gone.
func (l *hostedLab) removeHosted(t *testing.T) {
	t.Helper()
	if err := l.client.Delete(t.Context(), l.get(t)); err != nil {
		t.Fatal(err)
	}
	l.finishRemoval(t)
}

func (l *hostedLab) finishRemoval(t *testing.T) {
	t.Helper()
	for range passesMax {
		cm := &operatorv1.ClusterManager{}
		if !l.exists(t, cm, testName, "") {
			return
		}
		if _, err := l.controller.Reconcile(t.Context(), cm); err != nil {
			t.Fatalf("removal: %v", err)
		}
		endNamespace(t.Context(), t, l.hubAdmin, testName)
		l.endNamespace(t.Context(), t)
		<-time.After(gonePause)
	}
	t.Fatalf("the removal does not end: %+v", l.get(t).Status.Conditions)
}
