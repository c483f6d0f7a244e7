// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

func TestHowTheHubReachesTheMember(t *testing.T) {
	const far = "https://member1.example.com:6443"
	ca := []byte("ca")
	verified := rest.TLSClientConfig{CAData: ca}
	cases := map[string]struct {
		reason  string
		config  rest.Config
		proxy   string
		want    routeOptions
		route   route
		warns   string
		refused string
	}{
		"as this machine": {
			reason: "the kubeconfig says how", config: rest.Config{Host: far + "/", TLSClientConfig: verified}, route: route{endpoint: far, ca: ca},
		},
		"by the proxy of the kubeconfig": {
			reason: "who needs it here needs it there, mostly", config: rest.Config{Host: far, TLSClientConfig: verified}, proxy: "http://proxy:3128",
			route: route{endpoint: far, proxy: "http://proxy:3128", ca: ca},
		},
		"in another way": {
			reason: "the user knows better", config: rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: verified}, proxy: "http://proxy:3128",
			want: routeOptions{endpoint: far, proxy: "socks5://other:1080"}, route: route{endpoint: far, proxy: "socks5://other:1080", ca: ca},
		},
		"at a loopback address": {
			reason: "that is the hub itself", config: rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: verified},
			route: route{endpoint: "https://127.0.0.1:6443", ca: ca}, warns: "https://127.0.0.1:6443, is a loopback address",
		},
		"at a loopback address by name": {
			reason: "as kind and minikube write it", config: rest.Config{Host: "https://localhost:6443", TLSClientConfig: verified},
			route: route{endpoint: "https://localhost:6443", ca: ca}, warns: "a loopback address",
		},
		"at a link-local address": {
			reason: "that is another host there", config: rest.Config{Host: "https://[fe80::1]:6443", TLSClientConfig: verified},
			route: route{endpoint: "https://[fe80::1]:6443", ca: ca}, warns: "a link-local address",
		},
		"without TLS":                    {reason: "the token would be readable", config: rest.Config{Host: "http://member1"}, refused: "--cluster-endpoint"},
		"without a check of certificate": {reason: "the token would go to anybody", config: rest.Config{Host: far, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, refused: "--insecure-skip-tls-verification"},
		"without a check, as the user wants": {
			reason: "for tests", config: rest.Config{Host: far, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, want: routeOptions{insecure: true},
			route: route{endpoint: far, insecure: true},
		},
		"by another name in the certificate": {
			reason: "the hub cannot do that", config: rest.Config{Host: far, TLSClientConfig: rest.TLSClientConfig{CAData: ca, ServerName: "kubernetes"}},
			refused: "tls-server-name",
		},
		"by a proxy with a password": {
			reason: "it would stand in the ClusterConnection", config: rest.Config{Host: far, TLSClientConfig: verified}, proxy: "http://me:secret@proxy:3128",
			refused: "--proxy-url",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, warning, err := newRoute(&c.config, clientcmdapi.Cluster{ProxyURL: c.proxy}, c.want)
			said := ""
			if err != nil {
				said = exit.FormatError(err)
			}
			if (err != nil) != (c.refused != "") || !strings.Contains(said, c.refused) || strings.Contains(said, "secret@") {
				t.Fatalf("%s: %q", c.reason, said)
			}
			if diff := cmp.Diff(c.route, got, cmp.AllowUnexported(route{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if (warning != "") != (c.warns != "") || !strings.Contains(warning, c.warns) {
				t.Errorf("%s: warning %q", c.reason, warning)
			}
		})
	}
}
