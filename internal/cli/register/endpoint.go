// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"fmt"
	"net/url"
	"strings"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/member"
)

const flagEndpoint = "cluster-endpoint"

// checkEndpoint returns an error for an address that the hub would not show.
func checkEndpoint(given string) error {
	if given == "" || isShownAddress(given) {
		return nil
	}
	return exit.UsageError("--%s: %q is not the address of a cluster: one looks like https://member.example.com:6443", flagEndpoint, given)
}

// isShownAddress reports whether the hub shows an address.
func isShownAddress(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "https" && parsed.Hostname() != "" && parsed.User == nil && parsed.RawQuery == "" && parsed.Fragment == ""
}

// memberEndpoint returns the address of the member that the agent reports: the given one,
// or that in its kubeconfig unless it leads somewhere else from other machines. A
// remark says so.
func memberEndpoint(given, server string) (address, remark string) {
	if given != "" {
		return strings.TrimSuffix(given, "/"), ""
	}
	server = strings.TrimSuffix(server, "/")
	why := "not one that the hub shows"
	if isShownAddress(server) {
		parsed, err := url.Parse(server)
		if err == nil {
			why = member.LocalAddress(parsed.Hostname())
		}
	}
	if why == "" {
		return server, ""
	}
	return "", fmt.Sprintf("The address in the member's kubeconfig, %s, is %s, so it is not reported to the hub. "+
		"Its address as seen from elsewhere can be given with --%s.", server, why, flagEndpoint)
}

// serverURLs are what the agent reports as the addresses of the member.
func serverURLs(endpoint string) []operatorv1.ServerURL {
	if endpoint == "" {
		return nil
	}
	return []operatorv1.ServerURL{{URL: endpoint}}
}
