// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

// metricsPage lists the metrics that Capstan has of its own.
const metricsPage = stories.Root + "/docs/reference/metrics.md"

// others are the metrics that dashboards and rules read besides those of
// Capstan's own, with who has them.
func others() map[string]string {
	return map[string]string{
		"up":                                        "Prometheus",
		"process_cpu_seconds_total":                 "client_golang",
		"process_resident_memory_bytes":             "client_golang",
		"go_goroutines":                             "client_golang",
		"controller_runtime_reconcile_total":        "controller-runtime",
		"controller_runtime_reconcile_errors_total": "controller-runtime",
		"controller_runtime_reconcile_time_seconds": "controller-runtime",
		"leader_election_master_status":             "client-go",
		"rest_client_requests_total":                "client-go",
		"workqueue_depth":                           "client-go",
	}
}

// TestAllMetricsExist compares the metrics that dashboards and rules read with
// those that the page of metrics lists.
func TestAllMetricsExist(t *testing.T) {
	known, read := others(), map[string]bool{}
	for _, name := range documented(t) {
		known[name] = "Capstan"
	}
	check := func(where, expr string) {
		for _, series := range metricsOf(t, expr) {
			name := family(series)
			if known[name] == "" {
				t.Errorf("%s reads %s, which is no metric of %s", where, name, metricsPage)
			}
			read[name] = true
		}
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				check(d.file+" "+p.Title, filled(target.Expr, "5m"))
			}
		}
	}
	for _, rule := range alertRules(t) {
		check(rule.Alert, rule.Expr)
	}
	for name := range known {
		if !read[name] && !slices.Contains(unread(), name) {
			t.Errorf("metric %s is on no dashboard and in no alert: show it, or say in unread why not", name)
		}
	}
}

// documented are the metrics of Capstan's own.
func documented(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, found := range regexp.MustCompile("`((?:capstan|scheduling)_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		names = append(names, found[1])
	}
	return names
}

// unread are the metrics that neither a dashboard nor an alert is about.
func unread() []string {
	return nil
}
