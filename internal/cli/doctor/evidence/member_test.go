// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// TestTheKlusterletOfACluster is the one that has its name, before the one whose secret has
// it, before the only one, if that has no name.
func TestTheKlusterletOfACluster(t *testing.T) {
	t.Parallel()
	klusterlet := func(name, cluster string) operatorv1.Klusterlet {
		k := operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		k.Spec.ClusterName, k.Spec.Namespace = cluster, "ns-"+name
		return k
	}
	joined := func(namespace, cluster string) map[string]*corev1.Secret {
		return map[string]*corev1.Secret{namespace: {Data: map[string][]byte{operatorv1.ClusterNameKey: []byte(cluster)}}}
	}
	for name, c := range map[string]struct {
		all     []operatorv1.Klusterlet
		secrets map[string]*corev1.Secret
		want    string
	}{
		"none":                         {},
		"by its name":                  {all: []operatorv1.Klusterlet{klusterlet("a", "west"), klusterlet("b", "east")}, want: "b"},
		"by its secret":                {all: []operatorv1.Klusterlet{klusterlet("a", ""), klusterlet("b", "")}, secrets: joined("ns-b", "east"), want: "b"},
		"its name goes before":         {all: []operatorv1.Klusterlet{klusterlet("a", ""), klusterlet("b", "east")}, secrets: joined("ns-a", "east"), want: "b"},
		"the only one":                 {all: []operatorv1.Klusterlet{klusterlet("a", "")}, want: "a"},
		"the only one, of another":     {all: []operatorv1.Klusterlet{klusterlet("a", "west")}},
		"two without a name or secret": {all: []operatorv1.Klusterlet{klusterlet("a", ""), klusterlet("b", "")}},
	} {
		m := &MemberEvidence{Klusterlets: Reading[*operatorv1.KlusterletList]{Value: &operatorv1.KlusterletList{Items: c.all}, Found: true}}
		m.chooseKlusterlet(t.Context(), &server{secrets: c.secrets}, "east")
		got := ""
		if m.Klusterlet != nil {
			got = m.Klusterlet.Name
		}
		if got != c.want {
			t.Errorf("%s: it is %q, not %q", name, got, c.want)
		}
	}
}

// TestOnlyThePublicPartOfABootstrapTokenIsTold: what else a member joins with is a secret.
func TestOnlyThePublicPartOfABootstrapTokenIsTold(t *testing.T) {
	t.Parallel()
	const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "https://hub.example.com"}}], users: [{name: u, user: {token: TOKEN}}]}`
	for name, c := range map[string]struct{ token, want string }{
		"a bootstrap token":         {"abcdef.0123456789abcdef", "abcdef"},
		"one of a service account":  {"eyJhbGciOiJSUzI1NiJ9.payload.signature", ""},
		"one that is too short":     {"abcdef.0123456789abcde", ""},
		"one with another alphabet": {"ABCDEF.0123456789abcdef", ""},
		"no token":                  {`""`, ""},
	} {
		m := &MemberEvidence{Klusterlet: &operatorv1.Klusterlet{}, Bootstrap: Reading[*corev1.Secret]{Found: true, Value: &corev1.Secret{
			Data: map[string][]byte{"kubeconfig": []byte(strings.ReplaceAll(kubeconfig, "TOKEN", c.token))},
		}}}
		if got := m.BootstrapToken(); got != c.want {
			t.Errorf("%s: %q is told, not %q", name, got, c.want)
		}
		m.Bootstrap.Err = forbidden
		if got := m.BootstrapToken(); got != "" {
			t.Errorf("%s, in a secret that cannot be read: %q is told", name, got)
		}
	}
	if got := (&MemberEvidence{Klusterlet: &operatorv1.Klusterlet{}}).BootstrapToken(); got != "" {
		t.Errorf("of no secret %q is told", got)
	}
}

// TestTheHubOpensTheConnections only where its ClusterConnection is there and says so.
func TestTheHubOpensTheConnections(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fleetv1alpha1.SyncMode]bool{fleetv1alpha1.SyncModePush: true, fleetv1alpha1.SyncModePull: false, "": false} {
		connection := &fleetv1alpha1.ClusterConnection{Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: mode}}
		c := &ClusterEvidence{Connection: Reading[*fleetv1alpha1.ClusterConnection]{Value: connection, Found: true}}
		if got := c.UsesPushMode(); got != want {
			t.Errorf("with mode %q it is %t", mode, got)
		}
	}
	if (&ClusterEvidence{}).UsesPushMode() || (&ClusterEvidence{Connection: Reading[*fleetv1alpha1.ClusterConnection]{Err: forbidden}}).UsesPushMode() {
		t.Error("it is so without a ClusterConnection")
	}
}
