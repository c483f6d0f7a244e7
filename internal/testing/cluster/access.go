// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// NewClient returns a client of an API server that knows the kinds of Kubernetes and those
// that are added.
func NewClient(t testing.TB, config *rest.Config, add ...func(*runtime.Scheme) error) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, clientgoscheme.AddToScheme(scheme))
	for _, kinds := range add {
		expect.NoError(t, kinds(scheme))
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	return c
}

// AsUser returns the configuration of a client that the administrator has act as a user.
func AsUser(admin *rest.Config, name string, groups ...string) *rest.Config {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config
}

// CreateObjects makes objects.
func CreateObjects(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %q: %v", object, object.GetName(), err)
		}
	}
}

// PutObject makes an object what it is here, whether it is there or not.
func PutObject(t testing.TB, c client.Client, object client.Object) {
	t.Helper()
	err := c.Create(t.Context(), deepcopy.CopyObject(object))
	if apierrors.IsAlreadyExists(err) {
		err = c.Update(t.Context(), object)
	}
	if err != nil {
		t.Fatalf("writing %T %q: %v", object, object.GetName(), err)
	}
}

// ObjectExists reads an object, and reports whether it is there.
func ObjectExists(t testing.TB, c client.Client, object client.Object, namespace, name string) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatalf("reading %T %q: %v", object, name, err)
	}
	return err == nil
}

// ReadRole reads the ClusterRole that is the first document of a file.
func ReadRole(t testing.TB, file string) *rbacv1.ClusterRole {
	t.Helper()
	content, err := os.ReadFile(file) //nolint:gosec // the test names it
	expect.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(content), "\n---")[0]), role); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
	return role
}

// HasPodMonitors expects each of the PodMonitors to be there, or not to be.
func HasPodMonitors(t testing.TB, c client.Client, want map[client.ObjectKey]bool) {
	t.Helper()
	for key, there := range want {
		monitor := &unstructured.Unstructured{}
		monitor.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"})
		if got := ObjectExists(t, c, monitor, key.Namespace, key.Name) && monitor.GetDeletionTimestamp().IsZero(); got != there {
			t.Errorf("PodMonitor %s is there: %t, want %t", key, got, there)
		}
	}
}

// GrantUser lets a user do in the whole cluster what the rules say, and waits until the API
// server knows of the first of them.
func GrantUser(t testing.TB, admin client.Client, config *rest.Config, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	CreateObjects(t, admin, build.ClusterRole(user, rules...), build.ClusterRoleBinding(user, user, build.UserSubject(user)))
	env.WaitAllowed(t.Context(), t, config, env.UserReview(user), "", rules[0], true)
}

// CreateAccount makes a ServiceAccount, and returns a token of it.
func CreateAccount(t testing.TB, c client.Client, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	CreateObjects(t, c, account)
	request := &authenticationv1.TokenRequest{}
	expect.NoError(t, c.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// UserKubeconfig returns a kubeconfig of an API server for a user with a certificate, after changes.
func UserKubeconfig(
	t testing.TB, server *envtest.Environment, user string, changes ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo),
) []byte {
	t.Helper()
	added, err := server.AddUser(envtest.User{Name: user}, server.Config)
	expect.NoError(t, err)
	return WriteKubeconfig(t, added.Config(), changes...)
}

// TokenAccess returns how a component works on another cluster, and its token, given the Secret that the operator
// keeps for it. It expects that its kubeconfig names a file of the pod for the token, and has no other credential.
func TokenAccess(t testing.TB, secret *corev1.Secret, tokenFile string) (*rest.Config, string) {
	t.Helper()
	kubeconfig, err := clientcmd.Load(secret.Data[operatorv1.KubeConfigKey])
	expect.NoError(t, err)
	user := kubeconfig.AuthInfos[kubeconfig.Contexts[kubeconfig.CurrentContext].AuthInfo]
	if user.TokenFile != tokenFile || user.Token != "" || len(user.ClientKeyData) > 0 {
		t.Errorf("%s logs in with something else than the file of its token: %+v", secret.Name, user)
	}
	user.TokenFile = ""
	user.Token = string(secret.Data[operatorv1.TokenKey])
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	expect.NoError(t, err)
	return config, user.Token
}

// WriteKubeconfig returns the kubeconfig of who has a configuration, after changes.
func WriteKubeconfig(t testing.TB, config *rest.Config, changes ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster := &clientcmdapi.Cluster{Server: "https://" + strings.TrimPrefix(config.Host, "https://"), CertificateAuthorityData: config.CAData}
	user := &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	for _, change := range changes {
		change(cluster, user)
	}
	encoded, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "hub",
		Contexts:       map[string]*clientcmdapi.Context{"hub": {Cluster: "hub", AuthInfo: "user"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"hub": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": user},
	})
	expect.NoError(t, err)
	return encoded
}
