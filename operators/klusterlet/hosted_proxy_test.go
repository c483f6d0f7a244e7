// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// front stands in front of a managed cluster, and takes everybody for its
// administrator.
type front struct {
	*httptest.Server
	// lost, if set, tells which paths it does not find.
	lost atomic.Pointer[func(path string) bool]
}

func (h *hostedHarness) front() *front {
	h.t.Helper()
	target, err := url.Parse(h.member.config.Host)
	expect.NoError(h.t, err)
	transport, err := rest.TransportFor(h.member.config)
	expect.NoError(h.t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}
	f := &front{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost := f.lost.Load(); lost != nil && (*lost)(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	h.t.Cleanup(f.Close)
	return f
}

// leads makes a kubeconfig one that leads to the front.
func (f *front) leads(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
	cluster.Server = f.URL
	cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	*user = clientcmdapi.AuthInfo{Token: "anybody"}
}

// TestHostedRemovalTakesNoAnswerOfAProxyForThatOfTheCluster removes hosted agents while something in front of their managed
// cluster answers 404: nothing there is forgotten.
func TestHostedRemovalTakesNoAnswerOfAProxyForThatOfTheCluster(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, hostedOperators)
	h.host("hosted", operatorv1.InstallModeHosted)
	front := h.front()
	h.managed("hosted", front.leads)
	h.reconcile("hosted")
	h.prepared("hosted")
	own := h.member.appliedWork("own", string(h.get("hosted").UID))
	h.delete("hosted")
	for name, lost := range map[string]func(string) bool{
		"everything": func(string) bool { return true },
		// Such as for the moment in which the cluster is asked for the works.
		"the works": func(path string) bool {
			return strings.HasSuffix(path, "/appliedmanifestworks") || strings.HasSuffix(path, "/namespaces/kube-system")
		},
	} {
		front.lost.Store(&lost)
		_, err := h.c.Reconcile(t.Context(), h.get("hosted"))
		t.Logf("the proxy does not find %s: %v", name, err)
		if !h.member.exists(&workv1.AppliedManifestWork{}, "", own) {
			t.Fatal("the AppliedManifestWork was removed nevertheless, so the test shows nothing")
		}
		if h.gone("hosted") || len(h.member.marked(map[string]string{operatorv1.LabelCreatedByKlusterlet: "hosted"})) == 0 {
			t.Fatalf("the proxy does not find %s, so the operator took it for gone and left the AppliedManifestWork behind", name)
		}
	}
	front.lost.Store(nil)
	h.reconcileDeleted("hosted")
	if h.member.exists(&workv1.AppliedManifestWork{}, "", own) {
		t.Error("the AppliedManifestWork is left though the managed cluster answers again")
	}
}
