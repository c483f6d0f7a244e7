// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package declared

import (
	"encoding/json"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// extensionKind is what the type of a whole object is marked with.
const extensionKind = "x-kubernetes-group-version-kind"

// types are those of a group version, in which the objects of one kind have a root. In those
// without any, nothing is known.
type types struct {
	all  *schema.Schema
	root schema.TypeRef
}

// typesIn returns the types in an OpenAPI document that is bounded. It is read as API servers read
// theirs for server-side apply.
func typesIn(document []byte, kind runtimeschema.GroupVersionKind) *types {
	var page struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &page); err != nil {
		return &types{}
	}
	root := ""
	for name, declared := range page.Components.Schemas {
		switch {
		case declared == nil || len(name) > nameMax: // which no API server says
			return &types{}
		case isOf(declared, kind):
			root = name
		}
	}
	all, err := schemaconv.ToSchemaFromOpenAPI(page.Components.Schemas, false)
	if err != nil || root == "" {
		return &types{}
	}
	return &types{all: all, root: schema.TypeRef{NamedType: &root}}
}

// isOne answers what Declared is asked.
func (t *types) isOne(path fieldpath.Path, list bool) answer {
	if t.all == nil {
		return answer{}
	}
	atom, known := t.all.Resolve(t.root)
	for _, element := range path {
		if !known {
			return answer{}
		}
		atom, known = t.inside(atom, element)
	}
	switch {
	case known && list && atom.List != nil:
		return answer{one: atom.List.ElementRelationship != schema.Associative, known: true}
	case known && !list && atom.Map != nil:
		return answer{one: atom.Map.ElementRelationship == schema.Atomic, known: true}
	default: // not declared, or as something else
		return answer{}
	}
}

// inside returns the type of what an element of a path leads to.
func (t *types) inside(around schema.Atom, element fieldpath.PathElement) (atom schema.Atom, known bool) {
	switch {
	case element.FieldName == nil && around.List != nil:
		return t.all.Resolve(around.List.ElementType)
	case element.FieldName != nil && around.Map != nil:
		if field, is := around.FindField(*element.FieldName); is {
			return t.all.Resolve(field.Type)
		}
		return t.all.Resolve(around.Map.ElementType)
	default:
		return schema.Atom{}, false
	}
}

// isOf reports whether a type is that of the objects of a kind.
func isOf(declared *spec.Schema, kind runtimeschema.GroupVersionKind) bool {
	kinds, _ := declared.Extensions[extensionKind].([]any)
	for _, each := range kinds {
		of, _ := each.(map[string]any)
		if of["group"] == kind.Group && of["version"] == kind.Version && of["kind"] == kind.Kind {
			return true
		}
	}
	return false
}
