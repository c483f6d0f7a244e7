// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// kubeconfig writes a kubeconfig, and returns its path.
func kubeconfig(t *testing.T, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "one"
	config.Clusters["east"] = &clientcmdapi.Cluster{Server: "https://east.example.com:6443", TLSServerName: "api.east.example.com"}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "secret"}
	for _, name := range []string{"two", "one"} {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: "east", AuthInfo: "admin"}
	}
	if change != nil {
		change(config)
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// access returns the access of a user outside of any cluster, with these flags.
func access(t *testing.T, path, context, server string) *ClusterAccess {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	return NewClusterAccess(hubWords(), &genericclioptions.ConfigFlags{KubeConfig: &path, Context: &context, APIServer: &server}, io.Discard)
}

func TestItIsNeverGuessedWhichClusterIsMeant(t *testing.T) {
	noCurrent := func(c *clientcmdapi.Config) { c.CurrentContext = "" }
	nothing := func(c *clientcmdapi.Config) { *c = *clientcmdapi.NewConfig() }
	cases := map[string]struct {
		change          func(*clientcmdapi.Config)
		context, server string
		text, next      string
	}{
		"no current context":               {noCurrent, "", "", "does not say which cluster is the hub", `Choose the hub with --context one, --context two, or permanently`},
		"nothing in it":                    {nothing, "", "", "there is no kubeconfig", "NEXT: give one"},
		"a context that it does not have":  {nil, "three", "", `has no context "three"`, "It has: one, two. Choose one of them with --context."},
		"a context, and it has none":       {nothing, "three", "", `no context "three", and no other one`, "NEXT: give one"},
		"a current one that is not there":  {func(c *clientcmdapi.Config) { c.CurrentContext = "gone" }, "", "", `has no context "gone"`, "It has: one, two."},
		"a server does not mend a context": {nil, "three", "https://west.example.com", `has no context "three"`, "It has: one, two."},
		"a cluster that is not in it":      {func(c *clientcmdapi.Config) { delete(c.Clusters, "east") }, "", "", `is about cluster "east", which is not in it`, "Look at it"},
		"a user who is not in it":          {func(c *clientcmdapi.Config) { delete(c.AuthInfos, "admin") }, "two", "", `context "two" of the kubeconfig is about user "admin"`, "Look at it"},
		"a server that is no address":      {func(c *clientcmdapi.Config) { c.Clusters["east"].Server = "https://east example com" }, "", "", `context "one" of the kubeconfig has no valid server: "https://east example com"`, "Fix it with \"kubectl config set-cluster\", or give the address with --server."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := access(t, kubeconfig(t, tc.change), tc.context, tc.server).LoadRESTConfig()
			if err == nil {
				t.Fatal("a cluster was found")
			}
			check(t, err, err, tc.text, tc.next, exit.NoHub)
		})
	}
}

func TestWhereAKubeconfigLeads(t *testing.T) {
	type place struct{ Where, Host, Cluster, Name string }
	nobody := func(c *clientcmdapi.Config) { c.Contexts["one"].AuthInfo = "" }
	const east, west = "https://east.example.com:6443", "https://west.example.com:6443"
	cases := map[string]struct {
		change          func(*clientcmdapi.Config)
		context, server string
		want            place
	}{
		"its current context":            {nil, "", "", place{east + ` (context "one")`, east, east, "east"}},
		"the one that is given":          {nil, "two", "", place{east + ` (context "two")`, east, east, "east"}},
		"a context without a user":       {nobody, "", "", place{east + ` (context "one")`, east, east, "east"}},
		"another address of the cluster": {nil, "", west, place{west + ` (context "one")`, west, east, "east"}},
		"only an address":                {func(c *clientcmdapi.Config) { *c = *clientcmdapi.NewConfig() }, "", west, place{west, west, "", ""}},
		"a context whose cluster only the address names": {
			func(c *clientcmdapi.Config) { delete(c.Clusters, "east") }, "", west, place{west + ` (context "one")`, west, "", ""},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := access(t, kubeconfig(t, tc.change), tc.context, tc.server)
			if before := a.DescribeTarget(); before != "the hub" {
				t.Errorf("before it is known, it is %q", before)
			}
			config, err := a.LoadRESTConfig()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, place{a.DescribeTarget(), a.ServerAddress(), a.KubeconfigEntry().Server, a.ClusterName()}); diff != "" || config.Host != a.ServerAddress() {
				t.Errorf("it leads to %s, -want +got:\n%s", config.Host, diff)
			}
			if !strings.HasPrefix(config.UserAgent, "capstan/") || config.QPS >= 0 {
				t.Errorf("the user agent is %q, the limit %v: want to be known to the API server, and it to limit us", config.UserAgent, config.QPS)
			}
		})
	}
}

func TestAFileThatCannotBeReadIsToldOf(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"no kubeconfig": broken, "not there": broken + "-not"} {
		t.Run(name, func(t *testing.T) {
			a := access(t, path, "", "")
			if got := a.ListContexts(); got != nil {
				t.Errorf("it has contexts %q", got)
			}
			_, err := a.LoadRESTConfig()
			if err == nil {
				t.Fatal("a cluster was found")
			}
			check(t, err, err, "read the kubeconfig: ", "Name a kubeconfig that can be read with --kubeconfig or $KUBECONFIG.", exit.NoHub)
		})
	}
}

func TestContextsAreSorted(t *testing.T) {
	if diff := cmp.Diff([]string{"one", "two"}, access(t, kubeconfig(t, nil), "", "").ListContexts()); diff != "" {
		t.Errorf("contexts, -want +got:\n%s", diff)
	}
}

func TestAPodNeedsNoKubeconfig(t *testing.T) {
	cases := map[string]struct {
		host, variable, flag string
		want                 bool
	}{
		"in a pod":                    {"10.0.0.1", "", "", true},
		"in a pod, with a variable":   {"10.0.0.1", "config", "", false},
		"in a pod, with a kubeconfig": {"10.0.0.1", "", "config", false},
		"nowhere":                     {"", "", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := access(t, tc.flag, "", "")
			t.Setenv("KUBERNETES_SERVICE_HOST", tc.host)
			t.Setenv("KUBECONFIG", tc.variable)
			if err := a.checkContext(*clientcmdapi.NewConfig()); (err == nil) != tc.want {
				t.Errorf("error %v, want the cluster of the pod: %t", err, tc.want)
			}
		})
	}
}

func TestWarningsOfTheAPIServerAreShown(t *testing.T) {
	var out strings.Builder
	w := warnings{&out}
	w.HandleWarningHeaderWithContext(t.Context(), 299, "-", "v1 is deprecated")
	w.HandleWarningHeaderWithContext(t.Context(), 299, "-", "")
	w.HandleWarningHeaderWithContext(t.Context(), 199, "-", "of a proxy")
	if got := out.String(); got != "Warning: v1 is deprecated\n" {
		t.Errorf("shown: %q", got)
	}
}
