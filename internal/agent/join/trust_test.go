// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/certs"
)

func TestACredentialLeadsToTheHubThatItFollows(t *testing.T) {
	bundles := map[string][]byte{"": nil}
	for _, name := range []string{"old", "new", "other"} {
		pair, err := certs.NewAuthority(name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		bundles[name] = pair.CertPEM
	}
	at := func(names ...string) connect.Endpoint {
		e := connect.Endpoint{Entry: "hub", Server: "https://a"}
		for _, name := range names {
			e.CA = append(e.CA, bundles[name]...)
		}
		return e
	}
	elsewhere := at("old")
	elsewhere.Server = "https://b"
	for name, c := range map[string]struct {
		credential credential
		bootstrap  connect.Endpoint
		want       bool
	}{
		"it has the CA that was given":              {credential{Endpoint: at("old")}, at("old"), true},
		"another was given":                         {credential{Endpoint: at("old")}, at("other"), false},
		"a part of it was given":                    {credential{Endpoint: at("old", "new")}, at("old"), false},
		"it follows what was given":                 {credential{Endpoint: at("new"), GivenCA: hashOf(bundles["old"])}, at("old"), true},
		"the new one was given since":               {credential{Endpoint: at("old", "new"), GivenCA: hashOf(bundles["old"])}, at("new"), true},
		"it follows something else than was given":  {credential{Endpoint: at("new"), GivenCA: hashOf(bundles["old"])}, at("other"), false},
		"it follows, and no CA was given":           {credential{Endpoint: at("new"), GivenCA: hashOf(bundles["old"])}, at(), false},
		"it follows, and another address was given": {credential{Endpoint: at("new"), GivenCA: hashOf(bundles["old"])}, elsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.credential.leadsTo(c.bootstrap); got != c.want {
				t.Errorf("leadsTo: %t, want %t", got, c.want)
			}
		})
	}
}
