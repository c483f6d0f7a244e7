// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package prometheus

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/capstan-io/capstan/test/peers/prometheus/harness"
	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

// TestInTheLab runs all queries against what Prometheus reads from real components,
// and plants faults that alerts have to tell of.
func TestInTheLab(t *testing.T) {
	l := harness.NewLab(t)
	l.InstallRules(t)
	s := harness.NewServer(t)
	s.ScrapeCluster(t, l, harness.Hub)
	s.ScrapeCluster(t, l, harness.Member)
	l.ApplyText(t, harness.Hub, busy)
	if !t.Run("queries", func(t *testing.T) { queriesReturnSeries(t, l, s) }) {
		t.Fatal("what alerts are made of is not there")
	}
	var all []*seen
	planted, mended := map[string]time.Time{}, map[string]time.Time{}
	for _, together := range faults() {
		for _, f := range together {
			f.plant(t, l)
			planted[f.name] = time.Now()
		}
		for _, f := range together {
			for _, alert := range f.alerts {
				all = append(all, &seen{fault: f, alert: alert})
				t.Run(alert, func(t *testing.T) { fires(t, s, all[len(all)-1], planted[f.name]) })
			}
		}
	}
	// The faults that came last are mended first, as what mends another may need that.
	for _, together := range slices.Backward(faults()) {
		for _, f := range together {
			f.mend(t, l)
			mended[f.name] = time.Now()
		}
	}
	for _, one := range all {
		t.Run(one.alert+" ends", func(t *testing.T) { ends(t, s, one, mended[one.name]) })
	}
	t.Logf("the alerts:\n%s\nall that fired: %s", alertTable(all), strings.Join(s.FiredAlerts(), ", "))
}

// busy lets all controllers have something to do.
const busy = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: default, namespace: shop}
spec: {clusterSet: default}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: odd, namespace: shop}
spec:
  predicates:
  - requiredClusterSelector:
      labelSelector: {matchLabels: {round: odd}}
      celSelector: {celExpressions: ["managedCluster.metadata.name != ''"]}
`

// empty are the panels whose queries return nothing in this lab, with the reason.
func empty() map[string]string {
	return map[string]string{
		"fleet: Writes to Clusters":              "the feature gate for the Cluster API is off, so nobody writes Clusters",
		"push-agent: Errors by reason":           "no connection has failed yet",
		"hub-health: Targets that do not answer": "all answer",
		"delivery: Events that were dropped":     "feature gate KarmadaEvents is off",
	}
}

// result is what a query returned.
type result struct {
	series, example string
}

func queriesReturnSeries(t *testing.T, l *harness.Lab, s *harness.Server) {
	round, all := 0, map[string]result{}
	harness.Eventually(t, func() error {
		round++
		if err := l.ChangeWorks(t, round); err != nil {
			return err
		}
		return missing(t.Context(), t, s, all)
	})
	if err := ruleData(t, s); err != nil {
		t.Error(err)
	}
	var table strings.Builder
	table.WriteString("| dashboard: panel | query | series | one of them |\n|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name, query, _ := strings.Cut(key, "#")
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", name, query, all[key].series, all[key].example)
	}
	t.Logf("what the queries of the dashboards returned:\n%s", table.String())
}

// missing runs all queries of the dashboards, and returns an error that names those
// that return no number without a reason. A series without one is a share or a quantile
// of what has not happened yet.
func missing(ctx context.Context, t *testing.T, s *harness.Server, all map[string]result) error {
	t.Helper()
	var wrong []string
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			name := strings.TrimSuffix(d.file, ".json") + ": " + p.Title
			for _, target := range p.Targets {
				// No series may lack the label by which the clusters are told apart.
				expr := strings.ReplaceAll(target.Expr, "$cluster", harness.Hub+"|"+harness.Member)
				vector, err := s.RunQuery(ctx, filled(expr, harness.RateInterval))
				if err != nil {
					t.Fatal(err)
				}
				reason, mayBeEmpty := empty()[name]
				got := result{series: fmt.Sprint(len(vector)), example: reason}
				if i := slices.IndexFunc(vector, func(s promql.Sample) bool { return !math.IsNaN(s.F) }); i >= 0 {
					got.example = "`" + vector[i].Metric.String() + "` " + harness.Number(vector[i].F)
				} else if !mayBeEmpty {
					wrong = append(wrong, name+" "+target.RefID)
				}
				all[name+"#"+target.RefID] = got
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d queries return no number: %s", len(wrong), strings.Join(wrong, "; "))
	}
	return nil
}

// unseen are the series that rules read and this lab does not have, with the reason.
func unseen() map[string]string {
	return map[string]string{
		`capstan_operator_condition{status="True",type=~".*Degraded"}`:         "only statuses that a condition has are there, and all is well",
		`capstan_operator_condition{status="False",type=~"Applied|Available"}`: "the same",
	}
}

// ruleData runs the selectors of all rules, which have to find series, and their
// expressions, which must not fail and, as all is well, find nothing.
func ruleData(t *testing.T, s *harness.Server) error {
	t.Helper()
	for _, rule := range alertRules(t) {
		vector, err := s.RunQuery(t.Context(), rule.Expr)
		if err != nil {
			return err
		}
		if len(vector) > 0 {
			t.Errorf("all is well, and alert %s would fire: %v", rule.Alert, vector)
		}
		parsed, err := stories.PromQL().ParseExpr(rule.Expr)
		if err != nil {
			return err
		}
		found := map[string]int{}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			selector, is := node.(*parser.VectorSelector)
			if !is || selector.OriginalOffset > 0 { // of that long ago there is nothing yet
				return nil
			}
			vector, err := s.RunQuery(t.Context(), selector.String())
			if err != nil {
				return err
			}
			found[selector.String()] = len(vector)
			return nil
		})
		for series, count := range found {
			if count == 0 && unseen()[series] == "" {
				t.Errorf("alert %s reads %s, of which there is nothing", rule.Alert, series)
			}
			t.Logf("| %s | `%s` | %d %s |", rule.Alert, series, count, unseen()[series])
		}
	}
	return nil
}

// fault is something that breaks, and the rules whose alerts tell of it.
type fault struct {
	name   string
	alerts []string
	// objects is of how many objects a rule has to tell, if that is not one.
	objects     int
	plant, mend func(t *testing.T, l *harness.Lab)
}

// seen is what came of a rule: when all its alerts fired and had ended, counted from
// when the fault was planted and mended.
type seen struct {
	fault
	alert        string
	says         []string
	fired, ended time.Duration
}

// faults are those that are planted at the same time, and then those that are planted
// when the alerts of the first fire.
func faults() [][]fault {
	return [][]fault{{
		{
			name:   "a work with an object of a kind that the Pull member does not know",
			alerts: []string{"CapstanWorksFailing"},
			plant: func(t *testing.T, l *harness.Lab) {
				l.ApplyText(t, harness.Hub, strings.ReplaceAll(harness.Work(harness.Member, "unknown", "x"), "{apiVersion: v1, kind: ConfigMap,", "{apiVersion: example.org/v1, kind: Database,"))
			},
			mend: func(t *testing.T, l *harness.Lab) {
				l.MustRun(t, "kubectl", "--context", harness.Hub, "-n", harness.Member, "delete", "manifestwork", "unknown", "--timeout", harness.Patience.String())
			},
		},
		{
			name:   "the power of the Push member is cut",
			alerts: []string{"CapstanPushClusterUnreachable", "CapstanClusterUnavailable"},
			plant:  func(t *testing.T, l *harness.Lab) { l.MustRun(t, "lab", "--dir", l.Dir, "stop", harness.Pushed) },
			mend:   func(t *testing.T, l *harness.Lab) { l.MustRun(t, "lab", "--dir", l.Dir, "start", harness.Pushed) },
		},
	}, {
		{
			name:   "the network between the hub and the Pull member is cut",
			alerts: []string{"CapstanClusterUnreachable"},
			plant: func(t *testing.T, l *harness.Lab) {
				l.MustRun(t, "lab", "--dir", l.Dir, "partition", harness.Hub, harness.Member)
			},
			mend: func(t *testing.T, l *harness.Lab) {
				l.MustRun(t, "lab", "--dir", l.Dir, "heal", harness.Hub, harness.Member)
			},
		},
		{
			name:   "the operator of the hub and the placement controller have no pods",
			alerts: []string{"CapstanComponentAbsent"}, objects: 2,
			plant: func(t *testing.T, l *harness.Lab) {
				l.ScaleDeployment(t, "open-cluster-management", "cluster-manager", 0) // it would bring back the other
				l.MustRun(t, "kubectl", "--context", harness.Hub, "-n", "open-cluster-management", "wait", "pod", "-l", "app=cluster-manager", "--for=delete", "--timeout", harness.Patience.String())
				l.ScaleDeployment(t, "open-cluster-management-hub", "cluster-manager-placement-controller", 0)
			},
			mend: func(t *testing.T, l *harness.Lab) {
				l.ScaleDeployment(t, "open-cluster-management", "cluster-manager", 1)
			},
		},
	}}
}

// fires waits for the alert.
func fires(t *testing.T, s *harness.Server, one *seen, planted time.Time) {
	t.Helper()
	harness.Eventually(t, func() error {
		firing := s.FiringAlerts(one.alert)
		if want := max(one.objects, 1); len(firing) != want {
			return fmt.Errorf("alert %s fires for %d objects, want %d", one.alert, len(firing), want)
		}
		one.says, one.fired = nil, 0
		for _, alert := range firing {
			one.says = append(one.says, alert.Annotations.Get("description"))
			one.fired = max(one.fired, alert.FiredAt.Sub(planted))
		}
		slices.Sort(one.says)
		return nil
	})
}

// ends waits for the end of the alert, after the fault is mended.
func ends(t *testing.T, s *harness.Server, one *seen, mended time.Time) {
	t.Helper()
	harness.Eventually(t, func() error {
		if left := s.FiringAlerts(one.alert); len(left) > 0 {
			return fmt.Errorf("all is mended, and alert %s still fires: %s", one.alert, left[0].Labels)
		}
		one.ended = max(0, s.ResolvedAt(one.alert).Sub(mended))
		return nil
	})
}

// alertTable is what the documentation shows.
func alertTable(all []*seen) string {
	var table strings.Builder
	table.WriteString("| fault | alert | what it says | fires after | ends after |\n|---|---|---|---|---|\n")
	for _, one := range all {
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s | %s |\n", one.name, one.alert, strings.Join(one.says, " "), one.fired.Round(time.Second), one.ended.Round(time.Second))
	}
	return table.String()
}
