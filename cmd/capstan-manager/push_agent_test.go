// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"strings"
	"testing"
)

func TestThePushAgentRefusesFlagsThatItCannotFollow(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"an address":      {reason: "a network needs a length", args: []string{"--allowed-networks=10.0.0.1"}, want: `--allowed-networks: "10.0.0.1" is not a network`},
		"no address":      {reason: "names are not networks", args: []string{"--forbidden-networks=services"}, want: `--forbidden-networks: "services" is not a network`},
		"negative claims": {reason: "there is no such number", args: []string{"--max-custom-cluster-claims=-1"}, want: "--max-custom-cluster-claims: -1 is less than 0"},
		"unknown gate":    {reason: "a typo must not be silent", args: []string{"--feature-gates=Nope=true"}, want: "Nope"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := newRootCommand("capstan-manager")
			cmd.SetArgs(append([]string{"push-agent"}, c.args...))
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, want one with %q", c.reason, err, c.want)
			}
		})
	}
}

func TestTheOwnAPIServerIsForbiddenUnlessItIsAllowed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	own := netip.MustParseAddr("10.96.0.1")
	guard, err := (&pushAgentFlags{}).parseAddressGuard()
	if err != nil {
		t.Fatal(err)
	}
	if guard.CheckAddress(own) == nil {
		t.Error("the hub's own API server may be dialled as a member")
	}
	guard, err = (&pushAgentFlags{allowed: []string{"10.96.0.0/12"}}).parseAddressGuard()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.CheckAddress(own); err != nil {
		t.Errorf("it was allowed, but %v", err)
	}
}
