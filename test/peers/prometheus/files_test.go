// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

// datasource is a reference to one.
type datasource struct {
	Type, UID string
}

// dashboard is what the tests look at of a dashboard.
type dashboard struct {
	file        string
	UID, Title  string
	Description string
	Tags        []string
	Links       []struct{ Tags []string }
	Panels      []panel
	Templating  struct{ List []variable }
}

type variable struct {
	Name, Type, Label string
	Datasource        *datasource
	Definition        string
	AllValue          string
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  *datasource
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                *datasource
}

// dashboards reads all of them.
func dashboards(t *testing.T) []dashboard {
	t.Helper()
	paths, err := filepath.Glob(stories.Files + "/dashboards/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	all := make([]dashboard, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d := dashboard{file: filepath.Base(path)}
		if err := json.Unmarshal(content, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, d)
	}
	return all
}

// alertRules reads the rule file as Prometheus does, which checks expressions and
// templates.
func alertRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(stories.RuleFile, false, model.UTF8Validation, stories.PromQL(), promslog.NewNopLogger())
	if len(errs) > 0 {
		t.Fatalf("%s: %v", stories.RuleFile, errs)
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", stories.RuleFile)
	}
	return rules
}

// filled is an expression with values for Grafana's variables, as they are if a
// user has chosen nothing.
func filled(expr, rateInterval string) string {
	return strings.NewReplacer(
		"$__rate_interval", rateInterval, "$cluster", ".*", "$namespace", ".*", "$component", ".*",
	).Replace(expr)
}

// metricsOf are the names of the metrics that an expression reads.
func metricsOf(t *testing.T, expr string) []string {
	t.Helper()
	parsed, err := stories.PromQL().ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, is := node.(*parser.VectorSelector); is {
			if selector.Name == "" {
				t.Errorf("%s: a selector has no name of a metric, so it reads all of them", expr)
			}
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

// family is the name of the metric that a series belongs to.
func family(series string) string {
	return regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(series, "")
}
