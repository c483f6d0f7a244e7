// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// Server-side apply refuses an object with a field that its OpenAPI schema does not
// declare, whatever fieldValidation says. It says so in text only.
const (
	undeclaredPrefix = "failed to create typed patch object "
	undeclaredSuffix = ": field not declared in schema"
	// undeclaredLinesMax is how many lines of an error are looked at: a member chooses them.
	undeclaredLinesMax = 100
)

// IsUndeclared reports whether an error of Member.Apply is about fields that are not declared in the
// schema of the server.
func IsUndeclared(err error) bool {
	_, is := undeclaredText(err)
	return is
}

func undeclaredText(err error) (text string, is bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	return strings.CutPrefix(status.Status().Message, undeclaredPrefix)
}

// UndeclaredFields returns the fields of the content that an error of Member.Apply says are not
// declared in the schema of the server, nil if it says something else. The server names one
// field of each map at a time. Fields without which there is no object are never among them.
func UndeclaredFields(err error, content map[string]any) []ignore.Path {
	text, is := undeclaredText(err)
	if !is {
		return nil
	}
	_, text, _ = strings.Cut(text, "): ")
	var paths []ignore.Path
	looked := 0
	for line := range strings.Lines(text) {
		if looked++; looked > undeclaredLinesMax {
			break // the rest is named the next time
		}
		name, isField := strings.CutSuffix(strings.TrimSpace(line), undeclaredSuffix)
		if !isField {
			continue
		}
		if path := locateField(content, name); isOptional(path) {
			paths = append(paths, path)
		}
	}
	return ignore.MinimalPaths(paths)
}

// isOptional reports whether an object can do without what is at the path.
func isOptional(path ignore.Path) bool {
	switch {
	case len(path) == 0:
		return false
	case path[0] == "metadata":
		return len(path) > 1 && path[1] != "name"
	default:
		return path[0] != "apiVersion" && path[0] != "kind"
	}
}

// locateField returns the path of what the API server names in the notation of fieldpath.Path:
// .spec.containers[name="a"].image; nil if there is nothing. Names may contain any
// character, so they are compared with those that there are.
func locateField(value any, name string) ignore.Path {
	switch container := value.(type) {
	case map[string]any:
		for key, inner := range container {
			rest, is := strings.CutPrefix(name, "."+key)
			if !is {
				continue
			}
			if rest == "" {
				return ignore.Path{key}
			}
			if below := locateField(inner, rest); below != nil {
				return append(ignore.Path{key}, below...)
			}
		}
	case []any:
		for _, whole := range []bool{true, false} { // an item with all keys is meant first
			for i, item := range container {
				rest, is := cutItem(name, i, item, whole)
				if !is {
					continue
				}
				if below := locateField(item, rest); below != nil {
					return append(ignore.Path{i}, below...)
				}
			}
		}
	}
	return nil
}

// cutItem returns the name without what leads to an item of a list: its index, or its keys.
// A key that the item does not have is one that the API sets by default; whole says that it
// has to have all.
func cutItem(name string, index int, item any, whole bool) (rest string, is bool) {
	if rest, is = strings.CutPrefix(name, fmt.Sprintf("[%d]", index)); is {
		return rest, whole // once: an index leads to the same item in both rounds
	}
	entries, isMap := item.(map[string]any)
	rest, is = strings.CutPrefix(name, "[")
	for isMap && is {
		key, after, found := strings.Cut(rest, "=")
		if !found {
			return "", false
		}
		switch value, has := entries[key]; {
		case has:
			after, is = strings.CutPrefix(after, formatKeyLiteral(value))
		case whole:
			is = false
		default:
			after = after[strings.IndexAny(after+"]", ",]"):]
		}
		if !is {
			return "", false
		}
		if rest, found = strings.CutPrefix(after, "]"); found {
			return rest, true
		}
		rest, is = strings.CutPrefix(after, ",")
	}
	return "", false
}

// formatKeyLiteral returns a key of a list item as a path has it.
func formatKeyLiteral(value any) string {
	if text, isText := value.(string); isText {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprint(value)
}

// FieldName returns a path as users write it in commands: .spec.containers[0].image.
func FieldName(path ignore.Path) string {
	var name strings.Builder
	for _, step := range path {
		if index, isIndex := step.(int); isIndex {
			fmt.Fprintf(&name, "[%d]", index)
		} else {
			fmt.Fprintf(&name, ".%v", step)
		}
	}
	return name.String()
}
