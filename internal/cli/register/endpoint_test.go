// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	for name, test := range map[string]struct{ given, server, want, remark string }{
		"that of the kubeconfig":     {"", "https://member.example.com:6443/", "https://member.example.com:6443", ""},
		"the given one":              {"https://edge.example.com/", "https://10.0.0.7:6443", "https://edge.example.com", ""},
		"given, as only it is local": {"https://edge.example.com", "https://127.0.0.1:6443", "https://edge.example.com", ""},
		"a loopback address":         {"", "https://127.0.0.1:6443", "", "is a loopback address"},
		"the name of one":            {"", "https://localhost:6443", "", "is a loopback address"},
		"a link-local address":       {"", "https://[fe80::1]:6443", "", "is a link-local address"},
		"no TLS":                     {"", "http://member.example.com", "", "not one that the hub shows"},
	} {
		t.Run(name, func(t *testing.T) {
			got, remark := memberEndpoint(test.given, test.server)
			if got != test.want || !strings.Contains(remark, test.remark) || (remark == "") != (test.remark == "") {
				t.Errorf("got %q and remark %q, want %q and one with %q", got, remark, test.want, test.remark)
			}
		})
	}
}

func TestCheckEndpoint(t *testing.T) {
	for given, good := range map[string]bool{
		"": true, "https://member.example.com": true, "member.example.com:6443": false, "http://member.example.com": false,
		"https://me:secret@member.example.com": false, "https://member.example.com?a=b": false, "https://": false,
	} {
		if err := checkEndpoint(given); (err == nil) != good {
			t.Errorf("%q: got %v, want that it is good: %t", given, err, good)
		}
	}
}
