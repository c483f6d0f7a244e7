// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// figure is one thing that is measured, once in each run.
type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Goal and GoalRatio are zero if there is none.
	Goal float64 `json:"goal,omitempty"`
	// GoalRatio is for the ratio to the probe of the same run.
	GoalRatio float64   `json:"goalRatio,omitempty"`
	Values    []float64 `json:"values"`
	Probe     []float64 `json:"probe,omitempty"`
}

// add takes the value of a run, and that of the probe if it is not zero.
func (f *figure) add(value, probe float64) {
	f.Values = append(f.Values, value)
	if probe != 0 {
		f.Probe = append(f.Probe, probe)
	}
}

// ratios are those of values and probes, run by run.
func (f *figure) ratios() []float64 {
	ratios := make([]float64, 0, len(f.Probe))
	for i := range f.Probe {
		ratios = append(ratios, f.Values[i]/f.Probe[i])
	}
	return ratios
}

// report is a list of figures.
type report struct {
	Runs    int       `json:"runs"`
	Figures []*figure `json:"figures"`
}

func (r *report) figure(name string) *figure {
	for _, f := range r.Figures {
		if f.Name == name {
			return f
		}
	}
	f := &figure{Name: name}
	r.Figures = append(r.Figures, f)
	return f
}

// String returns the figures that were measured as a Markdown table.
func (r *report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| figure\t| unit\t| median\t| min to max\t| goal\t| probe\t| ratio\t| goal\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, f := range r.Figures {
		if len(f.Values) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s to %s\t| %s\t| %s\t| %s\t| %s\t|\n", f.Name, f.Unit,
			number(median(f.Values)), number(slices.Min(f.Values)), number(slices.Max(f.Values)), orDash(f.Goal),
			orDash(median(f.Probe)), orDash(median(f.ratios())), orDash(f.GoalRatio))
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

func orDash(value float64) string {
	if value == 0 {
		return "-"
	}
	return number(value)
}

func median(values []float64) float64 { return percentile(values, 50) }

// percentile returns the smallest value that is not less than p percent of
// the values, zero if there are none.
func percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// table is what a benchmark prints.
type table struct {
	Columns []string    `json:"columns"`
	Rows    [][]float64 `json:"rows"`
}

func (t *table) add(values ...float64) { t.Rows = append(t.Rows, values) }

// String returns the table as Markdown.
func (t table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "|%s\t|\n", strings.Join(prefixed(t.Columns), "\t|"))
	dashes := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		dashes[i] = strings.Repeat("-", len(column))
	}
	fmt.Fprintf(w, "|%s\t|\n", strings.Join(prefixed(dashes), "\t|"))
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, value := range row {
			cells[i] = number(value)
		}
		fmt.Fprintf(w, "|%s\t|\n", strings.Join(prefixed(cells), "\t|"))
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

func prefixed(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = " " + cell
	}
	return out
}

// number prints three digits that count.
func number(value float64) string {
	if value >= 100 || value == float64(int(value)) {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// profile has the CPU profile of an API server for the time, in dir. The
// caller goes on meanwhile and calls the function that is returned to wait.
func profile(ctx context.Context, client kubernetes.Interface, dir, name string, d time.Duration) func() error {
	if dir == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		raw, err := client.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(int(d.Seconds()))).Timeout(d + time.Minute).DoRaw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".pprof"), raw, 0o600)
		}
		done <- err
	}()
	return func() error { return <-done }
}

// writeKinds writes what an API server was asked for, per cluster, the most
// frequent first.
func writeKinds(r fleet.Requests, clusters int, dir, name string) error {
	if dir == "" {
		return nil
	}
	kinds := slices.SortedFunc(maps.Keys(r.ByKind), func(a, b string) int {
		if r.ByKind[a] != r.ByKind[b] {
			return int(r.ByKind[b] - r.ByKind[a])
		}
		return strings.Compare(a, b)
	})
	var text strings.Builder
	for _, kind := range kinds {
		if r.ByKind[kind] > 0 {
			fmt.Fprintf(&text, "%8.2f %s\n", r.ByKind[kind]/float64(clusters), kind)
		}
	}
	return os.WriteFile(filepath.Join(dir, name+".requests"), []byte(text.String()), 0o600)
}
