// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// columns is the width of a dashboard of Grafana.
	columns = 24
	// rowHeight is that of a heading.
	rowHeight = 1
	// schema is the version of Grafana's format that is written; newer Grafanas
	// convert it.
	schema = 39
	// tag is what the dashboards find each other by.
	tag = "capstan"
)

// Board is what a dashboard is described by.
type Board struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Components is the regular expression of components among which the variable
	// component lets choose.
	Components string `json:"components"`
	Rows       []Row  `json:"rows"`
}

// Row is a heading with panels below it.
type Row struct {
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// Panel is one diagram. Unit is Grafana's name of the unit.
type Panel struct {
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Kind        string  `json:"kind"` // timeseries (the default), stat or table
	Unit        string  `json:"unit"`
	Width       int     `json:"width"`
	Height      int     `json:"height"`
	Stacked     bool    `json:"stacked"`
	Queries     []Query `json:"queries"`
	// Thresholds are the values from which on the color is yellow, and red.
	Thresholds []float64 `json:"thresholds"`
}

// Query is an expression of Prometheus, in which <scope> selects what the
// variables cluster and namespace choose, and <component> the component's, with
// the label component; and the name of each series that it returns.
type Query struct {
	Expr   string `json:"expr"`
	Legend string `json:"legend"`
}

const scope = `cluster=~"$cluster",namespace=~"$namespace"`

func (q *Query) expand() string {
	return strings.NewReplacer(
		"<scope>", scope,
		"<component>", strings.Replace(ofComponent, "(capstan_build_info)", "(capstan_build_info{"+scope+`,component=~"$component"})`, 1),
	).Replace(q.Expr)
}

type object = map[string]any

// datasource is never a certain one: the variable says which.
func datasource() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// render returns the dashboard as Grafana reads it.
func (b *Board) render() ([]byte, error) {
	panels, id, y := []object{}, 0, 0
	next := func() int { id++; return id }
	for _, row := range b.Rows {
		panels = append(panels, object{
			"id": next(), "type": "row", "title": row.Title, "collapsed": false, "panels": []any{},
			"gridPos": object{"x": 0, "y": y, "w": columns, "h": rowHeight},
		})
		y += rowHeight
		x, tallest := 0, 0
		for _, panel := range row.Panels {
			width, height := cmp.Or(panel.Width, columns/2), cmp.Or(panel.Height, 8)
			if x+width > columns {
				x, y, tallest = 0, y+tallest, 0
			}
			made, err := panel.render(next())
			if err != nil {
				return nil, fmt.Errorf("panel %q: %w", panel.Title, err)
			}
			made["gridPos"] = object{"x": x, "y": y, "w": width, "h": height}
			panels = append(panels, made)
			x, tallest = x+width, max(tallest, height)
		}
		y += tallest
	}
	return encode(object{
		"uid": "capstan-" + b.Name, "title": b.Title, "description": b.Description, "tags": []string{tag},
		"schemaVersion": schema, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "1m", "timezone": "browser",
		"time":        object{"from": "now-6h", "to": "now"},
		"annotations": object{"list": []any{}},
		"links": []object{{
			"type": "dashboards", "title": "Capstan", "tags": []string{tag}, "asDropdown": true, "includeVars": true, "keepTime": true,
		}},
		"templating": object{"list": b.variables()},
		"panels":     panels,
	})
}

// variables are the same for all dashboards, so that links between them keep the
// values.
func (b *Board) variables() []object {
	choice := func(name, label, description, query string) object {
		return object{
			"type": "query", "name": name, "label": label, "description": description, "datasource": datasource(),
			"query": object{"query": query, "refId": name}, "definition": query, "refresh": 2, "sort": 1,
			// All is a pattern that matches series without the label, too.
			"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		}
	}
	components := fmt.Sprintf("component=~%q", cmp.Or(b.Components, ".+"))
	return []object{
		{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1},
		choice("cluster", "Cluster", "The cluster whose Prometheus this comes from, if several write to the data source.",
			"label_values(capstan_build_info, cluster)"),
		choice("namespace", "Namespace", "The namespace where the components run.",
			fmt.Sprintf(`label_values(capstan_build_info{cluster=~"$cluster",%s}, namespace)`, components)),
		choice("component", "Component", "The component that the process is.",
			fmt.Sprintf("label_values(capstan_build_info{%s,%s}, component)", scope, components)),
	}
}

func (p *Panel) render(id int) (object, error) {
	defaults := object{"unit": p.Unit}
	if len(p.Thresholds) > 0 {
		defaults["thresholds"], defaults["color"] = steps(p.Thresholds), object{"mode": "thresholds"}
	}
	made := object{
		"id": id, "type": cmp.Or(p.Kind, "timeseries"), "title": p.Title, "description": p.Description,
		"datasource": datasource(), "fieldConfig": object{"defaults": defaults, "overrides": []any{}},
	}
	instant := false
	switch made["type"] {
	case "timeseries":
		custom := object{"fillOpacity": 10, "showPoints": "never"}
		if p.Stacked {
			custom["stacking"] = object{"mode": "normal"}
		}
		defaults["custom"], defaults["min"] = custom, 0
		made["options"] = object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	case "stat":
		instant = true
		made["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "graphMode": "none", "textMode": "auto"}
	case "table":
		instant = true
		made["transformations"] = []object{{"id": "organize", "options": object{"excludeByName": object{"Time": true}}}}
	default:
		return nil, fmt.Errorf("kind %q is unknown: it has to be timeseries, stat or table", p.Kind)
	}
	targets := []object{}
	for i, query := range p.Queries {
		made := object{
			"refId": string(rune('A' + i)), "datasource": datasource(), "expr": query.expand(),
			"legendFormat": query.Legend, "instant": instant, "range": !instant,
		}
		if p.Kind == "table" {
			made["format"] = "table"
		}
		targets = append(targets, made)
	}
	made["targets"] = targets
	return made, nil
}

// steps returns green, and then yellow and red from the thresholds on.
func steps(thresholds []float64) object {
	colors := []string{"yellow", "red"}
	made := []object{{"color": "green", "value": nil}}
	if len(thresholds) == 1 {
		colors = colors[1:]
	}
	for i, threshold := range thresholds {
		made = append(made, object{"color": colors[i], "value": threshold})
	}
	return object{"mode": "absolute", "steps": made}
}

// encode leaves < and > in expressions as they are.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	return out.Bytes(), nil
}
