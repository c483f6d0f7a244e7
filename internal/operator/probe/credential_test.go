// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const kubeconfigHead = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: hub, user: agent}}]
clusters: [{name: hub, cluster: {server: "https://hub.example.com"}}]
`

func TestInspectTellsWhatIsWrongWithASecret(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		data    map[string][]byte
		none    bool
		want    Verdict
		message string
	}{
		"NoSecret": {reason: "it has to be made", none: true, want: SecretMissing, message: "does not exist"},
		"NoKubeconfig": {
			reason: "the agent writes the name before the kubeconfig",
			data:   map[string][]byte{"cluster-name": []byte("c1")}, want: KubeconfigMissing, message: "no key",
		},
		"NotYAML": {
			reason: "a typing error is shown as such",
			data:   map[string][]byte{"kubeconfig": []byte("{")}, want: KubeconfigMalformed, message: "not a valid kubeconfig",
		},
		"NoContext": {
			reason: "the missing context is named",
			data:   map[string][]byte{"kubeconfig": []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\n")},
			want:   KubeconfigMalformed, message: `no context "x"`,
		},
		"NoServer": {
			reason: "a server without a scheme is not dialled",
			data: map[string][]byte{"kubeconfig": []byte(strings.Replace(kubeconfigHead, "https://hub.example.com", "hub:6443", 1) +
				"users: [{name: agent, user: {token: t}}]")},
			want: KubeconfigMalformed, message: "is not a URL",
		},
		"Plugin": {
			reason: "the operator must not run programs that a secret names",
			data: map[string][]byte{"kubeconfig": []byte(kubeconfigHead +
				"users: [{name: agent, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}}]")},
			want: KubeconfigMalformed, message: "plugin",
		},
		"ForeignFile": {
			reason: "the operator must not send its own token to a server that a secret names",
			data: map[string][]byte{"kubeconfig": []byte(kubeconfigHead +
				"users: [{name: agent, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]")},
			want: KubeconfigMalformed, message: "not a key of the secret",
		},
		"FilesOfTheSecret": {
			reason: "the hub's kubeconfig names its certificate by the keys of the secret",
			data: map[string][]byte{
				"kubeconfig": []byte(kubeconfigHead + "users: [{name: agent, user: {client-certificate: tls.crt, client-key: tls.key}}]"),
				"tls.crt":    []byte("certificate"), "tls.key": []byte("key"), "cluster-name": []byte("c1"),
			},
			want: Unchecked,
		},
		"Token": {
			reason: "a token is the usual credential to join with",
			data:   map[string][]byte{"kubeconfig": []byte(kubeconfigHead + "users: [{name: agent, user: {token: t}}]")},
			want:   Unchecked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{Data: test.data}
			if test.none {
				secret = nil
			}
			got := InspectSecret(secret, "ns/name", nil)
			if got.Problem.Verdict != test.want {
				t.Fatalf("%s: got verdict %q (%s), want %q", test.reason, got.Problem.Verdict, got.Problem.Message, test.want)
			}
			if !strings.Contains(got.Problem.Message, test.message) {
				t.Errorf("%s: message %q does not have %q", test.reason, got.Problem.Message, test.message)
			}
			if (got.Config != nil) != (test.want == Unchecked) {
				t.Errorf("%s: there is a configuration exactly if there is no problem", test.reason)
			}
		})
	}
}

func TestFilesAreTakenFromTheSecret(t *testing.T) {
	got := InspectSecret(&corev1.Secret{Data: map[string][]byte{
		"kubeconfig": []byte(kubeconfigHead + "users: [{name: agent, user: {client-certificate: tls.crt, client-key: tls.key}}]"),
		"tls.crt":    []byte("certificate"), "tls.key": []byte("key"), "cluster-name": []byte("c1"),
	}}, "ns/name", nil)
	if got.Config == nil || string(got.Config.CertData) != "certificate" || string(got.Config.KeyData) != "key" || got.Config.CertFile != "" {
		t.Errorf("the certificate is not that of the secret: %+v", got.Config)
	}
	if got.ClusterName != "c1" || got.Port() != 443 {
		t.Errorf("got cluster %q and port %d, want c1 and 443", got.ClusterName, got.Port())
	}
}

func TestCurrentDropsAnswersAboutAnUnusableSecret(t *testing.T) {
	usable := InspectSecret(&corev1.Secret{Data: map[string][]byte{
		"kubeconfig": []byte(kubeconfigHead + "users: [{name: agent, user: {token: t}}]"),
	}}, "ns/name", nil)
	for name, test := range map[string]struct {
		reason     string
		credential Credential
		last       CheckOutcome
		want       Verdict
	}{
		"SecretGone":     {"what is seen now goes before what was answered", InspectSecret(nil, "ns/name", nil), CheckOutcome{Verdict: Functional}, SecretMissing},
		"SecretAppeared": {"that it was missing is no longer true", usable, CheckOutcome{Verdict: SecretMissing}, Unchecked},
		"SecretChanged":  {"the last answer holds until the next", usable, CheckOutcome{Verdict: Functional}, Functional},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CurrentOutcome(test.credential, test.last); got.Verdict != test.want {
				t.Errorf("%s: got %q, want %q", test.reason, got.Verdict, test.want)
			}
		})
	}
}
