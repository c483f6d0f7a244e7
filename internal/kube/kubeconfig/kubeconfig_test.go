// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const head = `apiVersion: v1
kind: Config
current-context: hub
contexts: [{name: hub, context: {cluster: hub, user: agent}}]
clusters: [{name: hub, cluster: {server: "https://hub.example.com:6443"}}]
`

func TestAKubeconfigRunsNothingAndReadsNothingElse(t *testing.T) {
	dir := t.TempDir()
	stolen := filepath.Join(t.TempDir(), "token")
	for file, text := range map[string]string{filepath.Join(dir, "tls.crt"): "certificate", filepath.Join(dir, "tls.key"): "key", stolen: "stolen"} {
		expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	cases := map[string]struct {
		reason, user string
		fails        string // a part of the error; empty if it is good
		token, cert  string
	}{
		"a token":          {reason: "that is usual", user: "{token: t}", token: "t"},
		"files of its own": {reason: "the hub kubeconfig is like that", user: "{client-certificate: tls.crt, client-key: tls.key}", cert: "certificate"},
		"files of its own elsewhere": {
			reason: "what counts is what came with it", user: "{client-certificate: /spoke/hub-kubeconfig/tls.crt, client-key: ../tls.key}", cert: "certificate",
		},
		"another file": {reason: "a server would get it as a token", user: "{tokenFile: " + stolen + "}", fails: "not a key of the secret"},
		"another file beside": {
			reason: "a path does not lead out of the folder", user: "{tokenFile: ../" + filepath.Base(filepath.Dir(stolen)) + "/token}", fails: "not a key of the secret",
		},
		"a program":       {reason: "the agent would run it", user: "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}", fails: "plugin"},
		"an old program":  {reason: "the agent would run it", user: "{auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}}", fails: "plugin"},
		"no credential":   {reason: "whether that is enough is the server's to say", user: "{}"},
		"a wrong context": {reason: "it names a user that is not there", user: "{token: t}, name: other", fails: `no user "agent"`},
	}
	for name, c := range cases {
		for from, files := range map[string]Files{
			"folder": FolderFiles(dir), "secret": SecretFiles(map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key")}),
		} {
			t.Run(name+" from a "+from, func(t *testing.T) {
				user := "users: [{name: agent, user: " + c.user + "}]"
				if strings.Contains(c.user, "name: other") {
					user = "users: [{user: " + c.user + "}]"
				}
				read, err := LoadCurrentContext([]byte(head+user), files)
				if c.fails != "" {
					if err == nil || !strings.Contains(err.Error(), c.fails) {
						t.Fatalf("%s: got error %v, want one with %q", c.reason, err, c.fails)
					}
					return
				}
				if err != nil {
					t.Fatalf("%s: %v", c.reason, err)
				}
				config, err := read.ClientConfig()
				expect.NoError(t, err)
				got := []string{config.BearerToken, string(config.CertData), config.BearerTokenFile, config.CertFile, config.KeyFile}
				if diff := cmp.Diff([]string{c.token, c.cert, "", "", ""}, got); diff != "" {
					t.Errorf("%s: token, certificate and files (-want +got):\n%s", c.reason, diff)
				}
			})
		}
	}
}
