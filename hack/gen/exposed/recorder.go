// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package exposed

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is what a reader sees of a metric.
type Metric struct {
	Kind   string
	Help   string
	Labels []string
	// Components are those that register it, sorted.
	Components []string
}

// recorder is a registry that notes what a component registers.
type recorder struct {
	*prometheus.Registry
	component string
	into      map[string]Metric
}

// Register implements prometheus.Registerer.
func (r *recorder) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 64)
	c.Describe(described)
	close(described)
	for desc := range described {
		if err := r.note(c, desc); err != nil {
			return err
		}
	}
	return r.Registry.Register(c) //nolint:wrapcheck // it is that registry
}

func (r *recorder) note(c prometheus.Collector, desc *prometheus.Desc) error {
	name, found, err := parseDescription(desc)
	if err != nil {
		return err
	}
	if found.Kind, err = kindOf(c); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := found.checkConventions(name); err != nil {
		return fmt.Errorf("%s of %s: %w", name, r.component, err)
	}
	known, twice := r.into[name]
	if twice && (known.Kind != found.Kind || known.Help != found.Help) {
		return fmt.Errorf("%s of %s is another metric than that of %v", name, r.component, known.Components)
	}
	found.Components = slices.Compact(slices.Sorted(slices.Values(append(known.Components, r.component))))
	r.into[name] = found
	return nil
}

// checkConventions compares a metric with the conventions of Prometheus, and with what a table takes.
func (m Metric) checkConventions(name string) error {
	if m.Help == "" || strings.Contains(m.Help, "|") {
		return fmt.Errorf("its help is %q, which is no cell of a table", m.Help)
	}
	if (m.Kind == "counter") != strings.HasSuffix(name, "_total") {
		return fmt.Errorf("it is a %s: counters, and they alone, end with _total", m.Kind)
	}
	for _, label := range m.Labels {
		if slices.Contains([]string{"namespace", "pod", "container", "job", "instance"}, label) {
			return fmt.Errorf("it has the label %q, which those who scrape it set", label)
		}
	}
	return nil
}

// parseDescription reads a description, which tells nothing but by its text.
func parseDescription(desc *prometheus.Desc) (name string, found Metric, err error) {
	parts := regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*)", unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`).FindStringSubmatch(desc.String())
	if parts == nil {
		return "", Metric{}, fmt.Errorf("%s is in no form that is known", desc)
	}
	for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(parts[3], -1) {
		found.Labels = append(found.Labels, constant[1])
	}
	if parts[4] != "" {
		found.Labels = append(found.Labels, strings.Split(parts[4], ",")...)
	}
	found.Help = strings.ReplaceAll(parts[2], `\"`, `"`)
	return parts[1], found, nil
}

func kindOf(c prometheus.Collector) (string, error) {
	switch c := c.(type) {
	case interface{ Type() string }:
		return c.Type(), nil
	case *prometheus.CounterVec:
		return "counter", nil
	case *prometheus.GaugeVec:
		return "gauge", nil
	case *prometheus.HistogramVec:
		return "histogram", nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(c); err != nil {
		return "", fmt.Errorf("registering %T: %w", c, err)
	}
	families, err := registry.Gather()
	if err == nil && len(families) != 1 {
		err = errors.New("it has not one metric")
	}
	if err != nil {
		return "", fmt.Errorf("collecting what %T has: %w", c, err)
	}
	return strings.ToLower(families[0].GetType().String()), nil
}
