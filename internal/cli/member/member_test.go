// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// apiServer answers what Identify asks; about namespaces with the status, if any.
func apiServer(t *testing.T, refuse *apierrors.StatusError) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]any{
			"/api":     &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
			"/apis":    &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}},
			"/version": &version.Info{GitVersion: "v1.36.3"},
			"/api/v1":  &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "namespaces", Kind: "Namespace"}}},
			"/api/v1/namespaces/kube-system": &corev1.Namespace{
				TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "1234"},
			},
		}
		answer, known := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case refuse != nil && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces"):
			status := refuse.Status()
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			w.WriteHeader(int(status.Code))
			answer = &status
		case !known:
			w.WriteHeader(http.StatusNotFound)
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func kubeconfig(server *httptest.Server) *clientcmdapi.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
	c.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "t"}
	c.Contexts["member"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "me"}
	c.CurrentContext = "member"
	return c
}

func identify(ctx context.Context, f *KubeconfigFlags) (Identity, error) {
	m, err := f.ConnectMember(io.Discard)
	if err != nil {
		return Identity{}, err
	}
	return m.Identify(ctx)
}

func TestIdentify(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig(apiServer(t, nil)), file); err != nil {
		t.Fatal(err)
	}
	got, err := identify(t.Context(), &KubeconfigFlags{kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Identity{UID: "1234", Version: "v1.36.3"}); got != want {
		t.Errorf("the member is %+v, want %+v", got, want)
	}
}

func TestMistakes(t *testing.T) {
	cases := map[string]struct {
		reason  string
		refuse  *apierrors.StatusError
		change  func(*clientcmdapi.Config)
		context string
		want    []string
		code    int
	}{
		"several contexts and none is current": {
			reason: "capstan must not guess which of them is the member",
			change: func(c *clientcmdapi.Config) {
				c.CurrentContext, c.Contexts["other"] = "", c.Contexts["member"].DeepCopy()
			},
			want: []string{"which cluster is the member", "--cluster-context member, --cluster-context other"},
		},
		"an empty kubeconfig": {
			reason: "even in a pod, where capstan could fall back to its own cluster",
			change: func(c *clientcmdapi.Config) { *c = *clientcmdapi.NewConfig() },
			want:   []string{"address of the member is unknown", "--cluster-kubeconfig FILE"},
		},
		"a context that is not there": {
			reason: "a typo", context: "membre",
			want: []string{"no context \"membre\"", "It has: member.", "--cluster-context"},
		},
		"a program for credentials that is not there": {
			reason: "the kubeconfig comes from another machine",
			change: func(c *clientcmdapi.Config) {
				c.AuthInfos["me"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
					APIVersion: "client.authentication.k8s.io/v1", Command: "no-such-login", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
				}}
			},
			want: []string{"no-such-login", "install the program or log in with it"},
		},
		"nobody listens": {
			reason: "the member is down",
			change: func(c *clientcmdapi.Config) { c.Clusters["c"].Server = "https://127.0.0.1:1" },
			want:   []string{"cannot reach https://127.0.0.1:1", "Check that the member is running"},
		},
		"credentials that have expired": {
			reason: "401", refuse: apierrors.NewUnauthorized("no"),
			want: []string{"refuses the credentials", "new kubeconfig of the member"},
		},
		"a user who may not look": {
			reason: "403", refuse: apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil), code: exit.Failed,
			want: []string{"forbidden", "administrator of the member"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
			config := kubeconfig(apiServer(t, c.refuse))
			if c.change != nil {
				c.change(config)
			}
			f := &KubeconfigFlags{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), context: c.context}
			if err := clientcmd.WriteToFile(*config, f.kubeconfig); err != nil {
				t.Fatal(err)
			}
			if c.code == 0 {
				c.code = exit.NoMember
			}
			_, err := identify(t.Context(), f)
			if got := exit.Code(err); got != c.code {
				t.Errorf("%s: exit code %d, want %d", c.reason, got, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(exit.FormatError(err), want) {
					t.Errorf("%s: %q is not in the error:\n%s", c.reason, want, exit.FormatError(err))
				}
			}
		})
	}
}

func TestNoMemberIsGuessed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	_, err := new(KubeconfigFlags).ConnectMember(io.Discard)
	if exit.Code(err) != exit.Usage || !strings.Contains(exit.FormatError(err), "--cluster-kubeconfig") {
		t.Errorf("without flags: exit code %d: %s", exit.Code(err), exit.FormatError(err))
	}
}
