// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

type targets = []workv1alpha2.TargetCluster

// web returns a Deployment with its binding.
func web(replicas int32, clusters ...workv1alpha2.TargetCluster) *boundWorkload {
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Replicas, b.Spec.Clusters, b.Spec.Placement = replicas, clusters, &policyv1alpha1.Placement{}
	return &boundWorkload{kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, namespace: "shop", name: "web", binding: b}
}

func TestWhatBecomesOfAnObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas      int32
		before, after targets
		moves         int64
		problem       string
		expected      bool
		want          string
	}{
		"replicas move": {
			replicas: 6, before: targets{{Name: "a", Replicas: 4}, {Name: "b", Replicas: 2}}, after: targets{{Name: "b", Replicas: 3}, {Name: "c", Replicas: 3}},
			moves: 4, want: "4 replicas moved; 1 cluster gained, 1 cluster lost",
		},
		"one would move": {
			replicas: 3, before: targets{{Name: "a", Replicas: 2}, {Name: "b", Replicas: 1}}, after: targets{{Name: "a", Replicas: 1}, {Name: "b", Replicas: 2}},
			moves: 1, expected: true, want: "1 replica would move",
		},
		"nothing moves":      {replicas: 3, before: targets{{Name: "a", Replicas: 3}}, after: targets{{Name: "a", Replicas: 3}}, want: "nothing moved"},
		"nothing would move": {replicas: 3, before: targets{{Name: "a", Replicas: 3}}, after: targets{{Name: "a", Replicas: 3}}, expected: true, want: "nothing would move"},
		"it has no replicas": {before: targets{{Name: "a"}}, after: targets{{Name: "b"}, {Name: "c"}}, want: "it moved; 2 clusters gained, 1 cluster lost"},
		"nowhere to go": {
			replicas: 3, before: targets{{Name: "a", Replicas: 3}}, after: targets{{Name: "a", Replicas: 3}}, problem: "no cluster fits", expected: true,
			want: "it would stay where it is",
		},
	} {
		told := compareDecisions(web(c.replicas, c.before...), c.before, c.after)
		told.Problem = c.problem
		if got := told.formatHeadline(&WorkloadsReport{Expected: c.expected}); told.Moves != c.moves || got != c.want {
			t.Errorf("%s: %d replicas move, and it says %q; want %d and %q", name, told.Moves, got, c.moves, c.want)
		}
	}
}

func TestClustersAreCompared(t *testing.T) {
	t.Parallel()
	told := compareDecisions(web(9), targets{{Name: "c", Replicas: 1}, {Name: "a", Replicas: 4}, {Name: "b", Replicas: 2}}, targets{{Name: "b", Replicas: 2}, {Name: "c", Replicas: 5}, {Name: "d"}})
	want := [][]string{{"", "CLUSTER", "REPLICAS"}, {"-", "a", "4 -> 0"}, {"", "b", "2"}, {"~", "c", "1 -> 5"}, {"+", "d", "0"}}
	if diff := cmp.Diff(want, told.clusterRows()); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	if told.APIVersion != "apps/v1" || told.Kind != "Deployment" || told.Namespace != "shop" || told.Name != "web" {
		t.Errorf("it is about %+v", told)
	}
}

func TestTheReportAsText(t *testing.T) {
	t.Parallel()
	before, after := targets{{Name: "a", Replicas: 2}}, targets{{Name: "b", Replicas: 2}}
	moved := compareDecisions(web(2, before...), before, after)
	moved.Notes = []string{"A note."}
	stays := WorkloadMoves{Kind: "ConfigMap", Name: "settings", Problem: "no cluster fits (NoClusterFit)"}
	for name, c := range map[string]struct {
		report WorkloadsReport
		suffix string
		want   string
	}{
		"what has become of it": {
			report: WorkloadsReport{Workloads: []WorkloadMoves{moved}, Rebalancer: "capstan-x"},
			want: "Deployment shop/web: 2 replicas moved; 1 cluster gained, 1 cluster lost\n    CLUSTER   REPLICAS\n-   a         2 -> 0\n+   b         0 -> 2\nA note.\n" +
				"\nworkloadrebalancer.apps.karmada.io/capstan-x created\n",
		},
		"what would": {
			report: WorkloadsReport{Workloads: []WorkloadMoves{stays}, Expected: true, Unread: []string{"clusters"}}, suffix: " (dry run)",
			want: "ConfigMap settings: it would stay where it is\n! no cluster fits (NoClusterFit)\n\nYou may not read clusters.\nNothing has been changed (dry run).\n",
		},
	} {
		if diff := cmp.Diff(c.want, c.report.formatReport(c.suffix)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatHindersTheHub(t *testing.T) {
	t.Parallel()
	if told := (&forecasts{}).forecastWorkload(web(1)); told.hindered != "" {
		t.Errorf("an ordinary object is hindered: %s", told.hindered)
	}
	attached, held := web(1), web(1)
	attached.binding.BindingSpec().Placement = nil
	held.binding.BindingSpec().Suspension = &workv1alpha2.Suspension{Scheduling: new(true)}
	for w, want := range map[*boundWorkload]string{attached: "it goes where the objects are that refer to it", held: "its binding has suspension.scheduling set, so no clusters are chosen until it is cleared"} {
		told := (&forecasts{}).forecastWorkload(w)
		if diff := cmp.Diff([]string{"It would not be rebalanced: " + want + "."}, told.Notes); diff != "" || told.remedy == "" {
			t.Errorf("remedy %q, notes (-want +got):\n%s", told.remedy, diff)
		}
	}
	foreign := web(1)
	foreign.binding.BindingSpec().SchedulerName = "volcano"
	if told := (&forecasts{}).forecastWorkload(foreign); len(told.Notes) != 1 || told.Notes[0] != `The clusters are chosen by scheduler "volcano", which is not part of the hub.` {
		t.Errorf("of another scheduler it notes %q", told.Notes)
	}
}
