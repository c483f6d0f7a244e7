// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/clinic"
	"github.com/capstan-io/capstan/internal/testing/cluster"
)

// TestWhatKeepsAClusterFromJoiningIsToldBeforeAnythingIsMade joins with what keeps a join from working: each is
// told with the next step before anything is made on the hub.
func TestWhatKeepsAClusterFromJoiningIsToldBeforeAnythingIsMade(t *testing.T) {
	w := takeHub(t)
	// The viewer may read what a join looks at first, on either side.
	cluster.GrantUser(t, w.Client, w.AdminConfig, "viewer", build.AccessRule("", "namespaces", "get"),
		build.AccessRule(clusterv1.GroupName, "managedclusters", "list"), build.AccessRule(fleetv1alpha1.GroupName, "clusterconnections", "list"),
		build.AccessRule("authorization.k8s.io", "selfsubjectaccessreviews", "create"))
	cases := map[string]struct {
		reason string
		change func(*clientcmdapi.Config)
		args   []string
		code   int
		want   []string
	}{
		"several contexts and none is current": {
			reason: "capstan must not guess which of them is the member", code: exit.NoMember,
			change: func(c *clientcmdapi.Config) { c.CurrentContext, c.Contexts["other"] = "", c.Contexts["hub"].DeepCopy() },
			want:   []string{"which cluster is the member", "--cluster-context hub, --cluster-context other"},
		},
		"nobody listens": {
			reason: "the member is down", code: exit.NoMember,
			change: func(c *clientcmdapi.Config) { c.Clusters["hub"].Server = "https://" + clinic.ClosedPort(t) },
			want:   []string{"cannot reach https://127.0.0.1:", "Check that the member is running", "--cluster-context"},
		},
		"a token that is not valid": {
			reason: "it has expired", code: exit.NoMember,
			change: func(c *clientcmdapi.Config) { c.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "expired"} },
			want:   []string{"refuses the credentials", "new kubeconfig of the member"},
		},
		"a user who may nothing in the member": {
			reason: "not even find out which cluster it is", code: exit.Failed,
			change: func(c *clientcmdapi.Config) { c.AuthInfos["me"].Impersonate = "nobody" },
			want:   []string{"forbidden", "administrator of the member"},
		},
		"a user who may only look in the member": {
			reason: "all that is missing is told at once", code: exit.Failed,
			change: func(c *clientcmdapi.Config) { c.AuthInfos["me"].Impersonate = "viewer" },
			want: []string{
				"you lack rights in the member", "create clusterroles.rbac.authorization.k8s.io",
				`create serviceaccounts/token "capstan-member1" in namespace "capstan-cluster"`, "Use a kubeconfig of somebody who has them",
			},
		},
		"a user who may not accept clusters": {
			reason: "the hub would refuse that later", code: exit.Failed, args: []string{"--as", "viewer"},
			want: []string{
				"you lack rights on the hub", `update managedclusters/accept.register.open-cluster-management.io "member1"`,
				`create secrets "cluster-connection" in namespace "member1"`,
			},
		},
		"a kubeconfig that checks no certificate": {
			reason: "the token would go to anybody", code: exit.Failed,
			change: func(c *clientcmdapi.Config) {
				c.Clusters["hub"].CertificateAuthorityData, c.Clusters["hub"].InsecureSkipTLSVerify = nil, true
			},
			want: []string{"insecure-skip-tls-verify", "--insecure-skip-tls-verification"},
		},
		"a region that is too long": {
			reason: "the hub checks it before anything is made", code: exit.Failed, args: []string{"--cluster-region", strings.Repeat("x", 300)},
			want: []string{"spec.region"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := clinic.KubeconfigOf(w.AdminConfig)
			if c.change != nil {
				c.change(config)
			}
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := clientcmd.WriteToFile(*config, file); err != nil {
				t.Fatal(err)
			}
			code, out := call(t, append([]string{"join", "member1", "--cluster-kubeconfig", file}, c.args...)...)
			if code != c.code {
				t.Errorf("%s: exit code %d, want %d", c.reason, code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%s: it does not say %q:\n%s", c.reason, want, out)
				}
			}
			for _, object := range []client.Object{&clusterv1.ManagedCluster{}, &fleetv1alpha1.ClusterConnection{}} {
				if err := w.Client.Get(t.Context(), client.ObjectKey{Name: "member1"}, object); err == nil {
					t.Errorf("%s: it has left a %T", c.reason, object)
				}
			}
		})
	}
}

// TestANameThatNoClusterCanHaveIsRefusedAtOnce is about what is said before anybody is asked.
func TestANameThatNoClusterCanHaveIsRefusedAtOnce(t *testing.T) {
	code, out := call(t, "join", "Member_3", "--cluster-kubeconfig", takeHub(t).Kubeconfig)
	if code != exit.Usage || !strings.Contains(out, `"Member_3" cannot be the name of a cluster`) {
		t.Errorf("exit code %d, want %d: %s", code, exit.Usage, out)
	}
}
