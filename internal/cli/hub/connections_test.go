// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// pages answers lists as an API server does that has so many ClusterConnections.
type pages struct {
	client.Client
	total, largest int
}

func (p *pages) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	list, ok := into.(*fleetv1alpha1.ClusterConnectionList)
	if !ok || o.Limit == 0 {
		return fmt.Errorf("a list of %T without a limit", into)
	}
	first, _ := strconv.Atoi(o.Continue)
	last := min(first+int(o.Limit), p.total)
	for i := first; i < last; i++ {
		c := fleetv1alpha1.ClusterConnection{}
		c.Name = fmt.Sprintf("c%d", i)
		c.Status.APIEnablements = []fleetv1alpha1.APIEnablement{{GroupVersion: "v1"}}
		c.Status.NodeSummary = &fleetv1alpha1.NodeSummary{TotalNum: 1}
		list.Items = append(list.Items, c)
	}
	p.largest = max(p.largest, last-first)
	if last < p.total {
		list.Continue = strconv.Itoa(last)
	}
	return nil
}

func TestConnectionsOfALargeFleetAreReadInPages(t *testing.T) {
	p := &pages{total: 2*connectionsPerPage + 1}
	all, err := ConnectionsByName(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != p.total || p.largest > connectionsPerPage {
		t.Errorf("%d of %d connections in pages of up to %d, want all in pages of %d", len(all), p.total, p.largest, connectionsPerPage)
	}
	for name, c := range all {
		if c.Name != name || c.Status.NodeSummary == nil || c.Status.APIEnablements != nil {
			t.Fatalf("under %q there is %+v, want it with its nodes and without what it serves", name, c)
		}
	}
}
