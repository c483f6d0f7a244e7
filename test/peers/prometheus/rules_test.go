// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

// sections are what every runbook has, in this order.
func sections() []string {
	return []string{"## What it means", "## Impact", "## Find the cause", "## Fix it"}
}

// TestEveryAlertHasARunbook compares the alerts with the pages, in both
// directions.
func TestEveryAlertHasARunbook(t *testing.T) {
	const address = "https://github.com/capstan-io/capstan/blob/main/docs/runbooks/"
	index, err := os.ReadFile(stories.Runbooks + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, rule := range alertRules(t) {
		if rule.Alert == "" || alerts[rule.Alert] {
			t.Errorf("rule %q: it has to be an alert with a name of its own", rule.Alert)
		}
		alerts[rule.Alert] = true
		checkAlert(t, rule)
		page := rule.Alert + ".md"
		if got := rule.Annotations["runbook_url"]; got != address+page {
			t.Errorf("alert %s has runbook_url %q, want %s", rule.Alert, got, address+page)
		}
		if !strings.Contains(string(index), "("+page+") | "+rule.Labels["severity"]) {
			t.Errorf("docs/runbooks/README.md does not list %s with its severity", page)
		}
		content, err := os.ReadFile(filepath.Join(stories.Runbooks, page))
		if err != nil {
			t.Errorf("alert %s has no page: %v", rule.Alert, err)
			continue
		}
		checkRunbook(t, rule.Alert, string(content))
	}
	pages, err := filepath.Glob(stories.Runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); name != "README" && !alerts[name] {
			t.Errorf("%s is about an alert that does not exist", page)
		}
	}
}

func checkAlert(t *testing.T, rule rulefmt.Rule) {
	t.Helper()
	if severity := rule.Labels["severity"]; severity != "warning" && severity != "critical" {
		t.Errorf("alert %s has severity %q, want warning or critical", rule.Alert, severity)
	}
	if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
		t.Errorf("alert %s has no summary or no description", rule.Alert)
	}
}

func checkRunbook(t *testing.T, alert, page string) {
	t.Helper()
	if !strings.HasPrefix(page, "# "+alert+"\n") {
		t.Errorf("the page of %s does not begin with its name", alert)
	}
	at := 0
	for _, section := range sections() {
		i := strings.Index(page[at:], section+"\n")
		if i < 0 {
			t.Errorf("the page of %s lacks %q, or has it in another order", alert, section)
			return
		}
		at += i
	}
	causes := page[strings.Index(page, sections()[2]):strings.Index(page, sections()[3])]
	if !strings.Contains(causes, "kubectl ") && !strings.Contains(causes, "capstan ") {
		t.Errorf("the page of %s has no command to find the cause", alert)
	}
}

// TestThePrometheusRuleHasTheRules compares the object for Prometheus' operator
// with the rule file.
func TestThePrometheusRuleHasTheRules(t *testing.T) {
	read := func(path string) map[string]any {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		into := map[string]any{}
		if err := yaml.Unmarshal(content, &into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return into
	}
	object := read(stories.Files + "/prometheusrule.yaml")
	if object["apiVersion"] != "monitoring.coreos.com/v1" || object["kind"] != "PrometheusRule" {
		t.Errorf("prometheusrule.yaml is a %v of %v", object["kind"], object["apiVersion"])
	}
	if diff := cmp.Diff(any(read(stories.RuleFile)), object["spec"]); diff != "" {
		t.Errorf("the PrometheusRule has other rules than the rule file (-file +object):\n%s", diff)
	}
}
