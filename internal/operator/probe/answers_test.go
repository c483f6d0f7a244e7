// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAServerOfASecretAnswersWithinLimits has a server that somebody named in a Secret
// answer what would take the memory of the operator, which works for others, too.
func TestAServerOfASecretAnswersWithinLimits(t *testing.T) {
	const review = `{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","status":{"resourceRules":[%s]}}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		wants  string
	}{
		"many bytes of few": {
			wants: "exceeds 8388608 bytes",
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
				zip := gzip.NewWriter(w)
				_, _ = io.WriteString(zip, strings.Repeat(" ", 16<<20))
				_, _ = fmt.Fprintf(zip, review, "")
				_ = zip.Close()
			},
		},
		"many rules of few bytes": {
			wants: "exceeds one element of a list for each 64 bytes",
			answer: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, review, "{}"+strings.Repeat(",{}", 300_000))
			},
		},
		"something else": {
			wants: "redirects are not followed",
			answer: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					_, _ = fmt.Fprintf(w, review, "")
					return
				}
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				c.answer(w, r)
			}))
			t.Cleanup(server.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			kubeconfig := strings.Replace(kubeconfigHead, `server: "https://hub.example.com"`,
				fmt.Sprintf("server: %q, certificate-authority-data: %s", server.URL, base64.StdEncoding.EncodeToString(ca)), 1)
			secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(kubeconfig + "users: [{name: agent, user: {token: t}}]")}}
			got := Prober{}.ProbeHostedHub(t.Context(), InspectSecret(secret, "ns/name", nil), "hub")
			if got.Verdict != Unreachable || !strings.Contains(got.Message, c.wants) {
				t.Errorf("got %+v, want that its answer %s", got, c.wants)
			}
		})
	}
}
