// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

func TestTheHubTellsTheNetworksOfItsServices(t *testing.T) {
	cases := map[string]struct {
		reason, body string
		status       int
		want         []string
		fails        string // a part of the error; empty if there is none
	}{
		"two families": {
			reason: "each Service may have an address of both", status: http.StatusOK,
			body: `{"items":[{"spec":{"cidrs":["10.96.0.0/12","fd00:10::/108"]}}]}`, want: []string{"10.96.0.0/12", "fd00:10::/108"},
		},
		"added networks": {
			reason: "an administrator may add some", status: http.StatusOK,
			body: `{"items":[{"spec":{"cidrs":["10.96.0.0/12"]}},{"spec":{"cidrs":["10.200.0.0/16"]}}]}`, want: []string{"10.96.0.0/12", "10.200.0.0/16"},
		},
		"an old hub": {
			reason: "it has no such kind, which is no failure", status: http.StatusNotFound, body: `{}`,
		},
		"no permission": {
			reason: "not to know is not to have none", status: http.StatusForbidden, body: `{}`, fails: "403",
		},
		"a hub in trouble": {
			reason: "not to know is not to have none", status: http.StatusInternalServerError, body: `{}`, fails: "500",
		},
		"nonsense": {
			reason: "a network that is not understood would be left open", status: http.StatusOK,
			body: `{"items":[{"spec":{"cidrs":["10.96.0.0"]}}]}`, fails: "understanding",
		},
		"an answer without end": {
			reason: "what is cut off is not understood", status: http.StatusOK,
			body: `{"items":[` + strings.Repeat(`{"spec":{"cidrs":["10.96.0.0/12"]}},`, answerBytesMax/30) + `{}]}`, fails: "understanding",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var asked string
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.Method + " " + r.URL.Path
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer hub.Close()
			networks, err := ServiceNetworks(t.Context(), &rest.Config{Host: hub.URL + "/behind/a/proxy"})
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Fatalf("%s: got error %v, want one with %q", c.reason, err, c.fails)
			}
			var want []netip.Prefix
			for _, network := range c.want {
				want = append(want, netip.MustParsePrefix(network))
			}
			if diff := cmp.Diff(want, networks, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if asked != "GET /behind/a/proxy/apis/networking.k8s.io/v1/servicecidrs" {
				t.Errorf("the hub was asked for %s", asked)
			}
		})
	}
}
