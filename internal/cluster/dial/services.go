// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/client-go/rest"
)

// serviceTimeout is how long the hub may take to tell its service networks.
const serviceTimeout = 10 * time.Second

// ServiceNetworks returns the networks of the hub's Services. A hub that does
// not tell (Kubernetes before 1.33) has none here; they are to be given by hand.
func ServiceNetworks(ctx context.Context, config *rest.Config) ([]netip.Prefix, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("understanding the hub's address %q: %w", config.Host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("apis/networking.k8s.io/v1/servicecidrs").String(), nil)
	if err != nil {
		return nil, fmt.Errorf("reading the service networks of the hub: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the service networks of the hub: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("reading the service networks of the hub: %s", response.Status)
	}
	var list struct {
		Items []struct {
			Spec struct {
				CIDRs []netip.Prefix `json:"cidrs"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, answerBytesMax)).Decode(&list); err != nil {
		return nil, fmt.Errorf("understanding the hub's service networks: %w", err)
	}
	var networks []netip.Prefix
	for _, item := range list.Items {
		networks = append(networks, item.Spec.CIDRs...)
	}
	return networks, nil
}
