// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/test/lab/internal/inventory"
)

// newTestLab returns a lab with two clusters of which nothing runs.
func newTestLab(t *testing.T) *Lab {
	t.Helper()
	l := &Lab{place: place{dir: t.TempDir()}}
	l.state.Subnet = netip.MustParsePrefix("172.30.7.0/24")
	if err := l.state.Add([]inventory.Cluster{{Name: "hub"}, {Name: "member", Nodeless: true}}); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAddressesDeriveFromSubnetAndIndex(t *testing.T) {
	l := newTestLab(t)
	clusters, err := l.clusters("member")
	if err != nil {
		t.Fatal(err)
	}
	c := clusters[0]
	for what, pair := range map[string][2]string{
		"bridge":   {l.bridge().Address.String(), "172.30.7.1/24"},
		"address":  {c.address().String(), "172.30.7.12/24"},
		"url":      {c.url(), "https://172.30.7.12:6443"},
		"pods":     {c.podCIDR().String(), "10.200.2.0/24"},
		"services": {c.serviceCIDR().String(), "10.201.2.0/24"},
		"service":  {c.serviceIP().String(), "10.201.2.1"},
		"dns":      {c.dnsIP().String(), "10.201.2.10"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s, want %s", what, pair[0], pair[1])
		}
	}
}

// maxLinkName is the kernel's limit on the length of the name of an interface.
const maxLinkName = 15

func TestLinkNamesAreShort(t *testing.T) {
	l := newTestLab(t)
	c := &cluster{Entry: inventory.Entry{Index: inventory.MaxClusters}, lab: l}
	for _, name := range []string{l.bridge().Name, c.namespace().Link} {
		if len(name) > maxLinkName {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
}

func TestAnUnknownClusterIsAnError(t *testing.T) {
	if _, err := newTestLab(t).clusters("hub", "other"); err == nil {
		t.Error("there is a cluster nobody made")
	}
}

func TestFilesOfANodeAreWellFormed(t *testing.T) {
	l := newTestLab(t)
	clusters, err := l.clusters("hub")
	if err != nil {
		t.Fatal(err)
	}
	c := clusters[0]
	if err := (node{c}).writeFiles(); err != nil {
		t.Fatal(err)
	}
	for path := range nodeFiles {
		content, err := os.ReadFile(c.path(path))
		if err != nil {
			t.Fatal(err)
		}
		var value any
		switch {
		case strings.HasSuffix(path, ".conflist"):
			err = json.Unmarshal(content, &value)
		case strings.HasSuffix(path, ".yaml"):
			for document := range strings.SplitSeq(string(content), "\n---\n") {
				if err == nil {
					err = yaml.UnmarshalStrict([]byte(document), &value)
				}
			}
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTheKubeconfigHasAContextForEachCluster(t *testing.T) {
	l := newTestLab(t)
	clusters, err := l.clusters()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		if err := (credentials{c}).ensure(); err != nil {
			t.Fatal(err)
		}
	}
	content, err := l.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "hub" {
		t.Errorf("current context is %q", config.CurrentContext)
	}
	for _, c := range clusters {
		context, found := config.Contexts[c.Name]
		if !found {
			t.Errorf("no context %s", c.Name)
			continue
		}
		if server := config.Clusters[context.Cluster].Server; server != c.url() {
			t.Errorf("server of %s is %s", c.Name, server)
		}
		if _, found := config.AuthInfos[context.AuthInfo]; !found {
			t.Errorf("no user %s", context.AuthInfo)
		}
	}
}

func TestCredentialsAreKept(t *testing.T) {
	l := newTestLab(t)
	clusters, err := l.clusters("hub")
	if err != nil {
		t.Fatal(err)
	}
	c := clusters[0]
	var contents [2]string
	for i := range contents {
		if err := (credentials{c}).ensure(); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(c.keyFile(authorityPair))
		if err != nil {
			t.Fatal(err)
		}
		contents[i] = string(content)
	}
	if contents[0] != contents[1] {
		t.Error("the authority has changed")
	}
}

func TestAPIServersAuthorizeByRoleAndRestrictNodes(t *testing.T) {
	clusters, err := newTestLab(t).clusters()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		for _, arg := range []string{"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"} {
			if !slices.Contains(components{c}.apiServer().Args, arg) {
				t.Errorf("the API server of %s runs without %s", c.Name, arg)
			}
		}
	}
}

func TestTheSigningDurationIsGivenToTheControllers(t *testing.T) {
	clusters, err := newTestLab(t).clusters("hub")
	if err != nil {
		t.Fatal(err)
	}
	c := clusters[0]
	const flag = "--cluster-signing-duration="
	isSet := func(arg string) bool { return strings.HasPrefix(arg, flag) }
	if slices.ContainsFunc(components{c}.controllerManager().Args, isSet) {
		t.Error("without one, the default of Kubernetes is not used")
	}
	c.SigningDuration.Duration = 3 * time.Minute
	if !slices.Contains(components{c}.controllerManager().Args, flag+"3m0s") {
		t.Errorf("got %q, want %s3m0s", components{c}.controllerManager().Args, flag)
	}
}
