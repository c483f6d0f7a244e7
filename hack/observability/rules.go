// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	runbooks  = "https://github.com/capstan-io/capstan/blob/main/docs/runbooks/"
	generated = "# Generated from hack/observability/alerts.yaml by 'make generate-observability'.\n"
	// ofComponent is what the label component comes from: all metrics of a process
	// have the labels of its target, and one of them tells which component it is.
	ofComponent = "* on (cluster, namespace, job, instance) group_left (component) " +
		"group by (cluster, namespace, job, instance, component) (capstan_build_info)"
)

// Alerts are the groups of alerts.
type Alerts struct {
	Groups []struct {
		Name   string  `json:"name"`
		Alerts []Alert `json:"alerts"`
	} `json:"groups"`
}

// Alert is what an alert is described by. In Expr, <component> adds the label
// component to a vector.
type Alert struct {
	Name        string `json:"name"`
	Expr        string `json:"expr"`
	For         string `json:"for"`
	Severity    string `json:"severity"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
}

// Rules is the content of a rule file of Prometheus.
type Rules struct {
	Groups []Group `json:"groups"`
}

// Group is a group of rules.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Rule is an alerting rule.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// rules returns the rule file, and the object that has it for the operator of
// Prometheus.
func rules(root string) (map[string][]byte, error) {
	alerts := Alerts{}
	if err := read(filepath.Join(root, source, "alerts.yaml"), &alerts); err != nil {
		return nil, err
	}
	file := Rules{}
	for _, group := range alerts.Groups {
		made := Group{Name: group.Name}
		for _, alert := range group.Alerts {
			made.Rules = append(made.Rules, alert.rule())
		}
		file.Groups = append(file.Groups, made)
	}
	plain, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("writing the rule file: %w", err)
	}
	object, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata":   map[string]any{"name": "capstan", "labels": map[string]string{"app.kubernetes.io/part-of": "capstan"}},
		"spec":       file,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the PrometheusRule: %w", err)
	}
	return map[string][]byte{
		"prometheus-rules.yaml": append([]byte(generated), plain...),
		"prometheusrule.yaml":   append([]byte(generated), object...),
	}, nil
}

func (a *Alert) rule() Rule {
	return Rule{
		Alert: a.Name, Expr: strings.ReplaceAll(a.Expr, "<component>", ofComponent), For: a.For,
		Labels: map[string]string{"severity": a.Severity},
		Annotations: map[string]string{
			"summary": a.Summary, "description": a.Description, "runbook_url": runbooks + a.Name + ".md",
		},
	}
}
