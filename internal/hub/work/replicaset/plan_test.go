// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// workOf returns a work with the template of a hash that has succeeded.
func workOf(cluster, placement, template string) *workv1.ManifestWork {
	work := cached(condition("Applied", metav1.ConditionTrue, 110), condition("Available", metav1.ConditionTrue, 120))
	work.Namespace, work.Labels[workv1.LabelPlacementName], work.Annotations[keptHash] = cluster, placement, template
	return work
}

func byCluster(works ...*workv1.ManifestWork) map[string][]*workv1.ManifestWork {
	all := map[string][]*workv1.ManifestWork{}
	for _, work := range works {
		all[work.Namespace] = append(all[work.Namespace], work)
	}
	return all
}

// chosen returns a settled choice of groups.
func chosen(placement string, strategy rollout.Strategy, groups ...[]string) choice {
	c := choice{Placement: placement, Strategy: strategy, Settled: true}
	for _, clusters := range groups {
		c.Groups = append(c.Groups, rollout.ClusterGroup{Clusters: clusters})
		c.Clusters += len(clusters)
	}
	return c
}

// outline is what a plan writes and deletes, as text.
type outline struct{ Create, Update, Label, Gone []string }

func outlineOf(p rolloutPlan) outline {
	var o outline
	for _, w := range p.Writes {
		switch {
		case w.Work == nil:
			o.Create = append(o.Create, w.Cluster+" for "+w.Placement)
		case w.Spec:
			o.Update = append(o.Update, w.Cluster)
		}
		if w.Meta {
			o.Label = append(o.Label, w.Cluster+" for "+w.Placement)
		}
	}
	for _, work := range p.Gone {
		o.Gone = append(o.Gone, work.Namespace+"/"+work.Name)
	}
	return o
}

func TestPlans(t *testing.T) {
	all, one := rollout.Strategy{Kind: rollout.All}, rollout.Strategy{Kind: rollout.Progressive, MaxConcurrency: intstr.FromInt32(1)}
	perGroup := rollout.Strategy{Kind: rollout.ProgressivePerGroup}
	unsettled, wrong := chosen("p", all, []string{"a"}), chosen("p", all, []string{"a", "b"})
	unsettled.Settled = false
	wrong.Problems = field.ErrorList{field.Required(field.NewPath("type"), "")}
	leaving, second, failed := workOf("a", "p", "new"), workOf("a", "p", "old"), workOf("b", "p", "new")
	leaving.DeletionTimestamp, second.Name = ptr.To(at(120)), "web-generated"
	failed.Status.Conditions[0].Status = metav1.ConditionFalse
	for name, test := range map[string]struct {
		reason  string
		choices []choice
		works   []*workv1.ManifestWork
		want    outline
	}{
		"new":        {"every cluster gets one", []choice{chosen("p", all, []string{"a", "b"})}, nil, outline{Create: []string{"a for p", "b for p"}}},
		"right":      {"nothing is rewritten", []choice{chosen("p", all, []string{"a"})}, []*workv1.ManifestWork{workOf("a", "p", "new")}, outline{}},
		"edited":     {"only what differs is changed", []choice{chosen("p", all, []string{"a", "b"})}, []*workv1.ManifestWork{workOf("a", "p", "new"), workOf("b", "p", "old")}, outline{Update: []string{"b"}}},
		"left":       {"the decisions are complete", []choice{chosen("p", all, []string{"a"})}, []*workv1.ManifestWork{workOf("a", "p", "new"), workOf("b", "p", "new")}, outline{Gone: []string{"b/web-00000"}}},
		"in between": {"b may be on its way to another decision", []choice{unsettled}, []*workv1.ManifestWork{workOf("a", "p", "new"), workOf("b", "p", "new")}, outline{}},
		"missing": {
			"a Placement that was deleted by mistake deletes nothing",
			[]choice{{Placement: "p", Missing: true}, chosen("q", all, []string{"c"})},
			[]*workv1.ManifestWork{workOf("a", "p", "new"), workOf("b", "q", "new")},
			outline{Create: []string{"c for q"}},
		},
		"empty":            {"nobody is chosen", []choice{chosen("p", all)}, []*workv1.ManifestWork{workOf("a", "p", "new")}, outline{Gone: []string{"a/web-00000"}}},
		"a wrong strategy": {"its works stay as they are", []choice{wrong}, []*workv1.ManifestWork{workOf("a", "p", "old")}, outline{}},
		"no namespace":     {"it has not been accepted, and others do not wait", []choice{chosen("p", one, []string{"absent", "b"})}, nil, outline{Create: []string{"b for p"}}},
		"another placement": {
			"the label follows, the spec is right",
			[]choice{chosen("q", all, []string{"a"})},
			[]*workv1.ManifestWork{workOf("a", "p", "new")},
			outline{Label: []string{"a for q"}},
		},
		"deleted by someone": {"it comes back when it is gone", []choice{chosen("p", all, []string{"a"})}, []*workv1.ManifestWork{leaving}, outline{}},
		"two of a cluster":   {"one is enough", []choice{chosen("p", all, []string{"a"})}, []*workv1.ManifestWork{workOf("a", "p", "new"), second}, outline{Gone: []string{"a/web-generated"}}},
		"one at a time": {
			"a has the old template",
			[]choice{chosen("p", one, []string{"a", "b", "c"})},
			[]*workv1.ManifestWork{workOf("a", "p", "old"), workOf("b", "p", "old")},
			outline{Update: []string{"a"}},
		},
		"one group at a time": {
			"the first has succeeded",
			[]choice{chosen("p", perGroup, []string{"a"}, []string{"b", "c"}, []string{"d"})},
			[]*workv1.ManifestWork{workOf("a", "p", "new"), workOf("b", "p", "old")},
			outline{Create: []string{"c for p"}, Update: []string{"b"}},
		},
		"a failure stops": {
			"none may fail", []choice{chosen("p", perGroup, []string{"a"}, []string{"b"}, []string{"c"})}, []*workv1.ManifestWork{workOf("a", "p", "new"), failed, workOf("c", "p", "old")}, outline{},
		},
		"each placement by its own strategy": {
			"one at a time, and all at once",
			[]choice{chosen("p", one, []string{"a", "b"}), chosen("q", all, []string{"c", "d"})},
			nil,
			outline{Create: []string{"a for p", "c for q", "d for q"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := planFacts{
				Choices: test.choices, Works: byCluster(test.works...), Template: "new", Now: at(1000).Time,
				Joined: map[string]bool{"a": true, "b": true, "c": true, "d": true},
			}
			if diff := cmp.Diff(test.want, outlineOf(planWrites(f))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func TestAPlanIsLookedAtAgainInTime(t *testing.T) {
	hour, day := rollout.Strategy{Kind: rollout.All, MinSuccess: time.Hour}, rollout.Strategy{Kind: rollout.All, MinSuccess: 24 * time.Hour}
	f := planFacts{
		Choices: []choice{chosen("p", day, []string{"a"}), chosen("q", hour, []string{"b"})}, Template: "new", Now: at(130).Time,
		Works:  byCluster(workOf("a", "p", "new"), workOf("b", "q", "new")),
		Joined: map[string]bool{"a": true, "b": true},
	}
	if got, want := planWrites(f).After, at(120).Add(time.Hour); !got.Equal(want) {
		t.Errorf("want a look at %s, when the first has succeeded for long enough; got %s", want, got)
	}
}

func TestDecisionsAreReadByGroup(t *testing.T) {
	decision := func(index, name string, clusters ...string) clusterv1beta1.PlacementDecision {
		d := clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			clusterv1beta1.LabelDecisionGroupIndex: index, clusterv1beta1.LabelDecisionGroupName: name,
		}}}
		for _, cluster := range clusters {
			d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
		}
		return d
	}
	decisions := []clusterv1beta1.PlacementDecision{
		decision("10", "", "f"), decision("1", "", "e", "d"), decision("0", "canary", "b", "a"), decision("1", "", "c", "b"),
	}
	placement := &clusterv1beta1.Placement{}
	decided := []metav1.Condition{{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue}}
	placement.Status.NumberOfSelectedClusters, placement.Status.Conditions = 6, decided
	want := choice{Settled: true, Clusters: 5, Groups: []rollout.ClusterGroup{{Name: "canary", Clusters: []string{"a", "b"}}, {Clusters: []string{"c", "d"}}, {Clusters: []string{"f"}}}}
	var got choice
	got.takeDecisions(placement, decisions, map[string]bool{"e": true})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("e belongs to an earlier Placement, and b is in two decisions for a moment (-want +got):\n%s", diff)
	}
	var early choice
	if early.takeDecisions(&clusterv1beta1.Placement{}, nil, map[string]bool{}); early.Settled {
		t.Error("a Placement that was created anew, and has not chosen yet, has all its works deleted")
	}
	for name, test := range map[string]struct {
		selected int32
		byHand   bool
		want     bool
	}{
		"complete": {6, false, true}, "too few": {7, false, false}, "too many": {5, false, false}, "written by hand": {0, true, true},
	} {
		placement.Status.NumberOfSelectedClusters, placement.Annotations = test.selected, nil
		if test.byHand {
			placement.Annotations = map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}
		}
		var got choice
		if got.takeDecisions(placement, decisions, map[string]bool{}); got.Settled != test.want {
			t.Errorf("%s: settled is %t", name, got.Settled)
		}
	}
}

// TestWhatIsHeldBackHoldsUpNothing has more works that may not grow than fit a pass.
func TestWhatIsHeldBackHoldsUpNothing(t *testing.T) {
	var works []*workv1.ManifestWork
	var clusters []string
	joined := map[string]bool{"created": true}
	for n := range writesPerPass + 3 {
		work := workOf(fmt.Sprintf("c%03d", n), "p", "old")
		work.Annotations[allowance.AnnotationBytes] = "5000"
		clusters, works, joined[work.Namespace] = append(clusters, work.Namespace), append(works, work), true
	}
	shrinks, relabelled := works[writesPerPass+1], works[writesPerPass+2]
	shrinks.Annotations[allowance.AnnotationBytes], relabelled.Labels[workv1.LabelPlacementName] = "7000", "q"
	p := planWrites(planFacts{
		Choices: []choice{chosen("p", rollout.Strategy{Kind: rollout.All}, append(clusters, "created"))},
		Works:   byCluster(works...), Joined: joined, Template: "new", Bytes: 6000, Now: at(200).Time,
	})
	if last := p.Writes[len(p.Writes)-1]; last.Cluster != "created" || last.Grows != 6000 {
		t.Errorf("the last is %s, which grows by %d, want the one that is created", last.Cluster, last.Grows)
	}
	now, all := limitToPass(p)
	held := allowance.HeldWorks{Clusters: map[string]error{}}
	for _, w := range now.Writes {
		if w.Grows > 0 {
			held.Clusters[w.Cluster] = errors.New("full")
		}
	}
	want := outline{Update: []string{shrinks.Namespace}, Label: []string{relabelled.Namespace + " for p"}}
	if diff := cmp.Diff(want, outlineOf(now.withoutHeld(held))); diff != "" || all {
		t.Errorf("the pass is said to be all: %t; it writes (-want +got)\n%s", all, diff)
	}
}
