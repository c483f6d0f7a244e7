// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"fmt"
	"strings"
)

// BriefStatus says in few words what the status of an object is, as far as it is of a
// usual shape.
func BriefStatus(raw json.RawMessage) string {
	var status struct {
		Phase                               string
		Replicas, ReadyReplicas             *int64
		DesiredNumberScheduled, NumberReady *int64
		Active, Succeeded, Failed           *int64
		LoadBalancer                        json.RawMessage
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return ""
	}
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	switch {
	case status.Phase != "":
		return status.Phase
	case status.DesiredNumberScheduled != nil:
		return fmt.Sprintf("%d/%d ready", value(status.NumberReady), *status.DesiredNumberScheduled)
	case status.Replicas != nil:
		return fmt.Sprintf("%d/%d ready", value(status.ReadyReplicas), *status.Replicas)
	case status.Active != nil || status.Succeeded != nil || status.Failed != nil:
		return fmt.Sprintf("%d active, %d succeeded, %d failed", value(status.Active), value(status.Succeeded), value(status.Failed))
	default:
		return balancerAddresses(status.LoadBalancer)
	}
}

const (
	// addressesMax is how many addresses of a load balancer are in few words.
	addressesMax = 3
	// addressBytesMax is how long an address may be, as a name in DNS.
	addressBytesMax = 253
)

// balancerAddresses returns those of a load balancer, as a Service or an Ingress has them in its status.
func balancerAddresses(raw json.RawMessage) string {
	var balancer struct {
		Ingress []struct{ Hostname, IP string }
	}
	if err := json.Unmarshal(raw, &balancer); err != nil {
		return "" // which no controller has written yet, or not in this way
	}
	var all []string
	for _, entry := range balancer.Ingress {
		for _, address := range []string{entry.Hostname, entry.IP} {
			if address != "" && len(address) <= addressBytesMax {
				all = append(all, address)
			}
		}
	}
	if more := len(all) - addressesMax; more > 0 {
		all = append(all[:addressesMax], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}
