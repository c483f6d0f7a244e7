// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// endpoints returns what makes endpoints with authorities, and these.
func endpoints(t *testing.T) (at func(names ...string) connect.Endpoint, bundles map[string][]byte) {
	t.Helper()
	bundles = map[string][]byte{"": nil}
	for _, name := range []string{"old", "new", "other"} {
		pair, err := certs.NewAuthority(name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		bundles[name] = pair.CertPEM
	}
	at = func(names ...string) connect.Endpoint {
		e := connect.Endpoint{Entry: "hub", Server: "https://a"}
		for _, name := range names {
			e.CA = append(e.CA, bundles[name]...)
		}
		return e
	}
	return at, bundles
}

func TestACredentialLeadsToTheHubThatItFollows(t *testing.T) {
	at, bundles := endpoints(t)
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

func TestAnAgentDropsOnlyWhatTheHubHasPublished(t *testing.T) {
	at, bundles := endpoints(t)
	given := credential{Endpoint: at("old", "new")}
	published := credential{Endpoint: at("old", "new"), GivenCA: hashOf(bundles["old"])}
	elsewhere := at("new")
	elsewhere.Server = "https://b"
	for name, c := range map[string]struct {
		credential credential
		published  connect.Endpoint
		want       bool
	}{
		"one more":                                {credential{Endpoint: at("old")}, at("old", "new"), true},
		"another one in place of one":             {given, at("new", "other"), true},
		"the same":                                {given, at("old", "new"), false},
		"less than the user gave":                 {given, at("old"), false},
		"less than the hub has published":         {published, at("new"), true},
		"that of another hub, from before":        {published, elsewhere, false},
		"less than the user gave, another server": {given, elsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.credential.follows(c.published); got != c.want {
				t.Errorf("follows: %t, want %t", got, c.want)
			}
		})
	}
}
