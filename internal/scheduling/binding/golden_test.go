// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fleetOf reads clusters such as "a region=eu zone=z1,z2 pods=5 rack=r1": a cluster
// in a region and two zones, with room for five pods and a label.
func fleetOf(texts ...string) view.Fleet {
	var clusters []view.Cluster
	for _, text := range texts {
		words := strings.Fields(text)
		c := view.Cluster{Name: words[0], Labels: map[string]string{}}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "region":
				c.Region = value
			case "provider":
				c.Provider = value
			case "zone":
				c.Zones = strings.Split(value, ",")
			case "pods", "cpu":
				if c.Room == nil {
					c.Room = &view.FreeRoom{Free: view.Amounts{"pods": 1_000_000}}
				}
				n, _ := strconv.ParseInt(value, 10, 64)
				c.Room.Free[corev1.ResourceName(key)] = 1000 * n
			case "taint":
				c.Taints = append(c.Taints, view.Taint{Key: "t", Effect: view.Effect(value)})
			case "deleting":
				c.Deleting = true
			case "asking":
				c.AsksToJoin = true
			default:
				c.Labels[key] = value
			}
		}
		clusters = append(clusters, c)
	}
	return view.NewFleet(clusters...)
}

func placementOf(t testing.TB, text string) *policyv1alpha1.Placement {
	t.Helper()
	if text == "" {
		return nil
	}
	placement := &policyv1alpha1.Placement{}
	if err := yaml.UnmarshalStrict([]byte(text), placement); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	return placement
}

// targetsOf reads what was decided before, such as "a:3 b:1".
func targetsOf(text string) []workv1alpha2.TargetCluster {
	var targets []workv1alpha2.TargetCluster
	for word := range strings.FieldsSeq(text) {
		name, replicas, _ := strings.Cut(word, ":")
		n, _ := strconv.ParseInt(replicas, 10, 32)
		targets = append(targets, workv1alpha2.TargetCluster{Name: name, Replicas: int32(n)})
	}
	return targets
}

func textOf(targets []workv1alpha2.TargetCluster) string {
	words := make([]string, 0, len(targets))
	for _, target := range targets {
		words = append(words, fmt.Sprintf("%s:%d", target.Name, target.Replicas))
	}
	return strings.Join(words, " ")
}

// UIDs of objects by which ties go to the first and to the last by name.
const (
	first = types.UID("uid-2")
	last  = types.UID("uid-1")
)

const (
	static     = "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}"
	dynamic    = "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}"
	aggregated = "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}"
)

// with adds fields to a placement.
func with(placement, fields string) string {
	return strings.TrimSuffix(placement, "}") + ", " + fields + "}"
}

// weighted returns static weights of clusters by name: "a,b" 1 "b" 4.
func weighted(pairs ...any) string {
	var rules []string
	for i := 0; i < len(pairs); i += 2 {
		rules = append(rules, fmt.Sprintf("{targetCluster: {clusterNames: [%s]}, weight: %d}", pairs[i], pairs[i+1]))
	}
	return strings.TrimSuffix(static, "}}") + ", weightPreference: {staticWeightList: [" + strings.Join(rules, ", ") + "]}}}"
}

// vector is a division that was computed by hand.
type vector struct {
	placement string
	clusters  []string // a, b and c if there are none
	replicas  int32
	previous  string
	uid       types.UID
	fresh     bool
	partial   bool
	cpu       string // that a replica requests
	assumed   string // CPUs by cluster
	observed  string // group
	want      string
	group     string // of the decision
	message   string // if it fails
}

func (v vector) decide(t *testing.T) SchedulingDecision {
	t.Helper()
	if v.clusters == nil {
		v.clusters = []string{"a", "b", "c"}
	}
	in := PlacementInput{
		Placement: placementOf(t, v.placement), Workload: true, Replicas: v.replicas, Previous: targetsOf(v.previous),
		UID: v.uid, Fresh: v.fresh, Partial: v.partial, ObservedAffinity: v.observed, Assumed: map[string]view.Amounts{},
	}
	if v.cpu != "" {
		var list corev1.ResourceList
		expect.NoError(t, yaml.Unmarshal([]byte("cpu: "+v.cpu), &list))
		in.Requirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: list}
	}
	for _, use := range targetsOf(v.assumed) {
		in.Assumed[use.Name] = view.Amounts{"cpu": 1000 * int64(use.Replicas)}
	}
	return DecidePlacement(fleetOf(v.clusters...), in, noon)
}

func check(t *testing.T, vectors map[string]vector) {
	t.Helper()
	for name, v := range vectors {
		t.Run(name, func(t *testing.T) {
			got := v.decide(t)
			if text := textOf(got.Clusters); text != v.want || got.Affinity != v.group {
				t.Errorf("got %q of group %q, want %q of %q (%s: %s)", text, got.Affinity, v.want, v.group, got.Reason, got.Message)
			}
			message := v.message
			if message == "" {
				message = "Success: Binding has been scheduled successfully."
			}
			if text := got.Reason + ": " + got.Message; text != message {
				t.Errorf("got %q, want %q", text, message)
			}
		})
	}
}

func TestDivisionByHand(t *testing.T) {
	rooms := []string{"a pods=10", "b pods=20", "c pods=5"}
	check(t, map[string]vector{
		"no placement: all clusters, all replicas": {replicas: 2, want: "a:2 b:2 c:2"},
		"duplicated":                               {placement: "{clusterAffinity: {clusterNames: [a, c]}, replicaScheduling: {replicaSchedulingType: Duplicated}}", replicas: 2, want: "a:2 c:2"},
		"duplicated, and clusters have no room":    {clusters: []string{"a pods=1", "b pods=0"}, replicas: 2, want: "a:2 b:2"},
		"duplicated: a new cluster at once":        {replicas: 2, previous: "a:2", want: "a:2 b:2 c:2"},
		"zero replicas go to all":                  {placement: dynamic, want: "a:0 b:0 c:0"},
		"scheduling without fields: equal weights": {placement: "{replicaScheduling: {}}", replicas: 5, uid: first, want: "a:2 b:2 c:1"},
		"ties, the first by name":                  {placement: static, replicas: 5, uid: first, want: "a:2 b:2 c:1"},
		"ties, the last by name":                   {placement: static, replicas: 5, uid: last, want: "a:1 b:2 c:2"},
		"one replica, the first":                   {placement: static, replicas: 1, uid: first, want: "a:1"},
		"one replica, the last":                    {placement: static, replicas: 1, uid: last, want: "c:1"},
		"static 1:2:3 of 6":                        {placement: weighted("a", 1, "b", 2, "c", 3), replicas: 6, want: "a:1 b:2 c:3"},
		"static 1:2:3 of 7":                        {placement: weighted("a", 1, "b", 2, "c", 3), replicas: 7, want: "a:1 b:2 c:4"},
		"static: the greatest weight counts":       {placement: weighted("a, b", 1, "b", 4, "b, c", 2), replicas: 9, want: "a:1 b:5 c:3"},
		"static: no rule, no replica":              {placement: weighted("a", 1, "b", 1), replicas: 3, want: "a:2 b:1"},
		"static: no rule for anyone":               {placement: weighted("z", 3), replicas: 3, want: "a:1 b:1 c:1"},
		"static: nothing stays":                    {placement: static, replicas: 4, previous: "c:4", want: "a:2 b:1 c:1"},
		"static: spread constraints do not count":  {placement: with(static, "spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]"), replicas: 3, want: "a:1 b:1 c:1"},
		"static: room does not count":              {placement: static, clusters: []string{"a pods=0", "b pods=9"}, replicas: 2, want: "a:1 b:1"},
		"static: who only asks to join gets none":  {placement: with(static, "clusterTolerations: [{operator: Exists}]"), clusters: []string{"a", "b", "c taint=NoSelect asking"}, replicas: 4, want: "a:2 b:2"},
		"dynamic, at first":                        {placement: dynamic, clusters: rooms, replicas: 7, want: "a:2 b:4 c:1"},
		"dynamic, more":                            {placement: dynamic, clusters: rooms, replicas: 7, previous: "c:4", want: "a:1 b:2 c:4"},
		"dynamic, fewer":                           {placement: dynamic, clusters: rooms, replicas: 3, previous: "a:2 c:4", want: "a:1 c:2"},
		"dynamic, as many: nothing moves":          {placement: dynamic, clusters: []string{"a pods=0", "b pods=90", "c pods=0"}, replicas: 6, previous: "a:2 c:4", want: "a:2 c:4"},
		"dynamic, as many: not to a new cluster":   {placement: dynamic, clusters: append(rooms, "d pods=99"), replicas: 6, previous: "c:6", want: "c:6"},
		"dynamic, anew":                            {placement: dynamic, clusters: []string{"a pods=2", "b pods=2"}, replicas: 4, previous: "a:4", fresh: true, want: "a:3 b:1"},
		"dynamic, anew: some wait there":           {placement: dynamic, clusters: []string{"a cpu=-3", "b cpu=4"}, replicas: 4, previous: "a:4", cpu: "1", fresh: true, want: "a:1 b:3"},
		"dynamic, anew: all wait there":            {placement: dynamic, clusters: []string{"a cpu=-9", "b cpu=4"}, replicas: 4, previous: "a:4", cpu: "1", fresh: true, want: "b:4"},
		"dynamic: what waits there stays":          {placement: dynamic, clusters: []string{"a cpu=-3", "b cpu=4"}, replicas: 4, previous: "a:4", cpu: "1", want: "a:4"},
		"dynamic, more: what waits counts once":    {placement: dynamic, clusters: []string{"a cpu=-3", "b cpu=4"}, replicas: 8, previous: "a:4", cpu: "1", want: "a:4 b:4"},
		"dynamic: a target that is lost": {
			placement: with(dynamic, "clusterAffinity: {exclude: [a]}"), clusters: []string{"a pods=9", "b pods=10", "c pods=5"}, replicas: 6, previous: "a:4 b:2", want: "b:5 c:1",
		},
		"dynamic: no room":              {placement: dynamic, clusters: []string{"a pods=1", "b pods=2"}, replicas: 4, message: "Unschedulable: Clusters available replicas 3 are not enough to schedule."},
		"dynamic: no room for more":     {placement: dynamic, clusters: []string{"a pods=0", "b pods=1"}, replicas: 5, previous: "a:3", want: "a:3", message: "Unschedulable: Clusters available replicas 1 are not enough to schedule."},
		"dynamic: room for some only":   {placement: dynamic, clusters: []string{"a pods=2"}, replicas: 8, message: "Unschedulable: Clusters available replicas 2 are not enough to schedule."},
		"dynamic: room is not known":    {placement: dynamic, clusters: []string{"a", "b"}, replicas: 4, want: "a:2 b:2"},
		"dynamic, by CPU":               {placement: dynamic, clusters: []string{"a cpu=4", "b cpu=8"}, replicas: 6, cpu: "1", want: "a:2 b:4"},
		"dynamic, and others were told": {placement: dynamic, clusters: []string{"a cpu=4", "b cpu=8"}, replicas: 4, cpu: "1", assumed: "b:8", want: "a:4"},
		"aggregated, one has room":      {placement: aggregated, clusters: rooms, replicas: 12, want: "b:12"},
		"aggregated, two are needed":    {placement: aggregated, clusters: rooms, replicas: 30, want: "a:10 b:20"},
		"aggregated, more, where it is": {placement: aggregated, clusters: rooms, replicas: 8, previous: "c:3", want: "c:8"},
		"aggregated, more, and further": {placement: aggregated, clusters: rooms, replicas: 10, previous: "c:3", want: "b:6 c:4"},
		"aggregated, fewer":             {placement: aggregated, clusters: rooms, replicas: 4, previous: "a:5 b:5", want: "a:4"},
		"aggregated, anew":              {placement: aggregated, clusters: []string{"a pods=1", "b pods=6"}, replicas: 6, previous: "a:3 c:3", fresh: true, want: "b:6"},
		"aggregated, no room":           {placement: aggregated, clusters: rooms, replicas: 36, message: "Unschedulable: Clusters available replicas 35 are not enough to schedule."},
	})
}

func TestPartialPlacementByHand(t *testing.T) {
	rooms := []string{"a pods=1", "b pods=2"}
	const short = "Unschedulable: %d of %d replicas are placed, and %d wait: the clusters that may be chosen have no room for more"
	tiers := "clusterAffinities: [{affinityName: x, clusterNames: [a], overflowAffinities: [{affinityName: far, clusterNames: [b]}]}]"
	groups := "clusterAffinities: [{affinityName: x, clusterNames: [a]}, {affinityName: far, clusterNames: [b]}]"
	check(t, map[string]vector{
		"all have room":               {partial: true, placement: dynamic, clusters: rooms, replicas: 3, want: "a:1 b:2"},
		"some have":                   {partial: true, placement: dynamic, clusters: rooms, replicas: 5, want: "a:1 b:2", message: fmt.Sprintf(short, 3, 5, 2)},
		"some have, aggregated":       {partial: true, placement: aggregated, clusters: rooms, replicas: 5, want: "a:1 b:2", message: fmt.Sprintf(short, 3, 5, 2)},
		"none has":                    {partial: true, placement: dynamic, clusters: []string{"a pods=0"}, replicas: 5, message: "Unschedulable: Clusters available replicas 0 are not enough to schedule."},
		"more, and some have":         {partial: true, placement: dynamic, clusters: rooms, replicas: 9, previous: "b:4", want: "a:1 b:6", message: fmt.Sprintf(short, 7, 9, 2)},
		"more, and none has":          {partial: true, placement: dynamic, clusters: []string{"a pods=0"}, replicas: 5, previous: "a:4", want: "a:4", message: fmt.Sprintf(short, 4, 5, 1)},
		"the rest has room now":       {partial: true, placement: dynamic, clusters: []string{"a pods=0", "b pods=9"}, replicas: 5, previous: "a:4", want: "a:4 b:1"},
		"by CPU":                      {partial: true, placement: dynamic, clusters: []string{"a cpu=2", "b cpu=0"}, replicas: 3, cpu: "1", want: "a:2", message: fmt.Sprintf(short, 2, 3, 1)},
		"anew":                        {partial: true, placement: dynamic, clusters: rooms, replicas: 9, previous: "a:3", fresh: true, want: "a:4 b:2", message: fmt.Sprintf(short, 6, 9, 3)},
		"overflow, too":               {partial: true, placement: with(dynamic, tiers), clusters: rooms, replicas: 5, group: "x", want: "a:1 b:2", message: fmt.Sprintf(short, 3, 5, 2)},
		"the first group that has":    {partial: true, placement: with(dynamic, groups), clusters: rooms, replicas: 5, group: "x", want: "a:1", message: fmt.Sprintf(short, 1, 5, 4)},
		"a group with room for all":   {partial: true, placement: with(dynamic, groups), clusters: rooms, replicas: 2, group: "far", want: "b:2"},
		"the most room of one region": {partial: true, placement: with(dynamic, "spreadConstraints: [{spreadByField: region, maxGroups: 1}, {spreadByField: cluster}]"), clusters: []string{"a region=eu pods=2", "b region=us pods=4", "c region=us pods=1"}, replicas: 9, want: "b:4 c:1", message: fmt.Sprintf(short, 5, 9, 4)},
		"the most room of a cluster":  {partial: true, placement: with(dynamic, "spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]"), clusters: rooms, replicas: 5, want: "b:2", message: fmt.Sprintf(short, 2, 5, 3)},
		"weights do not look at room": {partial: true, placement: static, clusters: rooms, replicas: 4, uid: first, want: "a:2 b:2"},
		"nor do copies":               {partial: true, clusters: rooms, replicas: 4, want: "a:4 b:4"},
	})
}
