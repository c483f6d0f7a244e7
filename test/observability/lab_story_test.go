// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package observability

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// TestInTheLab runs all queries against what Prometheus reads from real components,
// and plants faults that alerts have to tell of.
func TestInTheLab(t *testing.T) {
	l := newLab(t)
	l.install(t)
	s := newServer(t)
	s.scrape(t, l, hub)
	s.scrape(t, l, member)
	l.apply(t, hub, busy)
	if !t.Run("queries", func(t *testing.T) { queriesReturnSeries(t, l, s) }) {
		t.Fatal("what alerts are made of is not there")
	}
	together := faults()
	for _, fault := range together {
		fault.plant(t, l)
	}
	for _, fault := range together {
		for _, alert := range fault.alerts {
			t.Run(alert, func(t *testing.T) { fires(t, s, alert) })
		}
	}
	for _, fault := range together {
		fault.mend(t, l)
	}
	for _, fault := range together {
		for _, alert := range fault.alerts {
			t.Run(alert+" ends", func(t *testing.T) { ends(t, s, alert) })
		}
	}
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
metadata: {name: all, namespace: shop}
spec:
  predicates:
  - requiredClusterSelector:
      celSelector: {celExpressions: ["managedCluster.metadata.name != ''"]}
`

// work is a ManifestWork with a ConfigMap.
func work(cluster, name, text string) string {
	return fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: %[2]s, namespace: %[1]s}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: %[2]s, namespace: default}, data: {text: %[3]q}}]}}
`, cluster, name, text)
}

// empty are the panels whose queries return nothing in this lab, with the reason.
func empty() map[string]string {
	return map[string]string{
		"fleet.json: Writes to Clusters":              "the feature gate for the Cluster API is off, so nobody writes Clusters",
		"push-agent.json: Errors by reason":           "no connection has failed yet",
		"hub-health.json: Targets that do not answer": "all answer",
		"delivery.json: Events that were dropped":     "feature gate KarmadaEvents is off",
	}
}

// result is what a query returned.
type result struct {
	panel, series, example string
}

func queriesReturnSeries(t *testing.T, l *lab, s *server) {
	round, all := 0, map[string]result{}
	eventually(t, func() error {
		round++
		if err := l.change(t, round); err != nil {
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

// change changes something, for what is measured per change.
func (l *lab) change(t *testing.T, round int) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "works.yaml")
	content := work(member, "greeting", fmt.Sprint(round)) + "---" + work(pushed, "greeting", fmt.Sprint(round))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing the works: %w", err)
	}
	for _, command := range [][]string{
		{"--context", hub, "apply", "--server-side", "-f", path},
		{"--context", member, "-n", "default", "delete", "configmap", "greeting", "--ignore-not-found"},
		{"--context", hub, "label", "managedcluster", member, "--overwrite", fmt.Sprintf("round=%d", round)},
	} {
		if _, err := l.run(t.Context(), "kubectl", command...); err != nil {
			return err
		}
	}
	return nil
}

// missing runs all queries of the dashboards, and returns an error that names those
// that return nothing without a reason, or something in spite of one.
func missing(ctx context.Context, t *testing.T, s *server, all map[string]result) error {
	t.Helper()
	var wrong []string
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			name := d.file + ": " + p.Title
			for _, target := range p.Targets {
				vector, err := s.query(ctx, filled(target.Expr, rateInterval))
				if err != nil {
					t.Fatal(err)
				}
				reason, mayBeEmpty := empty()[name]
				got := result{series: fmt.Sprint(len(vector)), example: reason}
				if len(vector) > 0 {
					got.example = "`" + vector[0].Metric.String() + "` " + number(vector[0].F)
				} else if !mayBeEmpty {
					wrong = append(wrong, name+" "+target.RefID)
				}
				all[name+"#"+target.RefID] = got
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d queries return nothing: %s", len(wrong), strings.Join(wrong, "; "))
	}
	return nil
}

// unseen are the series that rules read and this lab does not have, with the reason.
func unseen() map[string]string {
	return map[string]string{
		`capstan_certificate_request_decisions_total{verdict="Refuse"}`:        "nobody asks for what is not theirs",
		`capstan_operator_condition{status="True",type=~".*Degraded"}`:         "only statuses that a condition has are there, and all is well",
		`capstan_operator_condition{status="False",type=~"Applied|Available"}`: "the same",
	}
}

// ruleData runs the selectors of all rules, which have to find series, and their
// expressions, which must not fail and, as all is well, find nothing.
func ruleData(t *testing.T, s *server) error {
	t.Helper()
	for _, rule := range alertRules(t) {
		vector, err := s.query(t.Context(), rule.Expr)
		if err != nil {
			return err
		}
		if len(vector) > 0 {
			t.Errorf("all is well, and alert %s would fire: %v", rule.Alert, vector)
		}
		parsed, err := promQL().ParseExpr(rule.Expr)
		if err != nil {
			return err
		}
		found := map[string]int{}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			selector, is := node.(*parser.VectorSelector)
			if !is || selector.OriginalOffset > 0 { // of that long ago there is nothing yet
				return nil
			}
			vector, err := s.query(t.Context(), selector.String())
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

// fault is something that breaks, and the alerts that tell of it.
type fault struct {
	alerts      []string
	plant, mend func(t *testing.T, l *lab)
}

func faults() []fault {
	return []fault{
		{
			alerts: []string{"CapstanWorksFailing"},
			plant: func(t *testing.T, l *lab) {
				l.apply(t, hub, strings.ReplaceAll(work(member, "unknown", "x"), "{apiVersion: v1, kind: ConfigMap,", "{apiVersion: example.org/v1, kind: Database,"))
			},
			mend: func(t *testing.T, l *lab) {
				l.must(t, "kubectl", "--context", hub, "-n", member, "delete", "manifestwork", "unknown", "--timeout", patience.String())
			},
		},
		{
			alerts: []string{"CapstanPushClusterUnreachable"},
			plant:  func(t *testing.T, l *lab) { l.must(t, "lab", "--dir", l.dir, "stop", pushed) },
			mend:   func(t *testing.T, l *lab) { l.must(t, "lab", "--dir", l.dir, "start", pushed) },
		},
	}
}

// fires waits for the alert.
func fires(t *testing.T, s *server, name string) {
	t.Helper()
	eventually(t, func() error {
		if len(s.firing(name)) == 0 {
			return fmt.Errorf("alert %s does not fire", name)
		}
		return nil
	})
	for _, alert := range s.firing(name) {
		t.Logf("fires: %s: %s", alert.Labels, alert.Annotations.Get("description"))
	}
}

// ends waits for the end of the alert, after the fault is mended.
func ends(t *testing.T, s *server, name string) {
	t.Helper()
	eventually(t, func() error {
		if left := s.firing(name); len(left) > 0 {
			return fmt.Errorf("all is mended, and alert %s still fires: %s", name, left[0].Labels)
		}
		return nil
	})
}
