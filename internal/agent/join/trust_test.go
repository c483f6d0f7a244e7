// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// endpoints returns what makes endpoints with authorities, and these.
func endpoints(t *testing.T) (at func(names ...string) connect.HubEndpoint, bundles map[string][]byte) {
	t.Helper()
	bundles = map[string][]byte{"": nil}
	for _, name := range []string{"old", "new", "other"} {
		pair, err := certs.NewAuthority(name, time.Now())
		expect.NoError(t, err)
		bundles[name] = pair.CertPEM
	}
	at = func(names ...string) connect.HubEndpoint {
		e := connect.HubEndpoint{Entry: "hub", Server: "https://a"}
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
		credential hubCredential
		bootstrap  connect.HubEndpoint
		want       bool
	}{
		"it has the CA that was given":              {hubCredential{Endpoint: at("old")}, at("old"), true},
		"another was given":                         {hubCredential{Endpoint: at("old")}, at("other"), false},
		"a part of it was given":                    {hubCredential{Endpoint: at("old", "new")}, at("old"), false},
		"it follows what was given":                 {hubCredential{Endpoint: at("new"), GivenCA: contentHash(bundles["old"])}, at("old"), true},
		"the new one was given since":               {hubCredential{Endpoint: at("old", "new"), GivenCA: contentHash(bundles["old"])}, at("new"), true},
		"it follows something else than was given":  {hubCredential{Endpoint: at("new"), GivenCA: contentHash(bundles["old"])}, at("other"), false},
		"it follows, and no CA was given":           {hubCredential{Endpoint: at("new"), GivenCA: contentHash(bundles["old"])}, at(), false},
		"it follows, and another address was given": {hubCredential{Endpoint: at("new"), GivenCA: contentHash(bundles["old"])}, elsewhere, false},
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
	given := hubCredential{Endpoint: at("old", "new")}
	published := hubCredential{Endpoint: at("old", "new"), GivenCA: contentHash(bundles["old"])}
	elsewhere := at("new")
	elsewhere.Server = "https://b"
	for name, c := range map[string]struct {
		credential hubCredential
		published  connect.HubEndpoint
		want       bool
	}{
		"one more":                                {hubCredential{Endpoint: at("old")}, at("old", "new"), true},
		"another one in place of one":             {given, at("new", "other"), true},
		"the same":                                {given, at("old", "new"), false},
		"less than the user gave":                 {given, at("old"), false},
		"less than the hub has published":         {published, at("new"), true},
		"that of another hub, from before":        {published, elsewhere, false},
		"less than the user gave, another server": {given, elsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.credential.shouldFollow(c.published); got != c.want {
				t.Errorf("follows: %t, want %t", got, c.want)
			}
		})
	}
}
