// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// options are those for kubeconfigs of a hub.
func options(changes ...func(*IssuerOptions)) IssuerOptions {
	o := IssuerOptions{
		Server: &clientcmdapi.Cluster{Server: "https://hub.example.com:6443", CertificateAuthorityData: []byte("ca")},
		Name:   "hub", Namespace: "open-cluster-management-hub", TokenFile: "/var/run/hub/token",
		Clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)),
	}
	for _, change := range changes {
		change(&o)
	}
	return o
}

func issuer(t *testing.T, o IssuerOptions) *Issuer {
	t.Helper()
	i, err := NewIssuer(o)
	expect.NoError(t, err)
	return i
}

func TestAHashTellsWhatProgramsHaveToBeRestartedFor(t *testing.T) {
	first := issuer(t, options()).KubeconfigHash()
	cases := map[string]struct {
		change func(*IssuerOptions)
		same   bool
	}{
		"nothing":             {func(*IssuerOptions) {}, true},
		"what takes no part":  {func(o *IssuerOptions) { o.Clock = clocktesting.NewFakePassiveClock(time.Unix(2_000_000, 0)) }, true},
		"what others keep":    {func(o *IssuerOptions) { o.Server.Extensions = map[string]runtime.Object{"x": &runtime.Unknown{}} }, true},
		"the address":         {func(o *IssuerOptions) { o.Server.Server = "https://hub.example.com:6444" }, false},
		"the CA":              {func(o *IssuerOptions) { o.Server.CertificateAuthorityData = []byte("another") }, false},
		"a proxy":             {func(o *IssuerOptions) { o.Server.ProxyURL = "http://proxy.example.com" }, false},
		"the file of a token": {func(o *IssuerOptions) { o.TokenFile = "/var/run/token" }, false},
		"the namespace":       {func(o *IssuerOptions) { o.Namespace = "other" }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := issuer(t, options(tc.change)).KubeconfigHash()
			if (got == first) != tc.same {
				t.Errorf("the hashes are %s and %s, want the same: %t", first, got, tc.same)
			}
		})
	}
}

// token returns a token of an account that was issued at some time for an hour.
func token(account string, issued time.Time) string {
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":%q}}}`, issued.Unix(), issued.Add(time.Hour).Unix(), account)
	return "header." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
}

// scene is an account on one cluster, and secrets on another.
type scene struct {
	*Issuer
	secrets client.Client
	asked   []string // accounts that a token was requested for
}

func newScene(t *testing.T, refusal error, secrets ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, errors.Join(corev1.AddToScheme(scheme), authenticationv1.AddToScheme(scheme)))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	s := &scene{secrets: fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(secrets...).Build()}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "open-cluster-management-hub", Name: "work", UID: "u"}}
	accounts := fake.NewClientBuilder().WithScheme(scheme).WithObjects(account).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, what string, of, request client.Object, _ ...client.SubResourceCreateOption) error {
			s.asked = append(s.asked, of.GetNamespace()+"/"+of.GetName()+"/"+what)
			request.(*authenticationv1.TokenRequest).Status.Token = "new"
			return refusal
		},
	}).Build()
	s.Issuer = issuer(t, options(func(o *IssuerOptions) {
		o.To = install.NewTarget(s.secrets, install.TargetReaders{Live: s.secrets, Secrets: s.secrets}, "owner")
		o.Secrets, o.From = s.secrets, install.NewTarget(accounts, install.TargetReaders{Live: accounts, Secrets: accounts}, "owner")
	}))
	return s
}

func TestATokenIsKeptWhileItIsGood(t *testing.T) {
	now := options().Clock.Now()
	has := func(token string) []client.Object {
		return []client.Object{&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "hub-kubeconfig"}, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"kubeconfig": []byte("old"), "token": []byte(token)},
		}}
	}
	young, old, others := token("u", now.Add(-time.Minute)), token("u", now.Add(-50*time.Minute)), token("other", now)
	cases := map[string]struct {
		secrets []client.Object
		want    string
		asked   []string
	}{
		"there is none":                 {nil, "new", []string{"open-cluster-management-hub/work/token"}},
		"it is young":                   {has(young), young, nil},
		"more than half of it is over":  {has(old), "new", []string{"open-cluster-management-hub/work/token"}},
		"it is of an account before":    {has(others), "new", []string{"open-cluster-management-hub/work/token"}},
		"somebody has taken it away":    {has(""), "new", []string{"open-cluster-management-hub/work/token"}},
		"somebody has put something in": {has("no token"), "new", []string{"open-cluster-management-hub/work/token"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, tc.secrets...)
			named := render.ResourceMeta{Namespace: "agents", Name: "hub-kubeconfig", Labels: map[string]string{"a": "b"}}
			expect.NoError(t, s.IssueSecret(t.Context(), named, "work"))
			if diff := cmp.Diff(tc.asked, s.asked); diff != "" {
				t.Errorf("requests, -want +got:\n%s", diff)
			}
			secret := &corev1.Secret{}
			expect.NoError(t, s.secrets.Get(t.Context(), client.ObjectKey{Namespace: "agents", Name: "hub-kubeconfig"}, secret))
			if got := string(secret.Data["token"]); got != tc.want || secret.Labels["a"] != "b" || len(secret.Data) != 2 {
				t.Errorf("the token is %q, want %q; labels are %v, keys %d", got, tc.want, secret.Labels, len(secret.Data))
			}
			config, err := clientcmd.Load(secret.Data["kubeconfig"])
			expect.NoError(t, err)
			current := config.Contexts[config.CurrentContext]
			if config.Clusters[current.Cluster].Server != "https://hub.example.com:6443" || config.AuthInfos[current.AuthInfo].TokenFile != "/var/run/hub/token" ||
				config.AuthInfos[current.AuthInfo].Token != "" {
				t.Errorf("the kubeconfig does not lead to the hub by the file of the token:\n%s", secret.Data["kubeconfig"])
			}
		})
	}
}

func TestWithoutATokenNothingIsWritten(t *testing.T) {
	refusal := errors.New("not yours")
	for name, account := range map[string]string{"the account is not there yet": "none", "it may not be asked for one": "work"} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, refusal)
			err := s.IssueSecret(t.Context(), render.ResourceMeta{Namespace: "agents", Name: "hub-kubeconfig"}, account)
			if err == nil || !strings.Contains(err.Error(), "getting a token of the hub: ") || !strings.Contains(err.Error(), "open-cluster-management-hub/"+account) {
				t.Errorf("error %v, want one that names the cluster and the account", err)
			}
			all := &corev1.SecretList{}
			if err := s.secrets.List(t.Context(), all); err != nil || len(all.Items) > 0 {
				t.Errorf("%d secrets are written (%v)", len(all.Items), err)
			}
		})
	}
}
