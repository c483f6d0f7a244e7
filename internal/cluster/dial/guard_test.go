// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"errors"
	"net/netip"
	"testing"
)

func TestTheGuardKeepsTheHubFromDiallingItself(t *testing.T) {
	guard := AddressGuard{
		Forbidden: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10::/108")},
		Allowed:   []netip.Prefix{netip.MustParsePrefix("10.96.7.7/32")},
	}
	cases := map[string]struct {
		reason, address string
		refused         bool
	}{
		"another host":              {reason: "that is what the hub dials", address: "203.0.113.7"},
		"a private network":         {reason: "members are often in one", address: "192.168.1.1"},
		"IPv6":                      {reason: "that is what the hub dials", address: "2001:db8::1"},
		"loopback":                  {reason: "it is the hub", address: "127.0.0.1", refused: true},
		"another loopback":          {reason: "all of 127/8 is", address: "127.255.0.3", refused: true},
		"IPv6 loopback":             {reason: "it is the hub", address: "::1", refused: true},
		"loopback mapped into IPv6": {reason: "it is dialled as IPv4", address: "::ffff:127.0.0.1", refused: true},
		"loopback behind NAT64":     {reason: "it ends at IPv4", address: "64:ff9b::7f00:1", refused: true},
		"cloud metadata":            {reason: "it gives credentials away", address: "169.254.169.254", refused: true},
		"link-local with a zone":    {reason: "it is this link", address: "fe80::1%eth0", refused: true},
		"unspecified":               {reason: "it means this host", address: "0.0.0.0", refused: true},
		"IPv6 unspecified":          {reason: "it means this host", address: "::", refused: true},
		"multicast":                 {reason: "no API server has it", address: "224.0.0.1", refused: true},
		"a Service":                 {reason: "Services of the hub are not for members", address: "10.96.0.1", refused: true},
		"a Service, mapped":         {reason: "it is dialled as IPv4", address: "::ffff:10.96.0.1", refused: true},
		"an IPv6 Service":           {reason: "Services of the hub are not for members", address: "fd00:10::5", refused: true},
		"an allowed Service":        {reason: "the administrator said so", address: "10.96.7.7"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := guard.CheckAddress(netip.MustParseAddr(c.address))
			var forbidden *ForbiddenAddressError
			if refused := errors.As(err, &forbidden); refused != c.refused {
				t.Errorf("%s: got %v, want refused=%t", c.reason, err, c.refused)
			}
		})
	}
}
