// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"
	"testing"
)

func TestTheFirstFreeSubnetIsTaken(t *testing.T) {
	within := netip.MustParsePrefix("172.30.0.0/16")
	for name, test := range map[string]struct {
		first byte
		used  []string
		want  string
	}{
		"nothing used":       {7, nil, "172.30.7.0/24"},
		"others used":        {7, []string{"192.0.2.1/24", "127.0.0.1/8"}, "172.30.7.0/24"},
		"first used":         {7, []string{"172.30.7.1/24"}, "172.30.8.0/24"},
		"range used":         {7, []string{"172.30.0.1/17"}, "172.30.128.0/24"},
		"goes round":         {255, []string{"172.30.255.9/32"}, "172.30.0.0/24"},
		"everything is used": {0, []string{"172.16.0.1/12"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var used []netip.Prefix
			for _, s := range test.used {
				used = append(used, netip.MustParsePrefix(s))
			}
			got, err := firstFree(within, test.first, used)
			if test.want == "" {
				if err == nil {
					t.Errorf("got %s, want an error", got)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}
}

func TestPartitionsAreReadFromRules(t *testing.T) {
	const rules = `-P PREROUTING ACCEPT
-A PREROUTING -s 172.30.7.12/32 -j DROP
-A PREROUTING -i eth0 -j ACCEPT
-A PREROUTING -s 172.30.7.13/32 -j DROP
`
	want := []netip.Addr{netip.MustParseAddr("172.30.7.12"), netip.MustParseAddr("172.30.7.13")}
	if got := parseDropped(rules); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhatIsThereIsFound(t *testing.T) {
	links, err := FindLinks("lo")
	if err != nil || !slices.Contains(links, "lo") {
		t.Errorf("interfaces that begin with lo: %q (%v)", links, err)
	}
	for what, find := range map[string]func(string) ([]string, error){
		"interface": FindLinks, "namespace": FindNamespaces,
	} {
		if found, err := find("capstan-absent-"); err != nil || len(found) > 0 {
			t.Errorf("%s that is not there: %q (%v)", what, found, err)
		}
	}
}
