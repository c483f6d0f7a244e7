// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/longkey"
)

// TestWhoeverWritesAKubeconfigDoesNotStopItsReader tries texts that become gigabytes, and
// keys that take days.
func TestWhoeverWritesAKubeconfigDoesNotStopItsReader(t *testing.T) {
	const config = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "https://hub.example.com", tls-server-name: %s}}], users: [{name: u, user: {client-key-data: %s%s}}]}`
	key := func(size int) string { return base64.StdEncoding.EncodeToString(make([]byte, size)) }
	for name, c := range map[string]struct{ text, want string }{
		"a key":             {fmt.Sprintf(config, `"*.example.com"`, key(6400), ""), ""},
		"a key of megabits": {fmt.Sprintf(config, "a", key(130_000), ""), "use an RSA key of at most 8192 bits"},
		"aliases": {
			fmt.Sprintf(config, "a", key(10), ", x: &a "+strings.Repeat("y", 1000)+", z: ["+strings.Repeat("*a,", 1000)+"]"), "it has aliases",
		},
		"a long comment":   {fmt.Sprintf(config, "a", key(10), "") + "#" + strings.Repeat("x", 100_000), ""},
		"a longer comment": {fmt.Sprintf(config, "a", key(10), "") + "#" + strings.Repeat("x", 512<<10), "more than 524288"},
		"an alias":         {fmt.Sprintf(config, "&a b", key(10), ", token: *a"), "it has aliases"},
		"a certificate of megabits": {
			fmt.Sprintf(config, "a", key(10), ", client-certificate-data: "+base64.StdEncoding.EncodeToString(longkey.AuthorityPEM(t, 1<<20))),
			"its client-certificate contains a certificate",
		},
		"an authority of megabits": {
			fmt.Sprintf(config, "a, certificate-authority-data: "+base64.StdEncoding.EncodeToString(longkey.AuthorityPEM(t, 1<<20)), key(10), ""),
			"its certificate-authority contains a certificate",
		},
		"a long authority": {
			fmt.Sprintf(config, "a, certificate-authority-data: "+base64.StdEncoding.EncodeToString(longkey.AuthorityPEM(t, 8192)), key(10), ""), "",
		},
	} {
		_, err := LoadCurrentContext([]byte(c.text), SecretFiles(nil))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it says %v, want %q", name, err, c.want)
		}
	}
	authority := fmt.Sprintf(config, "a, certificate-authority-data: "+base64.StdEncoding.EncodeToString(longkey.AuthorityPEM(t, 1<<20)), "", "")
	if _, err := LoadCluster([]byte(authority), SecretFiles(nil)); err == nil || !strings.Contains(err.Error(), "its certificate-authority contains a certificate") {
		t.Errorf("without a user it says %v", err)
	}
}
