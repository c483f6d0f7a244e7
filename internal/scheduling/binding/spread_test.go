// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import "testing"

func TestSpreadByHand(t *testing.T) {
	world := []string{
		"a region=eu zone=eu-1 provider=p pods=5 rack=r1", "b region=eu zone=eu-2 provider=q pods=9 rack=r2",
		"c region=us zone=us-1 provider=p pods=2 rack=r1", "d region=asia zone=as-1 provider=q pods=7 rack=r3",
		"e region=us zone=us-1 provider=p pods=1 rack=r2", "f pods=99",
	}
	duplicated := "{spreadConstraints: "
	check(t, map[string]vector{
		"two clusters":                              {placement: duplicated + "[{spreadByField: cluster, maxGroups: 2, minGroups: 1}]}", clusters: world, replicas: 1, want: "a:1 b:1"},
		"two clusters, who has it first":            {placement: duplicated + "[{spreadByField: cluster, maxGroups: 2, minGroups: 1}]}", clusters: world, replicas: 1, previous: "e:1", want: "a:1 e:1"},
		"maxGroups is not set: no limit":            {placement: duplicated + "[{spreadByField: cluster, minGroups: 2}]}", clusters: []string{"a", "b", "c"}, replicas: 1, want: "a:1 b:1 c:1"},
		"too few clusters":                          {placement: duplicated + "[{spreadByField: cluster, minGroups: 4}]}", replicas: 1, message: "SchedulerError: spreadConstraints want at least 4 by cluster, and the clusters that may be chosen are 3; lower minGroups or add clusters"},
		"dynamic: most room first":                  {placement: with(dynamic, "spreadConstraints: [{spreadByField: cluster, maxGroups: 2}]"), clusters: world[:5], replicas: 4, want: "b:2 d:2"},
		"dynamic: room is made":                     {placement: with(dynamic, "spreadConstraints: [{spreadByField: cluster, maxGroups: 2}]"), clusters: world[:5], replicas: 10, previous: "c:2 e:1", want: "b:7 c:3"},
		"dynamic: no room in two":                   {placement: with(dynamic, "spreadConstraints: [{spreadByField: cluster, maxGroups: 2}]"), clusters: world[:5], replicas: 17, message: "SchedulerError: no enough resource when selecting 2 clusters"},
		"one cluster, and two regions":              {placement: duplicated + "[{spreadByField: region, maxGroups: 2, minGroups: 2}, {spreadByField: cluster, maxGroups: 1, minGroups: 1}]}", clusters: []string{"a region=r1", "b region=r1", "c region=r2"}, replicas: 1, want: "a:1 c:1"},
		"one cluster, and two zones":                {placement: duplicated + "[{spreadByField: zone, maxGroups: 2, minGroups: 2}, {spreadByField: cluster, maxGroups: 1, minGroups: 1}]}", clusters: world, replicas: 1, want: "c:1 d:1"},
		"one cluster, and two providers":            {placement: duplicated + "[{spreadByField: provider, maxGroups: 2, minGroups: 2}, {spreadByField: cluster, maxGroups: 1, minGroups: 1}]}", clusters: world, replicas: 1, want: "a:1 b:1"},
		"one cluster, and two regions that have it": {placement: with(dynamic, "spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, maxGroups: 1}]"), clusters: world, replicas: 3, previous: "a:1 c:2", want: "a:1 c:2"},
		"by region, and one has none":               {placement: duplicated + "[{spreadByField: region, maxGroups: 2, minGroups: 2}, {spreadByField: cluster, maxGroups: 2}]}", clusters: world, replicas: 1, want: "a:1 c:1"},
		"by region, as many clusters as there are":  {placement: duplicated + "[{spreadByField: region, minGroups: 2}, {spreadByField: cluster}]}", clusters: world, replicas: 1, want: "a:1 b:1 c:1 e:1"},
		"by region, dynamic":                        {placement: with(dynamic, "spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, maxGroups: 2}]"), clusters: world, replicas: 8, want: "b:4 d:4"},
		"by region, who has it stays":               {placement: with(dynamic, "spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, maxGroups: 2}]"), clusters: world, replicas: 3, previous: "a:1 c:2", want: "a:1 c:2"},
		"by zone":                                   {placement: duplicated + "[{spreadByField: zone, minGroups: 3, maxGroups: 3}, {spreadByField: cluster, maxGroups: 3}]}", clusters: world, replicas: 1, want: "a:1 c:1 d:1"},
		"by provider":                               {placement: duplicated + "[{spreadByField: provider, minGroups: 2}, {spreadByField: cluster, maxGroups: 2}]}", clusters: world, replicas: 1, want: "a:1 b:1"},
		"by label":                                  {placement: duplicated + "[{spreadByLabel: rack, minGroups: 3}]}", clusters: world, replicas: 1, want: "a:1 b:1 c:1 d:1 e:1"},
		"by region and label":                       {placement: duplicated + "[{spreadByLabel: rack, minGroups: 1, maxGroups: 1}, {spreadByField: region, minGroups: 2}, {spreadByField: cluster, maxGroups: 2}]}", clusters: world, replicas: 1, want: "a:1 c:1"},
		"too few regions":                           {placement: duplicated + "[{spreadByField: region, minGroups: 4}, {spreadByField: cluster}]}", clusters: world, replicas: 1, message: "SchedulerError: spreadConstraints want at least 4 by region, and the clusters that may be chosen are 3; lower minGroups or add clusters"},
		"no cluster has a region":                   {placement: duplicated + "[{spreadByField: region}, {spreadByField: cluster}]}", clusters: []string{"a", "b"}, replicas: 1, message: "NoClusterFit: 0/2 clusters are available; 2: it has no region"},
	})
}

func TestGroupsByHand(t *testing.T) {
	groups := "{clusterAffinities: [{affinityName: own, clusterNames: [a]}, {affinityName: rented, clusterNames: [b, c]}]"
	overflow := "{clusterAffinities: [{affinityName: own, clusterNames: [a], overflowAffinities: [{affinityName: near, clusterNames: [b]}, {affinityName: far, clusterNames: [c]}]}], " + dynamic[1:]
	rooms := []string{"a pods=3", "b pods=4", "c pods=9"}
	check(t, map[string]vector{
		"the first group":               {placement: groups + "}", replicas: 1, want: "a:1", group: "own"},
		"the second, without the first": {placement: groups + "}", clusters: []string{"a taint=NoSelect", "b", "c"}, replicas: 1, want: "b:1 c:1", group: "rented"},
		"not back to the first":         {placement: groups + "}", replicas: 1, previous: "b:1 c:1", observed: "rented", want: "b:1 c:1", group: "rented"},
		"back if the user asks":         {placement: groups + "}", replicas: 1, previous: "b:1 c:1", observed: "rented", fresh: true, want: "a:1", group: "own"},
		"a group that is no more":       {placement: groups + "}", replicas: 1, previous: "z:1", observed: "lost", want: "a:1", group: "own"},
		"the second has room":           {placement: groups + ", " + dynamic[1:], clusters: rooms, replicas: 5, want: "b:2 c:3", group: "rented"},
		"no group has room, and the first says so": {
			placement: groups + ", " + dynamic[1:], clusters: rooms, replicas: 50, previous: "a:1", observed: "own", want: "a:1", group: "own",
			message: "Unschedulable: Clusters available replicas 3 are not enough to schedule.",
		},
		"no group has clusters": {
			placement: groups + "}", clusters: []string{"x", "y"}, replicas: 1, previous: "a:1", observed: "own", group: "own",
			message: "NoClusterFit: 0/2 clusters are available; 2: its name is not one of a",
		},
		"no overflow":                     {placement: overflow, clusters: rooms, replicas: 3, want: "a:3", group: "own"},
		"overflow into the next":          {placement: overflow, clusters: rooms, replicas: 5, want: "a:3 b:2", group: "own"},
		"overflow into both":              {placement: overflow, clusters: rooms, replicas: 9, want: "a:3 b:4 c:2", group: "own"},
		"what flew over is taken first":   {placement: overflow, clusters: rooms, replicas: 6, previous: "a:3 b:4 c:2", want: "a:3 b:3", group: "own"},
		"more, and the own has room anew": {placement: overflow, clusters: []string{"a pods=1", "b pods=4", "c pods=9"}, replicas: 6, previous: "a:3 b:2", want: "a:4 b:2", group: "own"},
		"overflow, and nothing goes back": {placement: overflow, clusters: []string{"a pods=9", "b pods=4"}, replicas: 5, previous: "a:3 b:2", want: "a:3 b:2", group: "own"},
		"overflow, aggregated":            {placement: overflow[:len(overflow)-len(dynamic)+1] + aggregated[1:], clusters: rooms, replicas: 8, want: "a:3 b:4 c:1", group: "own"},
		"zero replicas need no overflow":  {placement: overflow, clusters: rooms, previous: "a:3 b:2", want: "a:0", group: "own"},
		"zero replicas, without the own":  {placement: overflow, clusters: rooms[1:], want: "b:0", group: "own"},
		"overflow into more than is there": {
			placement: overflow, clusters: rooms, replicas: 17, message: "Unschedulable: Clusters available replicas 16 are not enough to schedule.",
		},
	})
}
