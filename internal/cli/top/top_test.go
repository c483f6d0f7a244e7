// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// cpu is an amount of CPU; "" is nothing.
func cpu(text string) fleetv1alpha1.ResourceList {
	if text == "" {
		return nil
	}
	return fleetv1alpha1.ResourceList{"cpu": resource.MustParse(text)}
}

func TestHowFullAClusterIs(t *testing.T) {
	t.Parallel()
	type reported struct{ allocated, allocating, allocatable string }
	for name, c := range map[string]struct {
		allocatable string // as the ManagedCluster has it
		reported    *reported
		text, share string
	}{
		"nothing is known":                             {text: "-", share: "-"},
		"only the ManagedCluster is there":             {allocatable: "4", text: "-/4", share: "-"},
		"its agent reports nothing yet":                {allocatable: "4", reported: &reported{}, text: "-/4", share: "-"},
		"what is requested":                            {reported: &reported{allocated: "500m", allocatable: "2"}, text: "500m/2", share: "25%"},
		"pods without a node request, too":             {reported: &reported{allocated: "500m", allocating: "1", allocatable: "2"}, text: "1500m/2", share: "75%"},
		"nothing is requested":                         {reported: &reported{allocated: "0", allocatable: "2"}, text: "0/2", share: "0%"},
		"more is requested than there is":              {reported: &reported{allocated: "2", allocating: "3", allocatable: "2"}, text: "5/2", share: "250%"},
		"a part of a percent does not count":           {reported: &reported{allocated: "1999m", allocatable: "2"}, text: "1999m/2", share: "99%"},
		"no node can have pods":                        {reported: &reported{allocated: "0", allocating: "1", allocatable: "0"}, text: "1/0", share: "-"},
		"nobody says what there is":                    {reported: &reported{allocated: "1"}, text: "1/-", share: "-"},
		"the agent's word goes before the other":       {allocatable: "8", reported: &reported{allocated: "1", allocatable: "2"}, text: "1/2", share: "50%"},
		"the agent says a part, the cluster the other": {allocatable: "8", reported: &reported{allocated: "2"}, text: "2/8", share: "25%"},
	} {
		cluster := &clusterv1.ManagedCluster{}
		if c.allocatable != "" {
			cluster.Status.Allocatable = clusterv1.ResourceList{clusterv1.ResourceCPU: resource.MustParse(c.allocatable)}
		}
		var connection *fleetv1alpha1.ClusterConnection
		if r := c.reported; r != nil {
			connection = &fleetv1alpha1.ClusterConnection{}
			connection.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{Allocated: cpu(r.allocated), Allocating: cpu(r.allocating), Allocatable: cpu(r.allocatable)}
		}
		before := connection.DeepCopy()
		a := amountOf(cluster, connection, corev1.ResourceCPU)
		if a.formatAmount() != c.text || a.formatPercent() != c.share {
			t.Errorf("%s: %s and %s, not %s and %s", name, a.formatAmount(), a.formatPercent(), c.text, c.share)
		}
		if diff := cmp.Diff(before, connection); diff != "" {
			t.Errorf("%s: what the agent reports changes (-before +after):\n%s", name, diff)
		}
	}
}

// shares has percents; less than 0 is one that is not known.
func shares(name string, cpu, memory, pods int64, heartbeat *metav1.Time) clusterUsage {
	share := func(percent int64) resourceAmount {
		if percent < 0 {
			return resourceAmount{}
		}
		return resourceAmount{Percent: &percent}
	}
	return clusterUsage{Name: name, CPU: share(cpu), Memory: share(memory), Pods: share(pods), Heartbeat: heartbeat}
}

// TestTheOrderOfClusters: the fullest and the most silent come first, those that nothing is
// known of last, but those that were never heard of are the most silent of all; and of two
// that are the same, the one whose name does, however the hub lists them.
func TestTheOrderOfClusters(t *testing.T) {
	t.Parallel()
	early, late := &metav1.Time{Time: time.Unix(100, 0)}, &metav1.Time{Time: time.Unix(200, 0)}
	all := []clusterUsage{shares("a", 50, -1, 9, late), shares("b", -1, 70, 100, nil), shares("c", 50, 0, 80, early), shares("d", 90, 5, -1, early), shares("e", -1, -1, 9, nil)}
	for sortBy, want := range map[string][]string{
		"name":      {"a", "b", "c", "d", "e"},
		"cpu":       {"d", "a", "c", "b", "e"},
		"memory":    {"b", "d", "c", "a", "e"},
		"pods":      {"b", "c", "a", "e", "d"},
		"heartbeat": {"b", "e", "c", "d", "a"},
	} {
		for turn := range all {
			listed := slices.Concat(all[turn:], all[:turn])
			slices.SortFunc(listed, (&topCommand{sortBy: sortBy}).compareUsage)
			var got []string
			for _, u := range listed {
				got = append(got, u.Name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("by %s (-want +got):\n%s", sortBy, diff)
			}
		}
		if !slices.Contains(sortOrders(), sortBy) {
			t.Errorf("%s is no order that the command offers", sortBy)
		}
	}
}

func TestTheTableOfClusters(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	c := &topCommand{session: hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), clocktesting.NewFakePassiveClock(now))}
	quantity := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	full := clusterUsage{
		Name: "north", Ready: "True", NodesReady: ptr.To(0), Nodes: ptr.To(3), Heartbeat: &metav1.Time{Time: now.Add(-90 * time.Second)},
		CPU:    resourceAmount{Requested: quantity("7750m"), Allocatable: quantity("11"), Percent: ptr.To[int64](70)},
		Memory: resourceAmount{Requested: quantity("13Gi"), Allocatable: quantity("44Gi"), Percent: ptr.To[int64](0)}, Pods: resourceAmount{Requested: quantity("63"), Allocatable: quantity("330")},
	}
	want := "" +
		"NAME    READY     NODES   CPU        CPU%   MEMORY      MEMORY%   PODS     HEARTBEAT\n" +
		"north   True      0/3     7750m/11   70%    13Gi/44Gi   0%        63/330   90s ago\n" +
		"south   Unknown   -       -          -      -           -         -        -\n"
	if diff := cmp.Diff(want, c.formatUsage([]clusterUsage{full, {Name: "south", Ready: "Unknown"}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := c.formatUsage([]clusterUsage{}); got != "" {
		t.Errorf("of no clusters there is %q", got)
	}
}

func TestACommandLineThatMakesNoSense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call  topCommand
		names []string
		wrong bool
	}{
		"all clusters":               {call: topCommand{sortBy: "name"}},
		"some by name":               {call: topCommand{sortBy: "cpu"}, names: []string{"a", "b"}},
		"some by labels":             {call: topCommand{sortBy: "name", selector: "env in (prod,test),tier!=db"}},
		"some by both":               {call: topCommand{sortBy: "name", selector: "env=prod"}, names: []string{"a"}, wrong: true},
		"labels that are no such":    {call: topCommand{sortBy: "name", selector: "env==="}, wrong: true},
		"an order that there is not": {call: topCommand{sortBy: "CPU"}, wrong: true},
		"no order":                   {call: topCommand{sortBy: ""}, wrong: true},
	} {
		_, err := c.call.parseFlags(c.names)
		var wrong *exit.Error
		if got := errors.As(err, &wrong) && wrong.Code == exit.Usage; got != c.wrong || (err != nil) != c.wrong {
			t.Errorf("%s: wrong is %t (%v)", name, got, err)
		}
	}
}
