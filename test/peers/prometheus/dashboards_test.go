// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

// units are those of Grafana that dashboards have, with what a query returns in
// them.
func units() map[string]string {
	return map[string]string{
		"short": "a number", "s": "seconds", "bytes": "bytes", "percentunit": "a share of one",
		"ops": "operations a second", "reqps": "requests a second",
	}
}

// TestDashboards checks what Grafana would not complain about before somebody
// looks at a dashboard.
func TestDashboards(t *testing.T) {
	titles := map[string]bool{}
	for _, d := range dashboards(t) {
		t.Run(d.file, func(t *testing.T) {
			if d.UID != "capstan-"+strings.TrimSuffix(d.file, ".json") || d.Title == "" || titles[d.Title] || d.Description == "" {
				t.Errorf("it has uid %q, title %q, description %q: they have to be there and its own", d.UID, d.Title, d.Description)
			}
			titles[d.Title] = true
			if !slices.Contains(d.Tags, "capstan") || len(d.Links) != 1 || !slices.Equal(d.Links[0].Tags, []string{"capstan"}) {
				t.Errorf("it has tags %q and links %v, and would not be linked with the others", d.Tags, d.Links)
			}
			checkVariables(t, d)
			ids := map[int]bool{}
			for i, p := range d.Panels {
				if ids[p.ID] {
					t.Errorf("panel %q: another has its id", p.Title)
				}
				ids[p.ID] = true
				checkPlace(t, p, d.Panels[:i])
				if p.Type != "row" {
					checkPanel(t, p)
				}
			}
		})
	}
}

func checkVariables(t *testing.T, d dashboard) {
	t.Helper()
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Label == "" {
			t.Errorf("variable %s has no label", v.Name)
		}
		if v.Type == "datasource" {
			continue
		}
		checkDatasource(t, "variable "+v.Name, v.Datasource)
		if v.AllValue != ".*" {
			t.Errorf("variable %s: All is %q, which has to match series without the label", v.Name, v.AllValue)
		}
		query := regexp.MustCompile(`^label_values\((.+), ([a-z]+)\)$`).FindStringSubmatch(v.Definition)
		if query == nil || query[2] != v.Name {
			t.Errorf("variable %s is defined by %q, want values of its label", v.Name, v.Definition)
			continue
		}
		metricsOf(t, filled(query[1], "5m"))
	}
	if diff := cmp.Diff([]string{"datasource", "cluster", "namespace", "component"}, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func checkDatasource(t *testing.T, what string, got *datasource) {
	t.Helper()
	if got == nil || *got != (datasource{Type: "prometheus", UID: "${datasource}"}) {
		t.Errorf("%s has data source %v, want that of the variable", what, got)
	}
}

// checkPlace fails the test if a panel leaves the grid or covers another.
func checkPlace(t *testing.T, p panel, others []panel) {
	t.Helper()
	g := p.GridPos
	if g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
		t.Errorf("panel %q is outside of the grid: %+v", p.Title, g)
	}
	for _, other := range others {
		o := other.GridPos
		if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
			t.Errorf("panels %q and %q overlap", p.Title, other.Title)
		}
	}
}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if unit := p.FieldConfig.Defaults.Unit; units()[unit] == "" {
		t.Errorf("panel %q has unit %q, want one of %v", p.Title, unit, units())
	}
	if p.Title == "" || len(p.Targets) == 0 {
		t.Errorf("panel %q has to have a title and queries", p.Title)
	}
	checkDatasource(t, "panel "+p.Title, p.Datasource)
	for _, target := range p.Targets {
		checkDatasource(t, "a query of panel "+p.Title, target.Datasource)
		if p.Type == "timeseries" && target.LegendFormat == "" {
			t.Errorf("panel %q: a query has no legend", p.Title)
		}
		checkQuery(t, p, target.Expr)
	}
}

// checkQuery compares what a query asks for with the unit of its panel, and finds
// variables that it leaves out.
func checkQuery(t *testing.T, p panel, expr string) {
	t.Helper()
	metricsOf(t, filled(expr, "5m"))
	if left := regexp.MustCompile(`\$[a-z_]+|<[a-z]+>`).FindString(filled(expr, "5m")); left != "" && left != "<error>" {
		t.Errorf("panel %q: nobody sets %s in %s", p.Title, left, expr)
	}
	if selectors, scoped := strings.Count(expr, "{"), strings.Count(expr, `{cluster=~"$cluster",namespace=~"$namespace"`); selectors != scoped {
		t.Errorf("panel %q: %d of %d selectors select by cluster and namespace: %s", p.Title, scoped, selectors, expr)
	}
	if strings.Contains(expr, "rate(") && !strings.Contains(expr, "[$__rate_interval]") {
		t.Errorf("panel %q: a rate is not over $__rate_interval, which fits the scrape interval: %s", p.Title, expr)
	}
	unit := p.FieldConfig.Defaults.Unit
	seconds := strings.Contains(expr, "_seconds_bucket") && strings.Contains(expr, "histogram_quantile") || strings.Contains(expr, "time()")
	if seconds != (unit == "s") {
		t.Errorf("panel %q has unit %q, which does not fit what it shows: %s", p.Title, unit, expr)
	}
	if strings.Contains(expr, "_bytes") != (unit == "bytes") {
		t.Errorf("panel %q has unit %q, which does not fit what it shows: %s", p.Title, unit, expr)
	}
}

// TestEveryDashboardIsInTheKustomization compares the list of files for ConfigMaps
// with the dashboards.
func TestEveryDashboardIsInTheKustomization(t *testing.T) {
	content, err := os.ReadFile(stories.Files + "/dashboards/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		}
		GeneratorOptions struct{ Labels map[string]string }
	}
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		t.Fatal(err)
	}
	if kustomization.GeneratorOptions.Labels["grafana_dashboard"] != "1" {
		t.Error("the ConfigMaps lack the label grafana_dashboard=1, by which Grafana's sidecar finds them")
	}
	var want, got []string
	for _, d := range dashboards(t) {
		want = append(want, d.file)
	}
	for _, generator := range kustomization.ConfigMapGenerator {
		if len(generator.Files) != 1 || generator.Name != "capstan-dashboard-"+strings.TrimSuffix(generator.Files[0], filepath.Ext(generator.Files[0])) {
			t.Errorf("ConfigMap %s has files %q, want the one of its name", generator.Name, generator.Files)
		}
		got = append(got, generator.Files...)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kustomization.yaml (-dashboards +listed):\n%s", diff)
	}
}
