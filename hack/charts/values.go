// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// value is one that the user of a chart may set. The list of them is the one
// source of values.yaml, of its schema, and of the table in the README.
type value struct {
	path    string // such as images.registry
	text    string // what it is, as a sentence without a full stop
	initial any
	schema  object
	// spec is a path in the spec of the operator's object, such as
	// workConfiguration: the value is checked as the definition says.
	spec string
}

// The schemas of values.
func boolean() object                { return object{"type": "boolean"} }
func text() object                   { return object{"type": "string"} }
func list(of object) object          { return object{"type": "array", "items": of} }
func texts() object                  { return object{"type": "object", "additionalProperties": text()} }
func oneOf(names ...string) object   { return object{"type": "string", "enum": names} }
func matching(pattern string) object { return object{"type": "string", "pattern": pattern} }
func number(least int64) object      { return object{"type": "integer", "minimum": least} }
func described(s object, text string) object {
	s["description"] = text + "."
	return s
}

// schema returns values.schema.json. It refuses names that no value has, as a
// mistyped one would be ignored silently otherwise.
func (c chart) schema(definition *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	root := object{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart " + c.name, "type": "object", "additionalProperties": false,
		// Helm passes these to charts that are parts of others.
		"properties": object{"global": object{"type": "object"}},
	}
	for _, v := range c.values {
		schema := v.schema
		if v.spec != "" {
			var err error
			if schema, err = specSchema(definition, v.spec); err != nil {
				return nil, err
			}
		}
		names := strings.Split(v.path, ".")
		parent := root
		for _, name := range names[:len(names)-1] {
			properties, _ := parent["properties"].(object)
			child, ok := properties[name].(object)
			if !ok {
				child = object{"type": "object", "additionalProperties": false, "properties": object{}}
				properties[name] = child
			}
			parent = child
		}
		properties, _ := parent["properties"].(object)
		properties[names[len(names)-1]] = described(schema, v.text)
	}
	content := &bytes.Buffer{}
	encoder := json.NewEncoder(content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(root)
	return content.Bytes(), err
}

// specSchema returns the schema of a part of the spec of the operator's object.
func specSchema(definition *apiextensionsv1.CustomResourceDefinition, path string) (object, error) {
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	for name := range strings.SplitSeq(path, ".") {
		child, ok := schema.Properties[name]
		if !ok {
			return nil, fmt.Errorf("the spec of a %s has no %s", definition.Spec.Names.Kind, path)
		}
		schema = child
	}
	encoded, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("encoding the schema of %s: %w", path, err)
	}
	o := object{}
	if err := json.Unmarshal(encoded, &o); err != nil {
		return nil, fmt.Errorf("decoding the schema of %s: %w", path, err)
	}
	return plain(o), nil
}

// plain returns a schema of a definition as one of draft 7: without what only
// Kubernetes knows. The API server refuses what this lets pass.
func plain(schema object) object {
	for name, child := range schema {
		switch {
		case strings.HasPrefix(name, "x-kubernetes-"), name == "default", name == "format", name == "required":
			// What is required may have a default, which an API server sets first.
			delete(schema, name)
		case name == "properties":
			properties, _ := child.(object)
			for key, property := range properties {
				if p, ok := property.(object); ok {
					properties[key] = plain(p)
				}
			}
			schema["additionalProperties"] = false
		case name == "items" || name == "additionalProperties":
			if c, ok := child.(object); ok {
				schema[name] = plain(c)
			}
		}
	}
	if len(schema) == 0 || schema["type"] == nil && schema["anyOf"] == nil { // a quantity
		delete(schema, "additionalProperties")
	}
	return schema
}

// valuesFile returns values.yaml, with what each value is.
func (c chart) valuesFile() ([]byte, error) {
	var lines strings.Builder
	fmt.Fprintf(&lines, "# Values of the chart %s. values.schema.json has all that may be set in each.\n", c.name)
	var open []string
	for _, v := range c.values {
		names := strings.Split(v.path, ".")
		parents := names[:len(names)-1]
		shared := 0
		for shared < len(parents) && shared < len(open) && parents[shared] == open[shared] {
			shared++
		}
		for i := shared; i < len(parents); i++ {
			fmt.Fprintf(&lines, "%s%s:\n", strings.Repeat("  ", i), parents[i])
		}
		open = parents
		indent := strings.Repeat("  ", len(parents))
		for _, line := range wrap(v.text+".", 110-len(indent)) {
			fmt.Fprintf(&lines, "%s# %s\n", indent, line)
		}
		encoded, err := sigsyaml.Marshal(object{names[len(names)-1]: v.initial})
		if err != nil {
			return nil, fmt.Errorf("encoding the value %s: %w", v.path, err)
		}
		for line := range strings.Lines(string(encoded)) {
			lines.WriteString(indent + line)
		}
	}
	return []byte(lines.String()), nil
}

// wrap breaks a text into lines.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// table returns the values as a table for the README.
func (c chart) table() (string, error) {
	var rows strings.Builder
	rows.WriteString("| value | default | what it is |\n|---|---|---|\n")
	for _, v := range c.values {
		encoded, err := json.Marshal(v.initial)
		if err != nil {
			return "", fmt.Errorf("encoding the value %s: %w", v.path, err)
		}
		initial := "`" + string(encoded) + "`"
		if len(encoded) > 60 {
			initial = "see `values.yaml`"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", v.path, initial, v.text)
	}
	return rows.String(), nil
}
