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

// schemaTypes are those of a group version, in which the objects of one kind have a root. In those
// without any, nothing is known.
type schemaTypes struct {
	all  *schema.Schema
	root schema.TypeRef
}

// parseSchemaTypes returns the types in an OpenAPI document that is bounded. It is read as API servers read
// theirs for server-side apply.
func parseSchemaTypes(document []byte, kind runtimeschema.GroupVersionKind) *schemaTypes {
	var page struct {
		Components struct {
			Schemas map[string]*spec.Schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &page); err != nil {
		return &schemaTypes{}
	}
	root := ""
	for name, declared := range page.Components.Schemas {
		switch {
		case declared == nil || len(name) > nameMax: // which no API server says
			return &schemaTypes{}
		case describesKind(declared, kind):
			root = name
		}
	}
	all, err := schemaconv.ToSchemaFromOpenAPI(page.Components.Schemas, false)
	if err != nil || root == "" {
		return &schemaTypes{}
	}
	return &schemaTypes{all: all, root: schema.TypeRef{NamedType: &root}}
}

// resolveIsAtomic answers what Declared is asked.
func (t *schemaTypes) resolveIsAtomic(path fieldpath.Path, list bool) atomicAnswer {
	if t.all == nil {
		return atomicAnswer{}
	}
	atom, known := t.all.Resolve(t.root)
	for _, element := range path {
		if !known {
			return atomicAnswer{}
		}
		atom, known = t.resolveElement(atom, element)
	}
	switch {
	case known && list && atom.List != nil:
		return atomicAnswer{one: atom.List.ElementRelationship != schema.Associative, known: true}
	case known && !list && atom.Map != nil:
		return atomicAnswer{one: atom.Map.ElementRelationship == schema.Atomic, known: true}
	default: // not declared, or as something else
		return atomicAnswer{}
	}
}

// resolveElement returns the type of what an element of a path leads to.
func (t *schemaTypes) resolveElement(around schema.Atom, element fieldpath.PathElement) (atom schema.Atom, known bool) {
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

// describesKind reports whether a type is that of the objects of a kind.
func describesKind(declared *spec.Schema, kind runtimeschema.GroupVersionKind) bool {
	kinds, _ := declared.Extensions[extensionKind].([]any)
	for _, each := range kinds {
		of, _ := each.(map[string]any)
		if of["group"] == kind.Group && of["version"] == kind.Version && of["kind"] == kind.Kind {
			return true
		}
	}
	return false
}
