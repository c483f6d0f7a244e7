// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/longkey"
)

func TestBundlesOfCertificates(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	one := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, c := range map[string]struct{ bundle, want string }{
		"none":               {},
		"one":                {bundle: one},
		"several":            {bundle: "a comment\n" + one + one},
		"no certificate":     {bundle: "bundle", want: "webhooks[1].clientConfig.caBundle: Invalid value: it contains no certificate: set it to the PEM-encoded certificates"},
		"a key":              {bundle: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), want: "it contains a PRIVATE KEY, which is not a certificate"},
		"a certificate of x": {bundle: one + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), want: "certificate 2 of it cannot be read"},
		"a key of a megabit": {bundle: one + string(longkey.AuthorityPEM(t, 1<<20)), want: "certificate 2 of it cannot be used: its RSA key has 1048576 bits"},
		"too many":           {bundle: strings.Repeat(one, certificatesMax+1), want: "more than 256 certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := &configv1alpha1.ResourceInterpreterWebhookConfiguration{Webhooks: make([]configv1alpha1.ResourceInterpreterWebhook, 2)}
			configuration.Webhooks[1].ClientConfig.CABundle = []byte(c.bundle)
			wrong := CheckConfiguration(configuration)
			switch {
			case c.want == "" && len(wrong) > 0:
				t.Errorf("it is refused: %v", wrong)
			case c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), c.want)):
				t.Errorf("got %v, want %q", wrong, c.want)
			}
		})
	}
}
