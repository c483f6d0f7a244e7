// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// newClient starts an API server with the definitions of the kinds that the tests are about.
func newClient(t *testing.T) client.Client {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) {
		const ours = "../../../config/crd/fleet.capstan.io_"
		e.CRDDirectoryPaths = []string{ours + "clusterconnections.yaml", ours + "propagationrevisions.yaml"}
	})
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheAPIServerRefusesConnectionsThatCannotWork(t *testing.T) {
	c := newClient(t)
	push := func(endpoint string) fleetv1alpha1.ClusterConnectionSpec {
		return fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: endpoint}
	}
	proxied := func(proxy string, header map[string]string) fleetv1alpha1.ClusterConnectionSpec {
		spec := push("https://member.example.com")
		spec.ProxyURL, spec.ProxyHeader = proxy, header
		return spec
	}
	credential := push("https://member.example.com")
	credential.SecretRef = &fleetv1alpha1.SecretReference{Name: "Not_A_Name"}
	header := map[string]string{"Proxy-Authorization": "Basic eA=="}
	labels := func(keys ...string) fleetv1alpha1.ClusterConnectionSpec {
		return fleetv1alpha1.ClusterConnectionSpec{AgentLabels: &keys}
	}
	pinned := func(claims ...fleetv1alpha1.PinnedClaim) fleetv1alpha1.ClusterConnectionSpec {
		return fleetv1alpha1.ClusterConnectionSpec{PinnedClaims: claims}
	}
	cases := map[string]struct {
		reason, name string
		spec         fleetv1alpha1.ClusterConnectionSpec
		refused      string // part of the message; empty if it is taken
	}{
		"nothing but a name":  {reason: "a Pull cluster needs nothing"},
		"push":                {reason: "an endpoint is all that Push needs", spec: push("https://member.example.com:6443/k8s/clusters/c1")},
		"an IPv6 address":     {reason: "addresses are fine, too", spec: push("https://[2001:db8::1]:6443")},
		"http proxy":          {reason: "all three kinds of proxies are possible", spec: proxied("http://proxy:3128", header)},
		"https proxy":         {reason: "all three kinds of proxies are possible", spec: proxied("https://proxy:3128", header)},
		"socks5 proxy":        {reason: "all three kinds of proxies are possible", spec: proxied("socks5://proxy:1080", nil)},
		"push without a URL":  {reason: "nobody knows where to dial", spec: push(""), refused: "apiEndpoint is required with syncMode Push"},
		"another mode":        {reason: "there are two", spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: "Both"}, refused: `supported values: "Pull", "Push"`},
		"http":                {reason: "the token would go in the clear", spec: push("http://member.example.com"), refused: "has to be a URL such as https://"},
		"no URL":              {reason: "a host alone says nothing of how", spec: push("member.example.com:6443"), refused: "has to be a URL such as https://"},
		"no host":             {reason: "a URL needs a host", spec: push("https:///api"), refused: "has to be a URL such as https://"},
		"credentials in URL":  {reason: "they would be readable by all", spec: push("https://me:secret@member"), refused: "must not have credentials"},
		"a query":             {reason: "clients would drop it", spec: push("https://member?x=y"), refused: "must not have credentials, a query or a fragment"},
		"ftp proxy":           {reason: "no client has it", spec: proxied("ftp://proxy", nil), refused: "begins with http://, https:// or socks5://"},
		"password in a proxy": {reason: "it would be readable by all", spec: proxied("socks5://me:secret@proxy:1080", nil), refused: "must not have credentials"},
		"header, no proxy":    {reason: "nobody would get it", spec: proxied("", header), refused: "proxyHeader needs a proxyURL"},
		"header for socks5":   {reason: "there are no headers in socks5", spec: proxied("socks5://proxy:1080", header), refused: "proxyHeader needs a proxyURL"},
		"name of a Secret":    {reason: "no Secret can have it", spec: credential, refused: "spec.secretRef.name"},
		"labels of agents":    {reason: "keys, prefixes, and all", spec: labels("env", "example.com/env", "example.com/*", "*")},
		"no label":            {reason: "it says more than nothing", spec: labels()},
		"a label with value":  {reason: "keys alone are allowed", spec: labels("env=prod"), refused: "spec.agentLabels[0]"},
		"a part of a key":     {reason: "a star stands for a name", spec: labels("e*"), refused: "spec.agentLabels[0]"},
		"a label twice":       {reason: "it is a set", spec: labels("env", "env"), refused: "spec.agentLabels[1]"},
		"pinned claims":       {reason: "their names are free", spec: pinned(fleetv1alpha1.PinnedClaim{Name: "region.example.com", Value: "eu"})},
		"a claim pinned twice": {
			reason: "nobody knows which counts", spec: pinned(fleetv1alpha1.PinnedClaim{Name: "a", Value: "1"}, fleetv1alpha1.PinnedClaim{Name: "a", Value: "2"}),
			refused: "spec.pinnedClaims[1]",
		},
		"a claim of nothing": {reason: "no cluster can report it", spec: pinned(fleetv1alpha1.PinnedClaim{Name: "a"}), refused: "spec.pinnedClaims[0].value"},
		"name with a dot":    {reason: "no namespace can have it", name: "a.b", refused: "a DNS label of at most 63 characters"},
		"long name":          {reason: "no namespace can have it", name: strings.Repeat("a", 64), refused: "a DNS label of at most 63 characters"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Name: test.name}
			if test.name == "" {
				meta = metav1.ObjectMeta{GenerateName: "c"}
			}
			err := c.Create(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: meta, Spec: test.spec})
			if test.refused == "" && err != nil {
				t.Errorf("%s, but it is refused: %v", test.reason, err)
			}
			if test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("%s: got error %v, want one with %q", test.reason, err, test.refused)
			}
		})
	}
}

func TestTheSampleIsTakenAndPullIsTheDefault(t *testing.T) {
	c := newClient(t)
	content, err := os.ReadFile("../../../config/samples/clusterconnection-push/clusterconnection.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample := &fleetv1alpha1.ClusterConnection{}
	if err := yaml.UnmarshalStrict(content, sample); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), sample); err != nil {
		t.Fatal(err)
	}
	pull := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "pull"}}
	if err := c.Create(t.Context(), pull); err != nil {
		t.Fatal(err)
	}
	if sample.Spec.SyncMode != fleetv1alpha1.SyncModePush || pull.Spec.SyncMode != fleetv1alpha1.SyncModePull {
		t.Errorf("modes: the sample has %q, want Push; the one without has %q, want Pull", sample.Spec.SyncMode, pull.Spec.SyncMode)
	}
}
