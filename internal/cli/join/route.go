// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/member"
)

// route is how the hub gets to the member.
type route struct {
	// endpoint is the URL of the API server, proxy that of the proxy to it or empty.
	endpoint, proxy string
	// ca is PEM encoded; without it the hub trusts the certificates of its system.
	ca []byte
	// insecure does without a check of the member's certificate.
	insecure bool
}

// routeOptions are what the user says about the route, instead of the kubeconfig.
type routeOptions struct {
	endpoint, proxy string
	insecure        bool
}

// newRoute returns the route that the kubeconfig of the member and the flags
// make. A warning is about a route that leads there from here, but hardly from
// the hub.
func newRoute(config *rest.Config, entry clientcmdapi.Cluster, want routeOptions) (r route, warning string, err error) {
	if err := rest.LoadTLSFiles(config); err != nil {
		return route{}, "", exit.Next(fmt.Errorf("read the certificates of the member's kubeconfig: %w", err), "Fix the paths in the kubeconfig.")
	}
	r = route{
		endpoint: strings.TrimSuffix(cmp.Or(want.endpoint, config.Host), "/"), proxy: cmp.Or(want.proxy, entry.ProxyURL), ca: config.CAData,
	}
	address, err := url.Parse(r.endpoint)
	if err != nil || address.Scheme != "https" || address.Hostname() == "" {
		return route{}, "", exit.Next(fmt.Errorf("the address of the member is %q, want one such as https://member.example.com:6443", r.endpoint),
			"Give its address as seen from the hub with --%s.", flagEndpoint)
	}
	if proxy, err := url.Parse(r.proxy); err == nil && proxy.User != nil {
		return route{}, "", exit.Next(errors.New("the proxy to the member needs a password, which the hub has no safe place for"),
			"Give another proxy with --%s.", flagProxy)
	}
	switch {
	case config.Insecure && !want.insecure:
		return route{}, "", exit.Next(errors.New("the member's kubeconfig does not check the certificate of the member (insecure-skip-tls-verify), so the hub would send its token to anybody"),
			"Put certificate-authority-data into the kubeconfig. For a test, --%s lets the hub do without the check, too.", flagInsecure)
	case want.insecure:
		r.insecure = true
		r.ca = nil
	case config.ServerName != "" && want.endpoint == "":
		return route{}, "", exit.Next(fmt.Errorf("the member's kubeconfig looks for another name in its certificate (tls-server-name %q), which the hub cannot", config.ServerName),
			"Give an address whose name is in the certificate with --%s.", flagEndpoint)
	}
	if why := member.LocalAddress(address.Hostname()); why != "" {
		warning = fmt.Sprintf("the address of the member, %s, is %s: from the hub it leads somewhere else. Give its address as seen from the hub with --%s.",
			r.endpoint, why, flagEndpoint)
	}
	return r, warning, nil
}
